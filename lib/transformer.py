"""Transformer: blocks of attention and feed-forward network, each with a residual, and stacks of blocks.

Tokens are (batch, time, dim). Masks are boolean, `True` = may attend (see `lib.masks`), and don't depend on the
mode; only dropout does. What a block is made of is handed to it as something that makes it: `attention` is called
as `attention(dim, heads)`, `feed_forward` and `norm_layer` as `…(dim)`. So other attention, with rotary positions
or with fewer key heads and a cache, takes the place of `MultiHeadAttention` if it can be called like it.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from lib.attention import MultiHeadAttention
from lib.feed_forward import FeedForward, SwiGLU
from lib.masks import causal_mask
from lib.rotary import RotaryAttention

__all__ = [
    "Decoder",
    "Encoder",
    "FeedForward",
    "RotaryAttention",
    "SwiGLU",
    "TransformerBlock",
    "Updated",
    "count_parameters",
]


class Updated(NamedTuple):
    """What comes out of a block or a decoder; weights are None unless asked for."""

    output: Tensor
    """(batch, time, dim)"""
    weights: Tensor | None
    """of self-attention: (batch, heads, time, time) of a block, (batch, layers, heads, time, time) of a stack"""
    memory_weights: Tensor | None
    """of cross-attention, with the memory's time last; None without one"""


class TransformerBlock(nn.Module):
    """Let tokens exchange information, then work on each alone; both as a change that is added to the token.

        norm="pre":   x' = x + MHA(LN(x))       y = x' + FFN(LN(x'))
        norm="post":  x' = LN(x + MHA(x))       y = LN(x' + FFN(x'))

    With `cross_attention` a third sub-layer stands between the two and reads `memory`.

    Args:
        dim: width of a token.
        heads: number of heads; must divide `dim`.
        norm: where the norm stands: before a sub-layer (GPT-2, ViT, LLaMA) or after the sum (the 2017 paper, BERT).
        cross_attention: whether the block can read a memory.
        attention: makes the attention; `functools.partial(MultiHeadAttention, bias=True)` has biases.
        feed_forward: makes the feed-forward network; `SwiGLU`, or a `partial` for another `hidden`.
        norm_layer: makes a norm; `nn.RMSNorm` as in LLaMA.
        dropout: share of a sub-layer's output that is dropped while training.

    Raises:
        ValueError: `norm` is unknown, or `heads` does not divide `dim`.

    Source: Vaswani et al. 2017, §3.1 ("post"); Xiong et al. 2020, §3.1 ("pre").

    >>> block = TransformerBlock(dim=8, heads=2)
    >>> output, weights, _ = block(torch.zeros(3, 5, 8), causal_mask(5), need_weights=True)
    >>> output.shape, weights.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 2, 5, 5]))
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        norm: Literal["pre", "post"] = "pre",
        cross_attention: bool = False,
        attention: Callable[[int, int], nn.Module] = MultiHeadAttention,
        feed_forward: Callable[[int], nn.Module] = FeedForward,
        norm_layer: Callable[[int], nn.Module] = nn.LayerNorm,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if norm not in ("pre", "post"):
            raise ValueError(f'norm must be "pre" or "post", got {norm!r}')
        self.pre = norm == "pre"
        self.attention, self.attention_norm = attention(dim, heads), norm_layer(dim)
        self.cross = MultiHeadAttention(dim, heads) if cross_attention else None
        self.cross_norm = norm_layer(dim) if cross_attention else None
        self.feed_forward, self.feed_forward_norm = feed_forward(dim), norm_layer(dim)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        need_weights: bool = False,
        **options: Any,
    ) -> Updated:
        """Update tokens x (batch, time, dim), which may read one another where `mask` allows it.

        `memory` (batch, memory time, dim) is read by cross-attention where `memory_mask` allows it; both masks
        broadcast to (batch, heads, query, key). Other keywords go to the self-attention, such as `bias`, or what
        an attention of your own takes (a cache). Raises ValueError where memory is missing or not wanted.
        """
        _check_memory(memory, memory_mask, wanted=self.cross is not None)
        update, weights = self.attention(
            self._enter(x, self.attention_norm), mask=mask, need_weights=need_weights, **options
        )
        x, memory_weights = self._leave(x, update, self.attention_norm), None
        if self.cross is not None and self.cross_norm is not None:
            update, memory_weights = self.cross(self._enter(x, self.cross_norm), memory, memory_mask, need_weights)
            x = self._leave(x, update, self.cross_norm)
        update = self.feed_forward(self._enter(x, self.feed_forward_norm))
        return Updated(self._leave(x, update, self.feed_forward_norm), weights, memory_weights)

    def _enter(self, x: Tensor, norm: nn.Module) -> Tensor:
        return norm(x) if self.pre else x

    def _leave(self, x: Tensor, update: Tensor, norm: nn.Module) -> Tensor:
        x = x + self.dropout(update)
        return x if self.pre else norm(x)


class Encoder(nn.Module):
    """Stack blocks in which each token may read all tokens, unless a mask says otherwise.

    With norm="pre" the sum of all updates is normed once more at the end, as in GPT-2 and ViT.

    Args:
        dim: width of a token.
        heads: number of heads a layer.
        layers: number of blocks.
        options: keywords of `TransformerBlock`.

    >>> encoder = Encoder(dim=8, heads=2, layers=3)
    >>> output, weights = encoder(torch.zeros(4, 5, 8), need_weights=True)
    >>> output.shape, weights.shape
    (torch.Size([4, 5, 8]), torch.Size([4, 3, 2, 5, 5]))
    """

    def __init__(self, dim: int, heads: int, layers: int, **options: Any) -> None:
        super().__init__()
        self.blocks, self.norm = _stack(dim, heads, layers, options)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, *, need_weights: bool = False, **options: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Return the tokens (batch, time, dim), and the weights (batch, layers, heads, time, time) if asked for.

        `mask` broadcasts to (batch, heads, query, key); other keywords go to the self-attention of each block.
        """
        maps: list[Tensor | None] = []
        for block in self.blocks:
            x, weights, _ = block(x, mask, need_weights=need_weights, **options)
            maps.append(weights)
        return self.norm(x), _stacked(maps)


