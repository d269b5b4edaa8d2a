"""FlashAttention's algorithm: exact attention in tiles, with memory linear in the sequence length."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lib.attention.inputs import blank_unseen, check_inputs, check_scale
from lib.checks import check_at_least


def tiled_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    block_size: int,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Return the output of `dot_product_attention` without ever holding the (query, key) matrix.

    For a tile of queries the keys come by tile after tile. A running maximum m, sum ℓ and output o are
    corrected whenever a larger score turns up (the online softmax):

        m' = max(m, max s)    ℓ' = e^(m − m') ℓ + Σ e^(s − m')    o' = e^(m − m') o + e^(s − m') V

    and the output is o / ℓ. The backward pass keeps only m + log ℓ a query and computes each tile again.

    Args:
        query: (..., query, dim).
        key: (..., key, dim).
        value: (..., key, value_dim).
        mask: boolean, broadcastable to (..., query, key), `True` = may attend.
        block_size: side of a tile, in tokens.
        causal: also block the future, aligned bottom-right; needs no (query, key) mask in memory.
        scale: factor on the dot products; 1/√dim when left out.

    Returns:
        The output (..., query, value_dim).

    Raises:
        ValueError: `block_size` is below 1, or shapes don't fit.

    Source: Dao et al. 2022, algorithm 1; Dao 2023, algorithms 1 and 2.

    >>> query, key, value = torch.eye(5, 4), torch.eye(7, 4), torch.arange(7.0)[:, None]
    >>> weights = torch.softmax(query @ key.T / 2, -1)
    >>> torch.allclose(tiled_attention(query, key, value, block_size=3), weights @ value)
    True
    """
    check_at_least(1, block_size=block_size)
    shape = check_inputs(query, key, value, mask)
    scale = check_scale(query, scale)
    key, value = blank_unseen(key, mask), blank_unseen(value, mask)
    mask = None if mask is None else mask.expand(shape)  # a view: no memory
    query, key, value = (x.expand(*shape[:-2], *x.shape[-2:]) for x in (query, key, value))
    tiles = _Tiles(query.shape[-2], key.shape[-2], mask, block_size, causal, scale)
    with torch.autocast(query.device.type, enabled=False):  # else the way back would see other scores
        return _TiledAttention.apply(query, key, value, tiles)


@dataclass(frozen=True)
class _Tiles:
    """Where the tiles lie, and the scores in one of them."""

    queries: int
    keys: int
    mask: Tensor | None
    block_size: int
    causal: bool
    scale: float

    def rows(self) -> Iterator[slice]:
        return self._slices(self.queries)

    def columns(self, rows: slice) -> Iterator[slice]:
        """Tiles of keys that the queries `rows` may see: with `causal`, none that lies in their future."""
        last = self.keys - self.queries + rows.stop if self.causal else self.keys
        return self._slices(min(last, self.keys))

    def scores(self, query: Tensor, key: Tensor, rows: slice, columns: slice) -> Tensor:
        """Return the dot products of scaled queries and keys of a tile, −inf where blocked."""
        scores = query @ key.transpose(-2, -1)  # (..., query, key)
        if self.mask is not None:
            scores.masked_fill_(~self.mask[..., rows, columns], -math.inf)
        if self.causal:
            row = torch.arange(rows.start, rows.stop, device=scores.device)[:, None]
            column = torch.arange(columns.start, columns.stop, device=scores.device)
            scores.masked_fill_(column > row + self.keys - self.queries, -math.inf)
        return scores

    def _slices(self, length: int) -> Iterator[slice]:
        for start in range(0, length, self.block_size):
            yield slice(start, min(start + self.block_size, length))


class _TiledAttention(torch.autograd.Function):
    """Halves are computed in single precision, as on a GPU: a sum over many tiles would lose its digits."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, tiles: _Tiles) -> Tensor:
        output = query.new_empty(*query.shape[:-1], value.shape[-1])
        log_sum = query.new_empty(*query.shape[:-1], 1, dtype=_wide(query))  # m + log ℓ
        for rows in tiles.rows():
            output[..., rows, :], log_sum[..., rows, :] = _attend(query, key, value, tiles, rows)
        ctx.save_for_backward(query, key, value, output, log_sum)
        ctx.tiles = tiles
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        (grad_output,) = grad_outputs
        query, key, value, output, log_sum = ctx.saved_tensors
        tiles: _Tiles = ctx.tiles
        wide = _wide(query)
        grad_q, grad_k, grad_v = (torch.zeros_like(x, dtype=wide) for x in (query, key, value))
        for rows in tiles.rows():
            q, g = query[..., rows, :].to(wide) * tiles.scale, grad_output[..., rows, :].to(wide)
            mean_grad = (g * output[..., rows, :]).sum(-1, keepdim=True)
            for columns in tiles.columns(rows):
                k, v = key[..., columns, :].to(wide), value[..., columns, :].to(wide)
                weights = (tiles.scores(q, k, rows, columns) - log_sum[..., rows, :]).exp_()
                grad_v[..., columns, :] += weights.transpose(-2, -1) @ g
                grad_scores = weights * (g @ v.transpose(-2, -1) - mean_grad)
                grad_scores.masked_fill_(weights == 0, 0.0)  # what is blocked may be large enough for 0 · inf
                grad_q[..., rows, :] += grad_scores @ k * tiles.scale
                grad_k[..., columns, :] += grad_scores.transpose(-2, -1) @ q
        return grad_q.to(query), grad_k.to(key), grad_v.to(value), None


def _attend(query: Tensor, key: Tensor, value: Tensor, tiles: _Tiles, rows: slice) -> tuple[Tensor, Tensor]:
    """Output and m + log ℓ of one tile of queries, which meets the keys tile by tile."""
    wide = _wide(query)
    q = query[..., rows, :].to(wide) * tiles.scale  # before the product, which may overflow
    top = q.new_full((*q.shape[:-1], 1), -math.inf)  # m
    total = torch.zeros_like(top)  # ℓ
    output = q.new_zeros(*q.shape[:-1], value.shape[-1])  # o
    for columns in tiles.columns(rows):
        k, v = key[..., columns, :].to(wide), value[..., columns, :].to(wide)
        scores = tiles.scores(q, k, rows, columns)
        new_top = torch.maximum(top, scores.amax(-1, keepdim=True))
        base = new_top.masked_fill(new_top == -math.inf, 0.0)  # nothing seen yet: −inf − 0, not −inf − −inf
        shrink, weights = (top - base).exp(), (scores - base).exp_()
        total.mul_(shrink).add_(weights.sum(-1, keepdim=True))
        output.mul_(shrink).add_(weights @ v)
        top = new_top
    empty = total == 0
    log_sum = (top + total.log()).masked_fill(empty, 0.0)
    return output.div(total.masked_fill(empty, 1.0)), log_sum


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
