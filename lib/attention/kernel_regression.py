"""Nadaraya–Watson kernel regression: attention before it had learned weights."""

import functools

import torch
from torch import Tensor

from lib.attention.dot_product import masked_softmax
from lib.attention.inputs import check_leading
from lib.checks import check_above, values_known


def kernel_regression(
    x_query: Tensor, x_train: Tensor, y_train: Tensor, sigma: float | Tensor
) -> tuple[Tensor, Tensor]:
    """Return the average of the training values at each query point, weighted by nearness.

        f(x) = Σᵢ α(x, xᵢ) yᵢ        α(x, xᵢ) = softmaxᵢ(−(x − xᵢ)² / 2σ²)

    `x_query` is the query, `x_train` the keys, `y_train` the values.

    Args:
        x_query: (..., queries).
        x_train: (..., keys).
        y_train: (..., keys).
        sigma: width of the Gaussian kernel, in units of x; a number or a 0-d tensor, above 0.

    Returns:
        The prediction (..., queries) and the weights (..., queries, keys).

    Raises:
        ValueError: `sigma` is not above 0, there is no training point, or shapes don't fit.

    Source: Nadaraya 1964; Watson 1964.

    >>> x, y = torch.tensor([0.0, 1.0, 4.0]), torch.tensor([5.0, 7.0, 9.0])
    >>> kernel_regression(torch.tensor([0.5]), x, y, sigma=0.1)[0]
    tensor([6.])
    """
    if x_query.ndim < 1:
        raise ValueError("x_query must be (..., queries), got a 0-d tensor")
    if x_train.ndim < 1 or x_train.shape[-1:] != y_train.shape[-1:] or x_train.shape[-1] == 0:
        shapes = f"{tuple(x_train.shape)} and {tuple(y_train.shape)}"
        raise ValueError(f"x_train and y_train must hold the same points, at least one, got {shapes}")
    check_leading(1, x_query=x_query.shape, x_train=x_train.shape, y_train=y_train.shape)
    if isinstance(sigma, Tensor) and sigma.ndim:
        raise ValueError(f"sigma must be a number or a 0-d tensor, got {tuple(sigma.shape)}")
    if values_known():
        check_above(0, sigma=sigma)
    dtype = functools.reduce(torch.promote_types, (x_query.dtype, x_train.dtype, y_train.dtype))
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    wide = torch.promote_types(dtype, torch.float32)  # the square of a half soon overflows
    limits = torch.finfo(wide)
    sigma = torch.as_tensor(sigma, dtype=wide, device=x_query.device).clamp(min=limits.tiny)
    away = (x_query.to(wide)[..., :, None] - x_train.to(wide)[..., None, :]).abs()  # (..., queries, keys)
    # Softmax ignores a shift of its row. Measured from the nearest key, no sigma is too small:
    # d² − d₀² = (d − d₀)(d + d₀), and the nearest, d = d₀, scores 0.
    nearest = away.detach().amin(-1, keepdim=True)
    scores = -((away - nearest) / sigma) * ((away + nearest) / sigma).clamp(max=limits.max) / 2
    weights = masked_softmax(scores)
    prediction = (weights @ y_train.to(wide)[..., None]).squeeze(-1)  # (..., queries)
    return prediction.to(dtype), weights.to(dtype)
