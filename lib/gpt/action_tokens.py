"""Numbers as tokens: a range cut into bins of equal width, so that a language model can predict an action."""

import torch
from torch import Tensor


def to_bins(values: Tensor, low: float | Tensor, high: float | Tensor, bins: int = 256) -> Tensor:
    """Replace each number by the index of the bin that it falls into.

        token = ⌊(x − low) / (high − low) · bins⌋, kept within 0 … bins − 1

    Args:
        values: (..., dims) numbers; those outside the range go into the first or the last bin.
        low, high: ends of the range, numbers or (dims,); the ends themselves lie in the outer bins.
        bins: number of bins.

    Returns:
        Integers of the shape of `values`.

    Raises:
        ValueError: a value is NaN, `low` is not below `high`, or there is no bin.

    Source: Brohan et al. 2023 (RT-2), §3.2; Kim et al. 2024 (OpenVLA), §3.2, whose range is that of the
    1st to the 99th percentile of the training data.

    >>> to_bins(torch.tensor([-1.0, -0.001, 0.0, 1.0, 7.0]), low=-1.0, high=1.0)
    tensor([  0, 127, 128, 255, 255])
    """
    low, high = _range(low, high, bins, values.dtype)
    if values.isnan().any():
        raise ValueError("values must be numbers, got NaN")
    # Clamped before it is an integer: an infinite value has no integer.
    return ((values - low) / (high - low) * bins).clamp(0, bins - 1).long()


def from_bins(tokens: Tensor, low: float | Tensor, high: float | Tensor, bins: int = 256) -> Tensor:
    """Replace each token by the middle of its bin, at most half a bin away from the number it came from.

        x̂ = low + (token + ½) (high − low) / bins

    Args:
        tokens: (..., dims) integers within 0 … bins − 1.
        low, high: ends of the range, numbers or (dims,).
        bins: number of bins.

    Returns:
        Numbers of the shape of `tokens`, of the type of `low` if that is a tensor, else the default type.

    Raises:
        ValueError: a token is no bin's, `low` is not below `high`, or there is no bin.

    >>> from_bins(torch.tensor([0, 1, 3]), low=0.0, high=1.0, bins=4)
    tensor([0.1250, 0.3750, 0.8750])
    """
    low, high = _range(low, high, bins, torch.get_default_dtype())
    if tokens.is_floating_point() or ((tokens < 0) | (tokens >= bins)).any():
        raise ValueError(f"tokens must be integers within 0 … {bins - 1}, got {tokens.tolist()}")
    return low + (tokens + 0.5) * (high - low) / bins


def _range(low: float | Tensor, high: float | Tensor, bins: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    ends = [end if isinstance(end, Tensor) else torch.tensor(end, dtype=dtype) for end in (low, high)]
    if not (ends[0] < ends[1]).all():
        raise ValueError(f"low must be below high, got {low} and {high}")
    return ends[0], ends[1]
