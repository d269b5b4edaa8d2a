"""A curve and noisy points of it."""

import torch
from torch import Generator, Tensor

from lib.checks import check_at_least


def true_curve(x: Tensor) -> Tensor:
    """Return 2 sin x + x^0.8, the function behind `noisy_curve`, for x ≥ 0."""
    return 2 * x.sin() + x**0.8


def noisy_curve(n: int = 50, noise: float = 0.3, *, generator: Generator) -> tuple[Tensor, Tensor]:
    """Draw points of a curve with noise, x (n,) sorted and y (n,).

        x ~ U(0, 5)        y = 2 sin x + x^0.8 + ε        ε ~ N(0, noise²)

    Raises:
        ValueError: `n` is below 1, or `noise` is negative.

    Source: Zhang et al. 2021, Dive into Deep Learning, §10.2, with less noise.

    >>> x, y = noisy_curve(3, noise=0.0, generator=torch.Generator().manual_seed(0))
    >>> bool((y == true_curve(x)).all())
    True
    """
    check_at_least(1, n=n)
    check_at_least(0, noise=noise)
    x = (5 * torch.rand(n, generator=generator)).sort().values
    return x, true_curve(x) + noise * torch.randn(n, generator=generator)
