"""Attention masks: boolean, `True` = may attend; `nn.MultiheadAttention` means the opposite, so give it `~mask`."""

from collections.abc import Sequence

import torch
from torch import Tensor

from lib.checks import check_at_least, values_known


def causal_mask(queries: int, keys: int | None = None, *, device: torch.device | str | None = None) -> Tensor:
    """Return the mask in which query t attends to keys up to its own position, aligned bottom-right.

        mask[t, s] = s ≤ t + (keys − queries)

    Args:
        queries: number of queries.
        keys: number of keys; `queries` when left out.
        device: where the mask is made.

    Returns:
        Boolean (queries, keys), `True` = may attend.

    Raises:
        ValueError: a number is negative.

    Source: Vaswani et al. 2017, §3.2.3; the alignment is FlashAttention 2.1's.

    >>> causal_mask(2, 4).int()
    tensor([[1, 1, 1, 0],
            [1, 1, 1, 1]], dtype=torch.int32)
    """
    keys = queries if keys is None else keys
    check_at_least(0, queries=queries, keys=keys)
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def padding_mask(lengths: Tensor | Sequence[int], size: int) -> Tensor:
    """Return the mask that hides the padding behind sequences of different lengths.

        mask[b, 0, 0, s] = s < lengths[b]

    Args:
        lengths: (batch,) integers, tokens in each sequence, from 0 to `size`.
        size: padded length, in tokens.

    Returns:
        Boolean (batch, 1, 1, size), `True` = may attend; `[:, 0]` for scores of shape (batch, query, key).

    Raises:
        ValueError: lengths are not a vector of integers, or one lies outside 0 … `size`.

    >>> padding_mask([3, 0], 4)[:, 0, 0].int()
    tensor([[1, 1, 1, 0],
            [0, 0, 0, 0]], dtype=torch.int32)
    """
    check_at_least(0, size=size)
    lengths = torch.as_tensor(lengths)
    lengths = lengths if lengths.numel() else lengths.long()  # an empty list
    if lengths.ndim != 1 or lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise ValueError(f"lengths must be (batch,) integers, got {tuple(lengths.shape)} {lengths.dtype}")
    if values_known() and ((lengths < 0) | (lengths > size)).any():
        raise ValueError(f"lengths must lie in 0 … size = {size}, got {lengths.tolist()}")
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None, None, :]


def block_causal_mask(block_sizes: Sequence[int], *, device: torch.device | str | None = None) -> Tensor:
    """Return the mask in which tokens attend to all of their own block and of the blocks before it.

    Args:
        block_sizes: tokens in each block, in order; 0 is an empty block.
        device: where the mask is made.

    Returns:
        Boolean (tokens, tokens) with tokens = sum of `block_sizes`, `True` = may attend.

    Raises:
        ValueError: there is no block, or a size is negative.

    Source: Black et al. 2024 (π0), appendix B: images and prompt, then state, then actions.

    >>> block_causal_mask([2, 1]).int()
    tensor([[1, 1, 0],
            [1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    if len(block_sizes) == 0:
        raise ValueError("block_sizes must name at least one block, got none")
    for size in block_sizes:
        check_at_least(0, block_sizes=size)
    block = torch.tensor([i for i, size in enumerate(block_sizes) for _ in range(size)], device=device)
    return block[:, None] >= block[None, :]


def check_mask(mask: Tensor, shape: Sequence[int]) -> None:
    """Raise unless `mask` is boolean and has the axes (query, key), or all those of scores of `shape`, to broadcast.

    With some of the leading axes, (batch, query, key) would be read as (heads, query, key).

    >>> check_mask(causal_mask(3), (2, 4, 3, 3))
    >>> check_mask(causal_mask(3), (2, 4, 3, 5))
    Traceback (most recent call last):
        ...
    ValueError: mask of shape (3, 3) does not broadcast to scores of shape (2, 4, 3, 5)
    """
    if mask.dtype != torch.bool:
        raise ValueError(f"mask must be boolean (True = may attend), got {mask.dtype}")
    if 2 < mask.ndim < len(shape):
        how = "write mask[:, None] for one a sequence, mask[None] for one a head"
        raise ValueError(f"mask of shape {tuple(mask.shape)} is ambiguous for scores of shape {tuple(shape)}: {how}")
    fits = mask.ndim <= len(shape) and all(
        m in (1, s) for m, s in zip(reversed(mask.shape), reversed(shape), strict=False)
    )
    if not fits:
        raise ValueError(f"mask of shape {tuple(mask.shape)} does not broadcast to scores of shape {tuple(shape)}")
