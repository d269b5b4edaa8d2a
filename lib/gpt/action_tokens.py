"""Numbers as tokens: a range cut into bins of equal width, so that a language model can predict an action."""

from functools import reduce

import torch
from torch import Tensor

from lib.checks import check_at_least, values_known


def to_bins(values: Tensor, low: float | Tensor, high: float | Tensor, bins: int = 256) -> Tensor:
    """Replace each number by the index of the bin that it falls into.

        token = ⌊(x − low) / (high − low) · bins⌋, kept within 0 … bins − 1

    Args:
        values: (..., dims) numbers of any type; half precision is decided in float32, integers in float64. Those
            outside the range go into the outer bins.
        low, high: ends of the range, numbers or (dims,); the ends themselves lie in the outer bins.
        bins: number of bins.

    Returns:
        Integers of the shape of `values`.

    Raises:
        ValueError: a value is NaN, the ends are not finite, in order and of a shape that fits, or there is no bin.

    Source: Brohan et al. 2023 (RT-2), §3.2; Kim et al. 2024 (OpenVLA), §3.2.

    >>> to_bins(torch.tensor([-1.0, -0.001, 0.0, 1.0, 7.0]), low=-1.0, high=1.0)
    tensor([  0, 127, 128, 255, 255])
    """
    start, end = _range(low, high, bins, values)
    x = values.to(start.dtype)
    if values_known() and x.isnan().any():
        raise ValueError("values must be numbers, got NaN")
    # Clamped before it is an integer: an infinite value has no integer.
    return ((x - start) / (end - start) * bins).clamp(0, bins - 1).long()


def from_bins(tokens: Tensor, low: float | Tensor, high: float | Tensor, bins: int = 256) -> Tensor:
    """Replace each token by the middle of its bin, at most half a bin away from the number it came from.

        x̂ = low + (token + ½) (high − low) / bins

    Args:
        tokens: (..., dims) integers of any type within 0 … bins − 1.
        low, high: ends of the range, numbers or (dims,).
        bins: number of bins.

    Returns:
        Numbers of the shape of `tokens`, computed in float64, of the type of `low` if that is a tensor of
        floating-point numbers, else of the default type.

    Raises:
        ValueError: a token is no bin's, or as in `to_bins`.

    >>> from_bins(torch.tensor([0, 1, 3]), low=0.0, high=1.0, bins=4)
    tensor([0.1250, 0.3750, 0.8750])
    """
    start, end = _range(low, high, bins, tokens)
    if tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
        raise ValueError(f"tokens must be integers, got {tokens.dtype}")
    numbers = tokens.long()  # 256 has no place in a comparison of 8-bit numbers
    if values_known() and ((numbers < 0) | (numbers >= bins)).any():
        raise ValueError(f"tokens must lie within 0 … {bins - 1}, got {tokens.tolist()}")
    dtype = low.dtype if isinstance(low, Tensor) and low.is_floating_point() else torch.get_default_dtype()
    return (start + (numbers.to(start.dtype) + 0.5) * (end - start) / bins).to(dtype)


def _range(low: float | Tensor, high: float | Tensor, bins: int, values: Tensor) -> tuple[Tensor, Tensor]:
    check_at_least(1, bins=bins)
    given = [x.dtype if x.is_floating_point() else torch.float64 for x in (values, low, high) if isinstance(x, Tensor)]
    dtype = reduce(torch.promote_types, given, torch.float32)
    start, end = (torch.as_tensor(end, dtype=dtype, device=values.device) for end in (low, high))
    if any(end.shape not in ((), values.shape[-1:]) for end in (start, end)):
        shapes = f"{tuple(start.shape)} and {tuple(end.shape)} for {tuple(values.shape)}"
        raise ValueError(f"low and high must be numbers or (dims,) as the values, got {shapes}")
    if values_known() and not ((start < end) & start.isfinite() & end.isfinite()).all():
        raise ValueError(f"low must be below high and both finite, got {low} and {high}")
    return start, end
