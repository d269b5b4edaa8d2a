"""The curves of equal compute: their cheapest cell trained again, and what the page concludes from them."""

from itertools import pairwise

import pytest

from experiments.isoflop import RATES, WIDTHS, run, steps_for, weights_multiplied
from lib.data import results
from lib.gpt import training_flops

STORED = results("isoflop")["runs"]


def test_trained_again_it_is_the_same():
    stored = min(STORED, key=lambda cell: cell["tokens"])
    assert run(0, stored["budget"], stored["width"], stored["rate"]) == pytest.approx(stored["loss"][0], abs=0.03)


def test_every_model_spends_its_budget_and_no_more():
    for cell in STORED:
        spent = training_flops(cell["size"], cell["tokens"])
        assert spent == pytest.approx(cell["budget"], rel=0.01)
        assert cell["size"] == weights_multiplied(cell["width"])
        assert cell["tokens"] == 128 * steps_for(cell["budget"], cell["width"])


def test_five_seeds_of_each_and_the_rate_that_was_best_on_another():
    assert {(cell["budget"], cell["width"]) for cell in STORED} == {(b, w) for b, ws in WIDTHS.items() for w in ws}
    for cell in STORED:
        assert len(cell["loss"]) == 5
        assert cell["rate"] == RATES[cell["tuning"].index(min(cell["tuning"]))]


def test_each_curve_has_its_lowest_point_inside():
    for budget in WIDTHS:
        losses = [cell["loss"] for cell in STORED if cell["budget"] == budget]
        for seed in zip(*losses, strict=True):
            assert min(seed) < min(seed[0], seed[-1])


def test_more_compute_is_always_better():
    lowest = [min(min(cell["loss"]) for cell in STORED if cell["budget"] == budget) for budget in WIDTHS]
    assert all(less > more for less, more in pairwise(lowest))
