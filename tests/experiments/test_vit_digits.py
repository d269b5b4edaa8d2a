"""A ViT beside a convolutional network, trained again where that is cheap."""

import pytest
import torch
from torch import nn

from experiments.vit_digits import AMOUNTS, LARGER, RATES, SIZES, Split, moved, run
from lib.data import results

STORED = results("vit_digits")["models"]
LARGEST = results("vit_digits")["at the larger rate"]


def test_trained_again_it_is_the_same():
    stored = STORED["vit 8"]["1197"]
    again = run(0, "vit 8", 1197, stored["rate"])
    assert again["test"] == pytest.approx(stored["runs"][0]["test"], abs=0.03)
    assert again["moved"] == pytest.approx(stored["runs"][0]["moved"], abs=0.08)


def test_all_are_tuned_alike_with_five_seeds():
    assert set(STORED) == {"cnn", *(f"vit {size}" for size in SIZES)}
    for name, amounts in STORED.items():
        assert list(amounts) == ([str(each) for each in AMOUNTS] if name in ("cnn", "vit 2") else ["1197"])
        for found in amounts.values():
            assert len(found["runs"]) == 5
            assert found["rate"] == RATES[found["validation"].index(max(found["validation"]))]


def test_a_rate_larger_than_all_that_were_offered_is_worse_for_both_models_on_few_images():
    assert max(RATES) < LARGER
    for name in ("cnn", "vit 2"):
        assert len(LARGEST[name]) == 5
        for each in LARGEST[name]:
            assert each["validation"] < min(run["validation"] for run in STORED[name]["100"]["runs"])


def test_no_digit_is_both_in_training_and_in_the_test():
    split = Split(3)
    assert torch.arange(1797)[split.test].min() >= torch.arange(1797)[split.validation].max() > 1197
    assert len(split.images[split.validation]) == 200
    assert len(split.images[split.test]) == 400


def test_moving_by_a_pixel_changes_nothing_for_a_model_that_always_says_the_same():
    split, always = Split(0), nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    always.load_state_dict({"1.weight": torch.zeros(10, 64), "1.bias": torch.arange(10.0)})  # always says 9
    share = (split.labels[split.test] == 9).float().mean().item()
    assert moved(always, split) == pytest.approx(share)
