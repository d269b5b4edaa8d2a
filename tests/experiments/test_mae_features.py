"""Features of a masked autoencoder: the probe in closed form, and one seed trained again."""

import pytest
import torch
from torch import Generator

from experiments.mae_features import LABELS, PENALTIES, classifier, run
from lib.data import results

STORED = results("mae_features")["runs"]


def test_trained_again_it_is_the_same():
    again = run(0)
    for name, stored in STORED[0].items():
        for one, other in zip(again[name], stored, strict=True):
            assert one["test"] == pytest.approx(other["test"], abs=0.04)


def test_three_kinds_of_features_with_five_seeds():
    counts = dict.fromkeys(("mae", "drawn", "pixels"), len(LABELS))
    assert len(STORED) == 5
    for each in STORED:
        assert {name: len(found) for name, found in each.items()} == counts
        assert all(one["penalty"] in PENALTIES for found in each.values() for one in found)


def test_the_classifier_is_ridge_regression():
    x = torch.randn(40, 7, generator=Generator().manual_seed(0), dtype=torch.float64)
    x, labels = x - x.mean(0), torch.arange(40) % 10
    weight, bias = classifier(x, labels, 2.0)
    y = torch.eye(10, dtype=torch.float64)[labels]
    torch.testing.assert_close(x.T @ (x @ weight + bias - y) + 2.0 * weight, torch.zeros(7, 10, dtype=torch.float64))
