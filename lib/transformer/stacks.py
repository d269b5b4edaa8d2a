"""Stacks of blocks: as encoder, as decoder with a memory, or as decoder alone."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Self

import torch
from torch import Tensor, nn

from lib.attention import causal_mask
from lib.attention.masks import check_mask
from lib.checks import check_at_least, check_features
from lib.transformer.block import BlockOutput, TransformerBlock, check_memory


class Encoder(nn.Module):
    """Stack blocks in which each token may read all tokens, unless a mask says otherwise.

    With norm="pre" the sum of all updates is normed once more at the end, as in GPT-2 and ViT.

    Args:
        dim: width of a token.
        heads: number of heads a layer.
        layers: number of blocks.
        options: keywords of `TransformerBlock`.

    Raises:
        ValueError: `layers` is below 1, or an option doesn't fit a block.

    >>> encoder = Encoder(dim=8, heads=2, layers=3)
    >>> output, weights = encoder(torch.zeros(4, 5, 8), need_weights=True)
    >>> output.shape, weights.shape
    (torch.Size([4, 5, 8]), torch.Size([4, 3, 2, 5, 5]))
    """

    def __init__(self, dim: int, heads: int, layers: int, **options: Any) -> None:
        super().__init__()
        self.blocks, self.norm = _stack(dim, heads, layers, options)

    @classmethod
    def from_torch(cls, other: nn.TransformerEncoder) -> Self:
        """Copy PyTorch's stack: its weights, options, mode and last norm, if it has one.

        Raises ValueError naming each option that has no counterpart here, as `TransformerBlock.from_torch` does.

        >>> layer = nn.TransformerEncoderLayer(8, 2, 32, batch_first=True)
        >>> theirs, x = nn.TransformerEncoder(layer, num_layers=3).eval(), torch.linspace(-1, 1, 24).view(1, 3, 8)
        >>> torch.allclose(Encoder.from_torch(theirs)(x)[0], theirs(x), atol=1e-6)
        True
        """
        return _copy(cls, other, nn.TransformerEncoder)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, *, need_weights: bool = False, **options: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Return the tokens (batch, time, dim), and the weights (batch, layers, heads, time, time) if asked for.

        `mask` broadcasts to (batch, heads, query, key); other keywords go to the self-attention of each block.
        """
        if "cache" in options:
            raise ValueError("cache must not be given to an encoder: its layers would share one")
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
        cross_attention: whether its blocks read a memory, as in `TransformerBlock`.
        options: further keywords of `TransformerBlock`.

    Raises:
        ValueError: `layers` is below 1, or an option doesn't fit a block.

    >>> decoder = Decoder(dim=8, heads=2, layers=3)
    >>> output, _, cross_weights = decoder(torch.zeros(4, 5, 8), torch.zeros(4, 7, 8), need_weights=True)
    >>> output.shape, cross_weights.shape
    (torch.Size([4, 5, 8]), torch.Size([4, 3, 2, 5, 7]))
    """

    def __init__(self, dim: int, heads: int, layers: int, *, cross_attention: Any = True, **options: Any) -> None:
        super().__init__()
        self.dim, self.cross_attention = dim, bool(cross_attention)
        self.blocks, self.norm = _stack(dim, heads, layers, options | {"cross_attention": cross_attention})

    @classmethod
    def from_torch(cls, other: nn.TransformerDecoder) -> Self:
        """Copy PyTorch's stack, as `Encoder.from_torch` does; theirs is causal only with a `tgt_mask`."""
        return _copy(cls, other, nn.TransformerDecoder)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        need_weights: bool = False,
        caches: Sequence[Any] | None = None,
        **options: Any,
    ) -> BlockOutput:
        """Update x (batch, time, dim) under a causal mask, and under `mask` too if there is one.

        `memory` (batch, memory time, dim) is read where `memory_mask` allows it; masks broadcast to
        (batch, heads, query, key). With `caches`, one a layer for the `cache` of its self-attention, x goes on from
        their length. Other keywords go to the self-attention of each block. Raises ValueError where shapes don't fit,
        or memory is missing or not wanted.
        """
        check_features("x", x, self.dim, time=True)
        check_memory(memory, memory_mask, self.dim if self.cross_attention else None)
        _check_caches(caches, options, len(self.blocks))
        time, past = x.shape[-2], 0 if caches is None else caches[0].length
        mask = _and_causal(mask, causal_mask(time, past + time, device=x.device))
        options |= {"memory": memory, "memory_mask": memory_mask, "need_weights": need_weights}
        maps: list[Tensor | None] = []
        cross_maps: list[Tensor | None] = []
        for layer, block in enumerate(self.blocks):
            own = {} if caches is None else {"cache": caches[layer]}
            x, weights, cross_weights = block(x, mask, **options, **own)
            maps.append(weights)
            cross_maps.append(cross_weights)
        return BlockOutput(self.norm(x), _stacked(maps), _stacked(cross_maps))


def _check_caches(caches: Sequence[Any] | None, options: dict[str, Any], layers: int) -> None:
    if "cache" in options or (caches is not None and len(caches) != layers):
        got = "one cache" if caches is None else len(caches)
        raise ValueError(f"caches must be {layers}, one a layer, got {got}")


def _and_causal(mask: Tensor | None, causal: Tensor) -> Tensor:
    if mask is None:
        return causal
    check_mask(mask, (*mask.shape[:-2], *causal.shape))  # batch and heads are checked by each block
    return causal & mask


def _stack(dim: int, heads: int, layers: int, options: dict[str, Any]) -> tuple[nn.ModuleList, nn.Module]:
    """Blocks, and the norm behind them: after Pre-LN blocks the sum of all updates has not been normed yet."""
    check_at_least(1, layers=layers)
    blocks = nn.ModuleList(TransformerBlock(dim, heads, **options) for _ in range(layers))
    pre = options.get("norm", "pre") == "pre"
    return blocks, options.get("norm_layer", nn.LayerNorm)(dim) if pre else nn.Identity()


def _copy(cls: type[Any], other: nn.Module, expected: type[nn.Module]) -> Any:
    if type(other) is not expected:
        raise ValueError(f"other must be an nn.{expected.__name__}, got {type(other).__name__}")
    layers: Any = other.layers
    blocks = nn.ModuleList(TransformerBlock.from_torch(layer) for layer in layers)
    with torch.device("meta"):  # its blocks are replaced
        ours = cls(blocks[0].dim, heads=1, layers=1)
    ours.blocks, ours.norm = blocks, nn.Identity() if other.norm is None else deepcopy(other.norm)
    return ours.train(other.training)


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
