"""A curve and noisy points of it."""

import torch
from torch import Generator, Tensor


def true_curve(x: Tensor) -> Tensor:
    """Return 2 sin x + x^0.8, the function behind `noisy_curve`.

    >>> true_curve(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 2.6829])
    """
    return 2 * x.sin() + x**0.8


def noisy_curve(n: int = 50, noise: float = 0.3, *, generator: Generator) -> tuple[Tensor, Tensor]:
    """Draw points of a curve with noise: x uniform on [0, 5] and sorted, y = 2 sin x + x^0.8 + ε.

    Args:
        n: number of points.
        noise: standard deviation of ε, normal.
        generator: source of the random draws.

    Returns:
        x (n,) and y (n,).

    Raises:
        ValueError: `n` is below 1 or `noise` is negative.

    Source: Zhang et al. 2021, Dive into Deep Learning, §10.2, with less noise.

    >>> x, y = noisy_curve(3, noise=0.0, generator=torch.Generator().manual_seed(0))
    >>> bool((y == true_curve(x)).all())
    True
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    if noise < 0:
        raise ValueError(f"noise must not be negative, got {noise}")
    x = (5 * torch.rand(n, generator=generator)).sort().values
    return x, true_curve(x) + noise * torch.randn(n, generator=generator)
