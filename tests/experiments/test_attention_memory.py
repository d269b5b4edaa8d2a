"""Peak memory and operations, measured again where they are small."""

from itertools import pairwise

import pytest
import torch

from experiments.attention_memory import LENGTHS, PeakMemory, run
from lib.data import results

STORED = results("attention_memory")
KINDS = STORED["kinds"]


@pytest.mark.parametrize(("kind", "block"), [("whole", None), ("64", 64), ("128", 128), ("256", 256)])
def test_measured_again_it_is_the_same(kind: str, block: int | None):
    for length in (128, 512):
        stored = KINDS[kind][LENGTHS.index(length)]
        again = run(length, block)
        assert {key: value for key, value in again.items() if "flops" in key} == {
            key: value for key, value in stored.items() if "flops" in key
        }
        for key in ("bytes", "bytes_both"):
            assert again[key] == pytest.approx(stored[key], rel=0.02)


def test_the_counter_sees_what_is_alive_and_not_what_is_gone():
    x = torch.ones(1000)  # 4000 bytes, which don't count
    with PeakMemory([x]) as memory:
        y = x + 1
        y = y + 1  # two at once
        y = y[:10] + 1  # the large ones go
        del y
    assert memory.peak == 8000
    with PeakMemory([x]) as memory:
        kept = [x + n for n in range(5)]
    assert memory.peak == 4000 * len(kept)


def growth(kind: str, key: str) -> list[float]:
    """Factors by which a doubled length multiplies, from 1024 tokens on."""
    values = [row[key] for row in KINDS[kind]][LENGTHS.index(1024) :]
    return [after / before for before, after in pairwise(values)]


@pytest.mark.parametrize("key", ["bytes", "bytes_both"])
def test_the_matrix_grows_as_t_squared_and_tiles_as_t(key: str):
    assert growth("whole", key) == pytest.approx([4, 4, 4], rel=0.05)
    for factor in growth("64", key):
        assert factor == pytest.approx(2, rel=0.15)


def test_operations_are_four_forward_and_eight_or_ten_backward():
    for kind, rows in KINDS.items():
        for length, row in zip(LENGTHS, rows, strict=True):
            assert row["flops"] == 4 * length**2 * 64
            assert row["flops_both"] - row["flops"] == (8 if kind == "whole" else 10) * length**2 * 64


def test_at_8192_tokens_tiles_need_little():
    for key in ("bytes", "bytes_both"):
        assert KINDS["64"][-1][key] < KINDS["whole"][-1][key] / 50
