"""Positions of a ViT, trained again where that is cheap."""

from statistics import median

import pytest

from experiments.vit_positions import RECIPES, run
from lib.data import results

STORED = results("vit_positions")["runs"]


def test_trained_again_it_is_the_same():
    again, stored = run(0, "random large"), STORED["random large"][0]
    assert again["test"] == pytest.approx(stored["test"], abs=0.03)
    assert again["curve"][:2] == pytest.approx(stored["curve"][:2], abs=0.15)


def test_every_recipe_has_five_seeds():
    assert {name: len(runs) for name, runs in STORED.items()} == dict.fromkeys(RECIPES, 5)


def test_scale_matters_more_than_structure():
    test = {name: [each["test"] for each in runs] for name, runs in STORED.items()}
    assert min(test["random large"] + test["sinusoidal large"]) > max(test["sinusoidal small"] + test["random small"])


def test_the_standard_start_succeeds_when_trained_longer_and_no_positions_is_chance():
    test = {name: [each["test"] for each in runs] for name, runs in STORED.items()}
    assert median(test["random small long"]) > 0.95 > max(test["random small"])
    assert max(abs(each - 0.25) for each in test["none"]) < 0.04
