"""What one wrong token costs, trained again for a few steps."""

from statistics import median

import pytest

from experiments.seq2seq_errors import KINDS, MARKS, run
from lib.data import results

STORED = results("seq2seq_errors")["runs"]


def after_the_fourth(kind: str) -> list[float]:
    return [sum(each["wrong"][3][4:]) / 4 for each in STORED[kind]]


def test_trained_again_it_is_the_same():
    again, stored = run(0, "noisy"), STORED["noisy"][0]
    assert again["free"][-1] == pytest.approx(stored["free"][-1], abs=0.02)
    assert again["free"][0] == pytest.approx(stored["free"][0], abs=0.1)


def test_every_kind_has_five_seeds_and_all_marks():
    assert {kind: [len(each["exact"]) for each in runs] for kind, runs in STORED.items()} == {
        kind: [len(MARKS)] * 5 for kind in KINDS
    }


def test_an_error_costs_most_where_each_output_rests_on_the_one_before_and_nothing_after_noise():
    cost = {kind: median(after_the_fourth(kind)) for kind in KINDS}
    assert cost["sums"] < cost["vector"] < cost["attention"] < cost["noisy"]
    assert min(after_the_fourth("noisy")) > 0.99
    assert max(after_the_fourth("sums")) < 0.2
