"""Positions of a ViT, trained again where that is cheap."""

from statistics import median

import pytest
import torch

from experiments.vit_positions import KINDS, RECIPES, alike, run
from lib.data import results

STORED = results("vit_positions")["runs"]
CHANGES = results("vit_positions")["changes"]


def test_trained_again_it_is_the_same():
    again, stored = run(0, "random large"), STORED["random large"][0]
    assert again["test"] == pytest.approx(stored["test"], abs=0.03)
    assert again["curve"][:2] == pytest.approx(stored["curve"][:2], abs=0.15)


def test_every_recipe_has_five_seeds():
    assert {name: len(runs) for name, runs in STORED.items()} == dict.fromkeys(RECIPES, 5)


def test_every_kind_of_change_has_five_seeds():
    assert {name: len(runs) for name, runs in CHANGES.items()} == dict.fromkeys(KINDS, 5)


def test_vectors_that_are_the_same_within_a_quadrant_have_cosine_one_there_and_minus_a_third_across():
    corners = torch.eye(4)[[2 * (place // 8) + place % 4 // 2 for place in range(16)]]
    assert alike(corners) == pytest.approx([1.0, -1 / 3])


def test_scale_matters_more_than_structure():
    test = {name: [each["test"] for each in runs] for name, runs in STORED.items()}
    assert min(test["random large"] + test["sinusoidal large"]) > max(test["sinusoidal small"] + test["random small"])


def test_the_standard_start_succeeds_when_trained_longer_and_no_positions_is_chance():
    test = {name: [each["test"] for each in runs] for name, runs in STORED.items()}
    assert median(test["random small long"]) > 0.95 > max(test["random small"])
    assert max(abs(each - 0.25) for each in test["none"]) < 0.04
