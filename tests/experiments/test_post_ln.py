"""Deep stacks: what is stored, and the first steps of the cheapest again."""

from statistics import median

import pytest

from experiments.post_ln import RECIPES, prepare
from experiments.training import first_losses, tens
from lib.data import results

STORED = results("post_ln")["runs"]
BY_POSITION = 1.242  # the best loss that ignores the input


def losses(recipe: str) -> list[float]:
    return [each["test"] for each in STORED[recipe]]


def test_trained_again_it_begins_the_same():
    model, options = prepare(0, "post 2")
    assert tens(first_losses(model, count=60, **options)) == pytest.approx(STORED["post 2"][0]["loss"][:6], abs=0.02)


def test_every_recipe_has_five_seeds():
    assert {name: len(runs) for name, runs in STORED.items()} == dict.fromkeys(RECIPES, 5)


def test_deep_pre_ln_and_shallow_post_ln_need_no_warm_up():
    for recipe in ("pre 12", "post 2"):
        assert max(losses(recipe)) < 0.1


def test_deep_post_ln_at_that_rate_stays_at_guessing_and_warm_up_helps_some_seeds_only():
    assert min(losses("post 12")) > 1.75
    warm = losses("post 12 warm")
    assert min(warm) < 0.2
    assert max(warm) > BY_POSITION
    assert median(warm) > 1.2


def test_at_a_quarter_of_the_rate_warm_up_makes_deep_post_ln_learn_for_every_seed():
    assert max(losses("post 12 slow warm")) < 0.1
    assert min(losses("post 12 slow")) > 0.2
    assert max(losses("post 12 slow")) > BY_POSITION
