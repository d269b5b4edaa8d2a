"""Nadaraya–Watson kernel regression: attention before it had learned weights."""

import torch
from torch import Tensor

from lib.attention.dot_product import masked_softmax


def kernel_regression(
    x_query: Tensor, x_train: Tensor, y_train: Tensor, sigma: float | Tensor
) -> tuple[Tensor, Tensor]:
    """Predict y at each query point as the average of the training values, weighted by nearness.

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
        ValueError: `sigma` is not above 0, there is no training point, or keys and values differ in number.

    Source: Nadaraya 1964; Watson 1964.

    >>> x, y = torch.tensor([0.0, 1.0, 4.0]), torch.tensor([5.0, 7.0, 9.0])
    >>> kernel_regression(torch.tensor([0.5]), x, y, sigma=0.1)[0]
    tensor([6.])
    """
    if not sigma > 0:
        raise ValueError(f"sigma must be above 0, got {sigma}")
    if x_query.ndim < 1:
        raise ValueError("x_query must be (..., queries), got a 0-d tensor")
    if x_train.ndim < 1 or x_train.shape[-1:] != y_train.shape[-1:] or x_train.shape[-1] == 0:
        shapes = f"{tuple(x_train.shape)} and {tuple(y_train.shape)}"
        raise ValueError(f"x_train and y_train must hold the same points, at least one, got {shapes}")
    squared = (x_query[..., :, None] - x_train[..., None, :]) ** 2  # (..., queries, keys)
    sigma = torch.as_tensor(sigma, dtype=squared.dtype).clamp(min=torch.finfo(squared.dtype).tiny)
    # Softmax ignores a shift of its row. Measured from the nearest key, no sigma is too small.
    scores = -(squared - squared.amin(-1, keepdim=True)) / sigma / sigma / 2
    weights = masked_softmax(scores)
    return (weights @ y_train[..., None]).squeeze(-1), weights
