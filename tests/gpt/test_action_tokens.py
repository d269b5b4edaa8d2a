"""Bins: what lands where, and how far the middle of a bin is from what went in."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
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
        (lambda: to_bins(torch.zeros(2), 1.0, 1.0), "low must be below high and both finite, got 1.0 and 1.0"),
        (lambda: to_bins(torch.zeros(2), 0.0, 1.0, 0), "bins must be at least 1, got 0"),
        (lambda: to_bins(torch.tensor([0.5, math.nan]), 0.0, 1.0), "values must be numbers, got NaN"),
        (lambda: to_bins(torch.zeros(2), -math.inf, 1.0), "both finite, got -inf and 1.0"),
        (lambda: to_bins(torch.zeros(2), 0.0, math.nan), "both finite, got 0.0 and nan"),
        (lambda: to_bins(torch.zeros(2, 3), torch.zeros(4), 1.0), r"got \(4,\) and \(\) for \(2, 3\)"),
        (lambda: to_bins(torch.zeros(3), torch.zeros(4, 1), 1.0), r"got \(4, 1\) and \(\) for \(3,\)"),
        (lambda: from_bins(torch.zeros(3).long(), 0.0, torch.ones(2)), r"got \(\) and \(2,\) for \(3,\)"),
        (lambda: from_bins(torch.tensor([True]), 0.0, 1.0), "tokens must be integers, got torch.bool"),
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


HALF = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
FLOATS = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64], ids=str)
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def exact_bin(value: float, low: float, high: float, bins: int) -> int:
    """In rational numbers: a number of a floating-point type is one."""
    share = (Fraction(value) - Fraction(low)) / (Fraction(high) - Fraction(low))
    return min(max(math.floor(share * bins), 0), bins - 1)


@HALF
@pytest.mark.parametrize(("low", "high", "bins"), [(-1.0, 1.0, 256), (0.0, 1.0, 1000), (-100.0, 60_000.0, 4096)])
def test_half_precision_is_binned_exactly(dtype: torch.dtype, low: float, high: float, bins: int):
    values = (low + (high - low) * torch.linspace(-0.01, 1.01, 997)).to(dtype)
    assert to_bins(values, low, high, bins).tolist() == [exact_bin(v, low, high, bins) for v in values.tolist()]


def test_a_number_of_half_precision_near_an_edge():
    assert to_bins(torch.tensor([-0.4941], dtype=torch.bfloat16), -1.0, 1.0).tolist() == [64]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_are_binned_in_a_range_that_is_not_of_integers(dtype: torch.dtype):
    values = torch.arange(8, dtype=dtype)
    assert to_bins(values, -0.5, 7.5, 4).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert to_bins(values, torch.tensor(0), torch.tensor(8), 8).tolist() == list(range(8))


def test_integers_beyond_the_digits_of_float32_keep_them():
    values = torch.tensor([0, 1, 2, 3]) + 2**24
    assert to_bins(values, 2.0**24, 2.0**24 + 4, 4).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_tokens_may_be_integers_of_any_type(dtype: torch.dtype):
    tokens = torch.arange(128).to(dtype)
    assert torch.equal(from_bins(tokens, -1.0, 1.0), from_bins(torch.arange(128), -1.0, 1.0))


@FLOATS
def test_the_middles_are_rounded_once_to_the_type_of_low(dtype: torch.dtype):
    low, high = torch.tensor([-1.0, 0.0], dtype=dtype), torch.tensor([1.0, 3.0], dtype=dtype)
    tokens = torch.arange(256)[:, None].expand(256, 2)
    exact = low.double() + (tokens + 0.5) * (high - low).double() / 256
    assert torch.equal(from_bins(tokens, low, high), exact.to(dtype))


def test_the_type_is_the_default_one_where_low_is_no_floating_point_tensor():
    for low in (0, 0.0, torch.tensor(0)):
        assert from_bins(torch.tensor([1]), low, 4.0, 8).dtype == torch.get_default_dtype()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), ()])
def test_empty_tensors_and_single_numbers_keep_their_shape(shape: tuple[int, ...]):
    tokens = to_bins(torch.zeros(shape), -1.0, 1.0)
    assert tokens.shape == from_bins(tokens, -1.0, 1.0).shape == shape


@settings(max_examples=30)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9),
    st.floats(-1e3, 1e3),
    st.floats(1e-2, 1e3),
    st.integers(1, 999),
)
def test_any_number_of_the_range_comes_back_within_half_a_bin(shares: list[float], low: float, width: float, bins: int):
    values = torch.tensor(shares, dtype=torch.float64).clamp(low, low + width)
    tokens = to_bins(values, low, low + width, bins)
    assert ((tokens >= 0) & (tokens < bins)).all()
    rebuilt = from_bins(tokens, torch.tensor(low, dtype=torch.float64), low + width, bins)
    assert ((rebuilt - values).abs() <= width / bins / 2 * (1 + 1e-6)).all()
    assert torch.equal(to_bins(rebuilt, low, low + width, bins), tokens)


@pytest.mark.parametrize("ends", [(-1.0, 1.0), (torch.tensor([-1.0, 0.0]), torch.tensor([1.0, 0.5]))])
def test_it_compiles_whole_and_exports(ends: tuple):
    class RoundTrip(torch.nn.Module):
        def forward(self, values: Tensor) -> tuple[Tensor, Tensor]:
            tokens = to_bins(values, *ends)
            return tokens, from_bins(tokens, *ends)

    values, module = torch.tensor([[-7.0, 0.1], [0.3, 0.4], [1.0, 9.0]]), RoundTrip()
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    exported = torch.export.export(module, (values,), dynamic_shapes=({0: torch.export.Dim.AUTO},)).module()
    for run in (compiled, exported):
        for got, expected in zip(run(values.repeat(3, 1)), module(values.repeat(3, 1)), strict=True):
            assert torch.equal(got, expected)


@pytest.mark.parametrize("place", [0, 1])
def test_the_derivative_to_the_ends(place: int):
    ends = [torch.tensor([-1.0, 0.0], dtype=torch.float64), torch.tensor([1.0, 3.0], dtype=torch.float64)]
    ends[place].requires_grad_()
    tokens = torch.tensor([[3, 0], [255, 7]])
    assert torch.autograd.gradcheck(lambda low, high: from_bins(tokens, low, high), ends)