class Decoder(nn.Module):
    """Stack blocks in which a token may read itself and what came before, and a memory if there is one.

    Without `cross_attention` it is a decoder-only stack, as in GPT: an encoder under a causal mask.

    Args:
        dim: width of a token, of the memory's too.
        heads: number of heads a layer.
        layers: number of blocks.
        cross_attention: whether its blocks read a memory.
        options: further keywords of `TransformerBlock`.

    >>> decoder = Decoder(dim=8, heads=2, layers=3)
    >>> output, _, memory_weights = decoder(torch.zeros(4, 5, 8), torch.zeros(4, 7, 8), need_weights=True)
    >>> output.shape, memory_weights.shape
    (torch.Size([4, 5, 8]), torch.Size([4, 3, 2, 5, 7]))
    """

    def __init__(self, dim: int, heads: int, layers: int, *, cross_attention: bool = True, **options: Any) -> None:
        super().__init__()
        self.cross_attention = cross_attention
        self.blocks, self.norm = _stack(dim, heads, layers, options | {"cross_attention": cross_attention})

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        need_weights: bool = False,
        **options: Any,
    ) -> Updated:
        """Update x (batch, time, dim) under a causal mask, and under `mask` too if there is one.

        `memory` (batch, memory time, dim) is read where `memory_mask` allows it; masks broadcast to
        (batch, heads, query, key). Other keywords go to the self-attention of each block. Raises ValueError
        where memory is missing or not wanted.
        """
        _check_memory(memory, memory_mask, wanted=self.cross_attention)
        causal = causal_mask(x.shape[-2], device=x.device)
        mask = causal if mask is None else causal & mask
        options |= {"memory": memory, "memory_mask": memory_mask, "need_weights": need_weights}
        maps: list[Tensor | None] = []
        memory_maps: list[Tensor | None] = []
        for block in self.blocks:
            x, weights, memory_weights = block(x, mask, **options)
            maps.append(weights)
            memory_maps.append(memory_weights)
        return Updated(self.norm(x), _stacked(maps), _stacked(memory_maps))


def _stack(dim: int, heads: int, layers: int, options: dict[str, Any]) -> tuple[nn.ModuleList, nn.Module]:
    """Blocks, and the norm behind them: after Pre-LN blocks the sum of all updates has not been normed yet."""
    if layers < 1:
        raise ValueError(f"layers must be at least 1, got {layers}")
    blocks = nn.ModuleList(TransformerBlock(dim, heads, **options) for _ in range(layers))
    pre = options.get("norm", "pre") == "pre"
    return blocks, options.get("norm_layer", nn.LayerNorm)(dim) if pre else nn.Identity()


def _stacked(maps: list[Tensor | None]) -> Tensor | None:
    """(batch, layers, …), or None where no weights were asked for."""
    tensors = [weights for weights in maps if weights is not None]
    return torch.stack(tensors, 1) if tensors else None


def _check_memory(memory: Tensor | None, memory_mask: Tensor | None, wanted: bool) -> None:
    if wanted and memory is None:
        raise ValueError("memory must be given to a block with cross-attention, got None")
    if not wanted and (memory is not None or memory_mask is not None):
        raise ValueError("memory and memory_mask must be None without cross-attention, got a tensor")


def count_parameters(module: nn.Module) -> int:
    """Count the numbers a module learns; a tensor shared by several of its parts (tied) counts once.

    >>> embedding, head = nn.Embedding(10, 4), nn.Linear(4, 10, bias=False)
    >>> head.weight = embedding.weight
    >>> count_parameters(nn.Sequential(embedding, head))
    40
    """
    return sum(parameter.numel() for parameter in module.parameters())
