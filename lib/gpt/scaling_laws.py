"""Scaling laws: a power law through measured losses, and what a budget of compute is best spent on."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from lib.checks import check_above, values_known


class PowerLaw(NamedTuple):
    """y = coefficient · x^(−exponent) + floor; call it on x.

    >>> PowerLaw(coefficient=8.0, exponent=0.5, floor=1.0)(torch.tensor([4.0, 16.0]))
    tensor([5., 3.])
    """

    coefficient: float
    exponent: float
    floor: float = 0.0

    def __call__(self, x: Tensor) -> Tensor:
        return self.coefficient * x**-self.exponent + self.floor


def fit_power_law(x: Tensor, y: Tensor, *, floor: float = 0.0) -> PowerLaw:
    """Fit a straight line through points on axes that are both logarithmic, by least squares, in float64.

        log(y − floor) ≈ log(coefficient) − exponent · log(x)

    Args:
        x: (points,), above 0, such as numbers of parameters.
        y: (points,), above `floor`, such as losses.
        floor: what would be left at infinite x; not fitted, as a few points cannot tell it from a small exponent.

    Raises:
        ValueError: fewer than two different x, shapes that differ, or numbers without a finite logarithm.

    Source: Kaplan et al. 2020, equation 1.1, whose N_c is coefficient^(1/exponent).

    >>> law = fit_power_law(torch.tensor([1e3, 1e4, 1e5]), torch.tensor([4.0, 2.0, 1.0]))
    >>> round(law.exponent, 3)  # halved whenever x grows tenfold: log₁₀ 2
    0.301
    """
    x, y = x.double(), y.double()
    if x.ndim != 1 or x.shape != y.shape or len(x.unique()) < 2:
        raise ValueError(
            f"x and y must be (points,) with two different x at least, got {tuple(x.shape)} and {tuple(y.shape)}"
        )
    if not ((x > 0) & (y > floor) & x.isfinite() & y.isfinite()).all():
        raise ValueError(f"x must be above 0, y above floor = {floor}, both finite, got {x.tolist()} and {y.tolist()}")
    log_x, log_y = x.log(), (y - floor).log()
    centred = log_x - log_x.mean()
    slope = (centred @ log_y / (centred @ centred)).item()
    return PowerLaw(math.exp(log_y.mean().item() - slope * log_x.mean().item()), -slope, floor)


def training_flops(parameters: float, tokens: float) -> float:
    """Return about how many floating-point operations it takes to train on so many tokens.

        C ≈ 6 N D: a multiplication and an addition a weight forward, twice that backward

    Args:
        parameters: N, weights that are multiplied; embeddings that are only looked up don't count.
        tokens: D.

    Raises:
        ValueError: a number is not above 0.

    Source: Kaplan et al. 2020, §2.1; attention's own T² is left out.

    >>> f"{training_flops(70e9, 1.4e12):.3g}"  # Chinchilla
    '5.88e+23'
    """
    check_above(0, parameters=parameters, tokens=tokens)
    return 6.0 * parameters * tokens


def compute_optimal(flops: float, *, tokens_per_parameter: float = 20.0) -> tuple[float, float]:
    """Return the parameters N and the tokens D that a budget of compute is best split into.

        D = r N  and  C = 6 N D,  hence  N = √(C / 6r)

    Args:
        flops: C, the budget.
        tokens_per_parameter: r, about 20 in the paper's models and budgets.

    Raises:
        ValueError: a number is not above 0.

    Source: Hoffmann et al. 2022, table 3.

    >>> parameters, tokens = compute_optimal(5.88e23)
    >>> f"{parameters:.3g} {tokens:.3g}"
    '7e+10 1.4e+12'
    """
    check_above(0, flops=flops, tokens_per_parameter=tokens_per_parameter)
    parameters = math.sqrt(flops / 6 / tokens_per_parameter)
    return parameters, tokens_per_parameter * parameters


def chinchilla_loss(parameters: Tensor, tokens: Tensor) -> Tensor:
    """Return the loss, in float32 at least, that the paper's fit expects of a model trained on so many tokens.

        L(N, D) = 1.69 + 406.4 / N^0.34 + 410.7 / D^0.28   nats a token, on the paper's data

    Args:
        parameters: N, above 0; broadcasts with `tokens`.
        tokens: D, above 0.

    Raises:
        ValueError: a number is not above 0.

    Source: Hoffmann et al. 2022, equation 10; Besiroglu et al. 2024 on how little its constants fit the points.

    >>> chinchilla_loss(torch.tensor(70e9), torch.tensor(1.4e12))
    tensor(1.93...)
    """
    if values_known() and not ((parameters > 0).all() and (tokens > 0).all()):
        raise ValueError(f"parameters and tokens must be above 0, got {parameters} and {tokens}")
    n, d = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (parameters, tokens))
    return 1.69 + 406.4 / n**0.34 + 410.7 / d**0.28
