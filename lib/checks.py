"""Checks of arguments that all packages share. Those that read values run in eager mode only: a graph has none yet."""

import torch
from torch import Tensor


def values_known() -> bool:
    """Return whether tensors hold values that may be looked at; while compiling or exporting they stand for any.

    >>> values_known()
    True
    """
    return not torch.compiler.is_compiling()


def check_at_least(least: float, **numbers: float) -> None:
    """Raise unless each number, named as its argument, is `least` or more.

    >>> check_at_least(1, heads=0)
    Traceback (most recent call last):
        ...
    ValueError: heads must be at least 1, got 0
    """
    for name, number in numbers.items():
        if not number >= least:
            raise ValueError(f"{name} must be at least {least}, got {number}")


def check_above(least: float, **numbers: float | Tensor) -> None:
    """Raise unless each number, named as its argument, is larger than `least`.

    >>> check_above(0, beta=-1.0)
    Traceback (most recent call last):
        ...
    ValueError: beta must be above 0, got -1.0
    """
    for name, number in numbers.items():
        if not number > least:
            raise ValueError(f"{name} must be above {least}, got {number}")


def check_tokens(name: str, tokens: Tensor, vocab_size: int) -> None:
    """Raise unless `tokens` are (batch, time) integers of the vocabulary, at least one in each sequence.

    >>> check_tokens("tokens", torch.tensor([[3, 9]]), vocab_size=9)
    Traceback (most recent call last):
        ...
    ValueError: tokens must lie in 0 … 8, got 3 … 9
    """
    if tokens.ndim != 2 or tokens.shape[1] == 0 or tokens.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"{name} must be (batch, time) integers, got {tuple(tokens.shape)} {tokens.dtype}")
    if values_known() and tokens.numel():
        low, high = (end.item() for end in tokens.aminmax())
        if low < 0 or high >= vocab_size:
            raise ValueError(f"{name} must lie in 0 … {vocab_size - 1}, got {low} … {high}")


def check_features(name: str, x: Tensor, width: int, *, time: bool = False) -> None:
    """Raise unless `x` holds real numbers, `width` of them on its last axis, with a time axis before it if asked for.

    >>> check_features("x", torch.zeros(2, 5, 7), width=8)
    Traceback (most recent call last):
        ...
    ValueError: x must be (..., 8), real numbers, got (2, 5, 7) torch.float32
    """
    if x.ndim < 1 + time or x.shape[-1] != width or not x.is_floating_point():
        expected = f"(..., time, {width})" if time else f"(..., {width})"
        raise ValueError(f"{name} must be {expected}, real numbers, got {tuple(x.shape)} {x.dtype}")
