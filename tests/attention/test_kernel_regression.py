"""Kernel regression: closed forms and limits."""

import math

import pytest
import torch

from lib.attention import (
    kernel_regression,
)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


class TestKernelRegression:
    def test_weights_are_the_softmax_of_the_negative_squared_distance(self):
        x, xs, ys = torch.tensor([0.3, 1.7]), torch.tensor([0.0, 1.0, 2.0]), torch.tensor([1.0, -2.0, 4.0])
        prediction, weights = kernel_regression(x, xs, ys, sigma=0.5)
        expected = torch.softmax(-((x[:, None] - xs) ** 2) / (2 * 0.5**2), -1)
        torch.testing.assert_close(weights, expected)
        torch.testing.assert_close(prediction, expected @ ys)

    @pytest.mark.parametrize("sigma", [1e-300, 1e-45, 1e-20, 1e-3])
    def test_a_small_sigma_gives_the_nearest_neighbour(self, sigma: float):
        prediction, _ = kernel_regression(
            torch.tensor([1.2, 9e3]), torch.tensor([0.0, 1.0, 3.0]), torch.arange(3.0), sigma
        )
        assert prediction.tolist() == [1.0, 2.0]

    @pytest.mark.parametrize("sigma", [1e6, 1e20, math.inf])
    def test_a_large_sigma_gives_the_mean(self, sigma: float):
        prediction, _ = kernel_regression(torch.tensor([0.0]), torch.tensor([0.0, 1.0, 3.0]), torch.arange(3.0), sigma)
        assert prediction.item() == pytest.approx(1.0)

    def test_equally_near_points_share_the_weight(self):
        _, weights = kernel_regression(torch.tensor([1.0]), torch.tensor([0.0, 2.0, 5.0]), torch.zeros(3), 1e-6)
        assert weights.tolist() == [[0.5, 0.5, 0.0]]

    def test_sigma_may_be_a_tensor_and_learned(self):
        x, sigma = (
            torch.linspace(0, 1, 4, dtype=torch.float64),
            torch.tensor(0.4, dtype=torch.float64, requires_grad=True),
        )
        assert torch.autograd.gradcheck(lambda s: kernel_regression(x + 0.1, x, x.sin(), s)[0], sigma)

    def test_leading_axes_are_regressions_of_their_own(self):
        x, xs, ys = torch.rand(3, 4), torch.rand(3, 6), torch.rand(3, 6)
        together, _ = kernel_regression(x, xs, ys, 0.2)
        apart = [kernel_regression(x[i], xs[i], ys[i], 0.2)[0] for i in range(3)]
        torch.testing.assert_close(together, torch.stack(apart))

    @pytest.mark.parametrize("sigma", [0, -1.0, math.nan, torch.tensor(0.0)])
    def test_sigma_must_be_positive(self, sigma):
        with pytest.raises(ValueError, match="sigma must be above 0"):
            kernel_regression(torch.zeros(1), torch.zeros(2), torch.zeros(2), sigma)

    @pytest.mark.parametrize(("keys", "values"), [(2, 3), (0, 0)])
    def test_keys_and_values_must_match(self, keys: int, values: int):
        with pytest.raises(ValueError, match=rf"same points, at least one, got \({keys},\) and \({values},\)"):
            kernel_regression(torch.zeros(1), torch.zeros(keys), torch.zeros(values), 1.0)

    def test_a_query_needs_an_axis(self):
        with pytest.raises(ValueError, match="x_query must be"):
            kernel_regression(torch.tensor(1.0), torch.zeros(2), torch.zeros(2), 1.0)
