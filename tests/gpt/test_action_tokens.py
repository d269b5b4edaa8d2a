"""Bins: what lands where, and how far the middle of a bin is from what went in."""

import math

import pytest
import torch
from torch import Tensor

from lib.gpt import from_bins, to_bins


@pytest.mark.parametrize(("low", "high", "bins"), [(-1.0, 1.0, 256), (0.0, 7.0, 5), (-3.0, -2.5, 1)])
def test_the_middle_of_a_bin_is_at_most_half_a_bin_away(low: float, high: float, bins: int):
    values = torch.linspace(low, high, 10_001, dtype=torch.float64)
    error = (from_bins(to_bins(values, low, high, bins), low, high, bins) - values).abs()
    half = (high - low) / bins / 2
    assert error.max().item() == pytest.approx(half, rel=0.02)
    assert (error <= half + 1e-6).all()


def test_bins_are_of_equal_width_and_all_in_use():
    values = (torch.arange(12) + 0.5) / 12
    assert to_bins(values, 0.0, 1.0, 4).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_a_token_that_was_a_number_and_is_a_token_again_stays_the_same():
    tokens = torch.arange(256)
    assert torch.equal(to_bins(from_bins(tokens, -0.3, 2.0), -0.3, 2.0), tokens)


def test_the_ends_and_all_beyond_lie_in_the_outer_bins():
    values = torch.tensor([-math.inf, -9.0, -1.0, 1.0, 9.0, math.inf])
    assert to_bins(values, -1.0, 1.0, 10).tolist() == [0, 0, 0, 9, 9, 9]


def test_each_dimension_has_a_range_of_its_own():
    low, high = torch.tensor([0.0, -10.0]), torch.tensor([1.0, 10.0])
    values = torch.tensor([[0.5, 0.5], [0.1, -9.0], [0.9, 9.0]])
    tokens = to_bins(values, low, high, 10)
    assert tokens.tolist() == [[5, 5], [1, 0], [9, 9]]
    torch.testing.assert_close(from_bins(tokens, low, high, 10)[1], torch.tensor([0.15, -9.0]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: to_bins(torch.zeros(2), 1.0, 1.0), "low must be below high, got 1.0 and 1.0"),
        (lambda: to_bins(torch.zeros(2), 0.0, 1.0, 0), "bins must be at least 1, got 0"),
        (lambda: to_bins(torch.tensor([0.5, math.nan]), 0.0, 1.0), "values must be numbers, got NaN"),
        (lambda: from_bins(torch.tensor([0, 256]), 0.0, 1.0), r"within 0 … 255, got \[0, 256\]"),
        (lambda: from_bins(torch.tensor([-1]), 0.0, 1.0, 4), r"within 0 … 3, got \[-1\]"),
        (lambda: from_bins(torch.tensor([0.5]), 0.0, 1.0), "tokens must be integers"),
        (lambda: from_bins(torch.tensor([0]), torch.tensor([2.0]), torch.tensor([1.0])), "low must be below high"),
    ],
)
def test_bad_arguments_are_refused(call, message: str):
    with pytest.raises(ValueError, match=message):
        call()


def test_values_are_left_alone():
    values: Tensor = torch.tensor([-7.0, 0.2, 7.0])
    to_bins(values, 0.0, 1.0)
    assert values.tolist() == pytest.approx([-7.0, 0.2, 7.0])
