"""Transformer: stacks of blocks, as encoder, as decoder with a memory, or as decoder alone.

Tokens are (batch, time, dim). Masks are boolean, `True` = may attend, and don't depend on the
mode; only dropout does.
"""

from typing import Any

import torch
from torch import Tensor, nn

from lib.attention import causal_mask
from lib.transformer.block import BlockOutput, TransformerBlock, check_memory
from lib.transformer.feed_forward import FeedForward, SwiGLU
from lib.transformer.rotary import RotaryAttention

__all__ = [
    "BlockOutput",
    "Decoder",
    "Encoder",
    "FeedForward",
    "RotaryAttention",
    "SwiGLU",
    "TransformerBlock",
    "count_parameters",
]


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
    >>> output, _, cross_weights = decoder(torch.zeros(4, 5, 8), torch.zeros(4, 7, 8), need_weights=True)
    >>> output.shape, cross_weights.shape
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
    ) -> BlockOutput:
        """Update x (batch, time, dim) under a causal mask, and under `mask` too if there is one.

        `memory` (batch, memory time, dim) is read where `memory_mask` allows it; masks broadcast to
        (batch, heads, query, key). Other keywords go to the self-attention of each block. Raises ValueError
        where memory is missing or not wanted.
        """
        check_memory(memory, memory_mask, wanted=self.cross_attention)
        causal = causal_mask(x.shape[-2], device=x.device)
        mask = causal if mask is None else causal & mask
        options |= {"memory": memory, "memory_mask": memory_mask, "need_weights": need_weights}
        maps: list[Tensor | None] = []
        memory_maps: list[Tensor | None] = []
        for block in self.blocks:
            x, weights, cross_weights = block(x, mask, **options)
            maps.append(weights)
            memory_maps.append(cross_weights)
        return BlockOutput(self.norm(x), _stacked(maps), _stacked(memory_maps))


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


def count_parameters(module: nn.Module) -> int:
    """Count the numbers a module learns; a tensor shared by several of its parts (tied) counts once.

    >>> embedding, head = nn.Embedding(10, 4), nn.Linear(4, 10, bias=False)
    >>> head.weight = embedding.weight
    >>> count_parameters(nn.Sequential(embedding, head))
    40
    """
    return sum(parameter.numel() for parameter in module.parameters())
