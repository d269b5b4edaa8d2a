"""The block of a Transformer: attention and a feed-forward network, each with a norm and a residual.

What a block is made of is handed to it as something that makes it: `attention` is called as `attention(dim, heads)`,
`feed_forward` and `norm_layer` as `…(dim)`. So other attention, with rotary positions or with fewer key heads and a
cache, takes the place of `MultiHeadAttention` if it can be called like it.
"""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any, Literal, NamedTuple, Self

from torch import Tensor, nn

from lib.attention import MultiHeadAttention
from lib.transformer.feed_forward import FeedForward


class BlockOutput(NamedTuple):
    """What comes out of a block or a decoder; weights are None unless asked for."""

    output: Tensor
    """(batch, time, dim)"""
    weights: Tensor | None
    """of self-attention: (batch, heads, time, time) of a block, (batch, layers, heads, time, time) of a stack"""
    cross_weights: Tensor | None
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

    >>> import torch
    >>> from lib.attention import causal_mask
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

    @classmethod
    def from_torch(cls, other: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> Self:
        """Copy PyTorch's layer, weights and all; only while training do they differ, in what dropout falls on.

        >>> import torch
        >>> theirs = nn.TransformerEncoderLayer(8, 2, 32, norm_first=True, batch_first=True).eval()
        >>> x = torch.linspace(-1, 1, 24).view(1, 3, 8)
        >>> torch.allclose(TransformerBlock.from_torch(theirs).eval()(x).output, theirs(x), atol=1e-6)
        True
        """
        attend, up = other.self_attn, other.linear1
        ours = cls(
            attend.embed_dim,
            attend.num_heads,
            norm="pre" if other.norm_first else "post",
            cross_attention=isinstance(other, nn.TransformerDecoderLayer),
            feed_forward=partial(FeedForward, hidden=up.out_features, activation=other.activation),
            dropout=other.dropout1.p,
        )
        ours.attention, ours.attention_norm = MultiHeadAttention.from_torch(attend), deepcopy(other.norm1)
        ours.feed_forward.up_proj, ours.feed_forward.down_proj = deepcopy(up), deepcopy(other.linear2)
        ours.feed_forward_norm = deepcopy(other.norm2)
        if isinstance(other, nn.TransformerDecoderLayer):
            ours.cross, ours.cross_norm = MultiHeadAttention.from_torch(other.multihead_attn), deepcopy(other.norm2)
            ours.feed_forward_norm = deepcopy(other.norm3)
        return ours

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        need_weights: bool = False,
        **options: Any,
    ) -> BlockOutput:
        """Update tokens x (batch, time, dim), which may read one another where `mask` allows it.

        `memory` (batch, memory time, dim) is read by cross-attention where `memory_mask` allows it; both masks
        broadcast to (batch, heads, query, key). Other keywords go to the self-attention, such as `bias`, or what
        an attention of your own takes (a cache). Raises ValueError where memory is missing or not wanted.
        """
        check_memory(memory, memory_mask, wanted=self.cross is not None)
        update, weights = self.attention(
            self._enter(x, self.attention_norm), mask=mask, need_weights=need_weights, **options
        )
        x, cross_weights = self._leave(x, update, self.attention_norm), None
        if self.cross is not None and self.cross_norm is not None:
            update, cross_weights = self.cross(self._enter(x, self.cross_norm), memory, memory_mask, need_weights)
            x = self._leave(x, update, self.cross_norm)
        update = self.feed_forward(self._enter(x, self.feed_forward_norm))
        return BlockOutput(self._leave(x, update, self.feed_forward_norm), weights, cross_weights)

    def _enter(self, x: Tensor, norm: nn.Module) -> Tensor:
        return norm(x) if self.pre else x

    def _leave(self, x: Tensor, update: Tensor, norm: nn.Module) -> Tensor:
        x = x + self.dropout(update)
        return x if self.pre else norm(x)


def check_memory(memory: Tensor | None, memory_mask: Tensor | None, wanted: bool) -> None:
    """Raise unless there is a memory just where one is wanted.

    >>> check_memory(None, None, wanted=False)
    """
    if wanted and memory is None:
        raise ValueError("memory must be given to a block with cross-attention, got None")
    if not wanted and (memory is not None or memory_mask is not None):
        raise ValueError("memory and memory_mask must be None without cross-attention, got a tensor")
