"""Scaling laws: a law that is there is found, and budgets add up."""

import math

import pytest
import torch
from torch import Tensor

from lib.gpt import PowerLaw, chinchilla_loss, compute_optimal, fit_power_law, training_flops

SIZES = torch.tensor([1e3, 3e3, 2e4, 1e5, 4e6])


@pytest.mark.parametrize("law", [PowerLaw(7.0, 0.3), PowerLaw(0.5, 0.076, 1.7), PowerLaw(2.0, -1.5)], ids=str)
def test_a_power_law_without_noise_is_found_exactly(law: PowerLaw):
    fitted = fit_power_law(SIZES, law(SIZES.double()), floor=law.floor)
    assert tuple(fitted) == pytest.approx(tuple(law))


def test_with_noise_the_fit_is_that_of_least_squares_on_logarithms():
    y = torch.tensor([3.0, 2.8, 2.1, 2.2, 1.5])
    design = torch.stack([torch.ones(5), SIZES.log()], 1).double()
    intercept, slope = torch.linalg.lstsq(design, y.double().log()[:, None]).solution.flatten().tolist()
    assert tuple(fit_power_law(SIZES, y)) == pytest.approx((math.exp(intercept), -slope, 0.0))


def test_units_of_x_change_the_coefficient_alone():
    y = torch.tensor([3.0, 2.8, 2.1, 2.2, 1.5])
    one, thousand = fit_power_law(SIZES, y), fit_power_law(SIZES / 1000, y)
    assert one.exponent == pytest.approx(thousand.exponent)
    torch.testing.assert_close(one(SIZES), thousand(SIZES / 1000))


def test_the_optimal_split_spends_the_budget_in_the_ratio_asked_for():
    for flops, ratio in ((1e18, 20.0), (3e21, 150.0)):
        parameters, tokens = compute_optimal(flops, tokens_per_parameter=ratio)
        assert training_flops(parameters, tokens) == pytest.approx(flops)
        assert tokens / parameters == pytest.approx(ratio)


def test_a_hundred_times_the_compute_is_ten_times_the_model_and_ten_times_the_tokens():
    (n1, d1), (n2, d2) = compute_optimal(1e20), compute_optimal(1e22)
    assert (n2 / n1, d2 / d1) == pytest.approx((10, 10))


def test_the_published_loss_falls_with_both_towards_its_floor():
    n, d = torch.logspace(6, 12, 7)[:, None], torch.logspace(8, 14, 5)
    loss = chinchilla_loss(n, d)
    assert (loss.diff(dim=0) < 0).all()
    assert (loss.diff(dim=1) < 0).all()
    assert chinchilla_loss(torch.tensor(1e30), torch.tensor(1e40)).item() == pytest.approx(1.69, abs=1e-4)


HALF = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)


@HALF
def test_half_precision_is_fitted_in_float64(dtype: torch.dtype):
    x, y = torch.tensor([1e1, 1e2, 3e3, 5e4]).to(dtype), torch.tensor([3.0, 2.8, 2.1, 1.7]).to(dtype)
    assert fit_power_law(x, y) == fit_power_law(x.double(), y.double())


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_sizes_may_be_integers(dtype: torch.dtype):
    x, y = SIZES.to(dtype), torch.tensor([9, 7, 5, 4, 2])
    assert fit_power_law(x, y.to(dtype)) == fit_power_law(x.double(), y.double())
    torch.testing.assert_close(chinchilla_loss(x, 20 * x), chinchilla_loss(SIZES, 20 * SIZES))


@HALF
def test_the_published_loss_of_half_precision_is_computed_in_float32(dtype: torch.dtype):
    n, d = torch.linspace(10, 6e4, 9).to(dtype), torch.linspace(99, 5e4, 9).to(dtype)
    assert chinchilla_loss(n, d).dtype == torch.float32
    torch.testing.assert_close(chinchilla_loss(n, d), chinchilla_loss(n.double(), d.double()).float())


def test_nothing_is_expected_of_no_model():
    assert chinchilla_loss(torch.zeros(0, 1), torch.ones(3)).shape == (0, 3)


def test_derivatives():
    n, d = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in ([[2.0], [7.0]], [1.0, 3.0, 40.0]))
    assert torch.autograd.gradcheck(chinchilla_loss, (n, d))
    assert torch.autograd.gradcheck(PowerLaw(2.0, 0.3, 1.1), (d,))


def test_the_published_loss_compiles_whole_and_exports():
    class Module(torch.nn.Module):
        def forward(self, n: Tensor, d: Tensor) -> Tensor:
            return chinchilla_loss(n, d)

    inputs = (SIZES[:, None], 20 * SIZES)
    expected = chinchilla_loss(*inputs)
    torch.testing.assert_close(torch.compile(chinchilla_loss, fullgraph=True, backend="eager")(*inputs), expected)
    torch.testing.assert_close(torch.export.export(Module(), inputs).module()(*inputs), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit_power_law(SIZES[:1], SIZES[:1]), r"two different x at least, got \(1,\)"),
        (lambda: fit_power_law(torch.ones(3), torch.ones(3)), "two different x"),
        (lambda: fit_power_law(SIZES, SIZES[:3]), r"got \(5,\) and \(3,\)"),
        (lambda: fit_power_law(SIZES, torch.ones(5), floor=1.0), "y above floor = 1.0"),
        (lambda: fit_power_law(-SIZES, torch.ones(5)), "x must be above 0"),
        (lambda: fit_power_law(SIZES, torch.full((5,), math.inf)), "both finite"),
        (lambda: fit_power_law(SIZES, torch.full((5,), math.nan)), "both finite"),
        (lambda: fit_power_law(torch.tensor([]), torch.tensor([])), r"two different x at least, got \(0,\)"),
        (lambda: chinchilla_loss(torch.tensor(math.nan), torch.tensor(1e9)), "must be above 0"),
        (lambda: training_flops(0.0, 1e9), "parameters must be above 0, got 0.0"),
        (lambda: training_flops(1e9, -1.0), "tokens must be above 0, got -1.0"),
        (lambda: compute_optimal(0.0), "flops must be above 0, got 0.0"),
        (lambda: compute_optimal(1e20, tokens_per_parameter=0.0), "tokens_per_parameter must be above 0"),
        (lambda: chinchilla_loss(torch.tensor(0.0), torch.tensor(1e9)), "must be above 0"),
    ],
)
def test_bad_numbers_are_refused(call, message: str):
    with pytest.raises(ValueError, match=message):
        call()
