"""Positions beyond the length trained on: what is stored, and the first steps again."""

import pytest

from experiments.transformer_lengths import KINDS, early
from lib.data import results

EARLY, STORED = (results("transformer_lengths")[name] for name in ("early", "runs"))


@pytest.mark.parametrize("kind", ["learned", "alibi"])
def test_trained_again_it_begins_the_same(kind: str):
    assert early(kind) == pytest.approx(EARLY[kind], abs=0.03)


def test_every_kind_has_five_seeds():
    assert {kind: len(runs) for kind, runs in STORED.items()} == dict.fromkeys(KINDS, 5)


def reach(kind: str, low: int, high: int) -> list[float]:
    return [sum(hits[low - 1 : high]) / (high - low + 1) for hits in STORED[kind]]


def test_learned_and_sinusoidal_fail_first_then_rope_and_alibi_never():
    for kind in ("sinusoidal", "learned"):
        assert min(reach(kind, 1, 15)) > 0.99
        assert max(reach(kind, 16, 31)) < 0.4
    assert min(reach("rope", 16, 31)) > 0.99
    assert max(reach("rope", 48, 63)) < 0.2
    assert min(reach("alibi", 48, 63)) > 0.98
    assert max(reach("none", 1, 15)) < 0.97
