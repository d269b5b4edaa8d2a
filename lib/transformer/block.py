"""The block of a Transformer: attention and a feed-forward network, each with a norm and a residual connection."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any, Literal, NamedTuple, Self

from torch import Tensor, nn

from lib.attention import MultiHeadAttention
from lib.checks import check_features
from lib.transformer.feed_forward import FeedForward
from lib.transformer.torch_layers import check_layer


class BlockOutput(NamedTuple):
    """Output of a block or a decoder; weights are None unless asked for."""

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
        cross_attention: whether the block reads a memory, or a function that makes the attention that does.
        attention: called as `attention(dim, heads)`, makes the self-attention; any module that is called as
            `MultiHeadAttention` is. `functools.partial(MultiHeadAttention, bias=True)` has biases.
        feed_forward: called as `feed_forward(dim)`; `SwiGLU`, or a `partial` for another `hidden`.
        norm_layer: called as `norm_layer(dim)`, makes each norm; `nn.RMSNorm` as in LLaMA.
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
        cross_attention: bool | Callable[[int, int], nn.Module] = False,
        attention: Callable[[int, int], nn.Module] = MultiHeadAttention,
        feed_forward: Callable[[int], nn.Module] = FeedForward,
        norm_layer: Callable[[int], nn.Module] = nn.LayerNorm,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if norm not in ("pre", "post"):
            raise ValueError(f'norm must be "pre" or "post", got {norm!r}')
        self.dim, self.pre = dim, norm == "pre"
        make_cross = MultiHeadAttention if cross_attention is True else cross_attention
        self.attention, self.attention_norm = attention(dim, heads), norm_layer(dim)
        self.cross = make_cross(dim, heads) if make_cross else None
        self.cross_norm = norm_layer(dim) if make_cross else None
        self.feed_forward, self.feed_forward_norm = feed_forward(dim), norm_layer(dim)
        self.dropout = nn.Dropout(dropout) if dropout else None

    @classmethod
    def from_torch(cls, other: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> Self:
        """Copy PyTorch's layer: its weights, options and mode.

        Raises ValueError naming each option that has no counterpart here, such as batch_first=False.

        >>> import torch
        >>> theirs = nn.TransformerEncoderLayer(8, 2, 32, norm_first=True, batch_first=True).eval()
        >>> x = torch.linspace(-1, 1, 24).view(1, 3, 8)
        >>> torch.allclose(TransformerBlock.from_torch(theirs)(x).output, theirs(x), atol=1e-6)
        True
        """
        check_layer(other)
        attend, up = other.self_attn, other.linear1
        activation = deepcopy(other.activation)
        ours = cls(
            attend.embed_dim,
            attend.num_heads,
            norm="pre" if other.norm_first else "post",
            cross_attention=isinstance(other, nn.TransformerDecoderLayer),
            feed_forward=partial(FeedForward, hidden=up.out_features, activation=activation, dropout=other.dropout.p),
            dropout=other.dropout1.p,
        )
        ours.attention, ours.attention_norm = MultiHeadAttention.from_torch(attend), deepcopy(other.norm1)
        ours.feed_forward.up_proj, ours.feed_forward.down_proj = deepcopy(up), deepcopy(other.linear2)
        ours.feed_forward_norm = deepcopy(other.norm2)
        if isinstance(other, nn.TransformerDecoderLayer):
            ours.cross, ours.cross_norm = MultiHeadAttention.from_torch(other.multihead_attn), deepcopy(other.norm2)
            ours.feed_forward_norm = deepcopy(other.norm3)
        return ours.train(other.training)

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
        broadcast to (batch, heads, query, key). Other keywords go to the self-attention, such as `bias` or `cache`.
        Raises ValueError where shapes don't fit, or memory is missing or not wanted.
        """
        check_features("x", x, self.dim, time=True)
        check_memory(memory, memory_mask, self.dim if self.cross is not None else None)
        update, weights = self.attention(
            self._norm_before(x, self.attention_norm), mask=mask, need_weights=need_weights, **options
        )
        x, cross_weights = self._add(x, update, self.attention_norm), None
        if self.cross is not None and self.cross_norm is not None:
            query = self._norm_before(x, self.cross_norm)
            update, cross_weights = self.cross(query, memory, mask=memory_mask, need_weights=need_weights)
            x = self._add(x, update, self.cross_norm)
        update = self.feed_forward(self._norm_before(x, self.feed_forward_norm))
        return BlockOutput(self._add(x, update, self.feed_forward_norm), weights, cross_weights)

    def _norm_before(self, x: Tensor, norm: nn.Module) -> Tensor:
        return norm(x) if self.pre else x

    def _add(self, x: Tensor, update: Tensor, norm: nn.Module) -> Tensor:
        x = x + (update if self.dropout is None else self.dropout(update))
        return x if self.pre else norm(x)


def check_memory(memory: Tensor | None, memory_mask: Tensor | None, dim: int | None) -> None:
    """Raise unless there is a memory of width `dim`, or none where `dim` is None: without cross-attention.

    >>> check_memory(None, None, dim=None)
    """
    if dim is None and (memory is not None or memory_mask is not None):
        raise ValueError("memory and memory_mask must be None without cross-attention, got a tensor")
    if dim is not None and memory is None:
        raise ValueError("memory must be given to a block with cross-attention, got None")
    if dim is not None and memory is not None:
        check_features("memory", memory, dim, time=True)
