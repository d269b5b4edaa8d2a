"""Multi-head attention: several heads side by side, each in its own projection."""

from typing import Protocol, Self

from torch import Tensor, nn

from lib.attention.dot_product import dot_product_attention, fused_attention
from lib.attention.inputs import blank_unseen
from lib.attention.masks import check_mask
from lib.checks import check_at_least, check_features


class Cache(Protocol):
    """Keys and values of earlier tokens, for one layer."""

    @property
    def length(self) -> int:
        """Number of earlier tokens."""
        ...

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add those of new tokens, and return all: (batch, kv_heads, length + new, head_dim)."""
        ...


class MultiHeadAttention(nn.Module):
    """Let several heads attend side by side, each in its own projection of width dim / heads.

        headᵢ = Attention(X W_Qⁱ, C W_Kʲ, C W_Vʲ), j = ⌊i · kv_heads / heads⌋        output = Concat(head₁ … head_h) W_O

    Weights 2 dim² (1 + kv_heads / heads): 4 dim² when each head has keys and values of its own.

    Args:
        dim: width of tokens and of the output.
        heads: number of query heads; must divide `dim`.
        kv_heads: number of key-value heads; must divide `heads`. As many as `heads` when left out; with fewer, a group
            of query heads shares one (grouped-query attention), with 1 all do (multi-query attention).
        bias: whether the four projections have a bias; `nn.MultiheadAttention` has them by default, LLaMA has none.

    Raises:
        ValueError: a number is below 1, or one that must divide another doesn't.

    Source: Vaswani et al. 2017, §3.2.2; groups: Ainslie et al. 2023, §2.2.

    >>> import torch
    >>> attend = MultiHeadAttention(dim=8, heads=2)
    >>> action, context = torch.zeros(1, 16, 8), torch.zeros(1, 200, 8)
    >>> output, weights = attend(action, context, need_weights=True)
    >>> output.shape, weights.shape
    (torch.Size([1, 16, 8]), torch.Size([1, 2, 16, 200]))
    """

    def __init__(self, dim: int, heads: int, *, kv_heads: int | None = None, bias: bool = False) -> None:
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        check_at_least(1, dim=dim, heads=heads, kv_heads=kv_heads)
        if dim % heads or heads % kv_heads:
            sizes = f"dim = {dim}, heads = {heads} and kv_heads = {kv_heads}"
            raise ValueError(f"heads must divide dim, and kv_heads must divide heads, got {sizes}")
        self.dim, self.heads, self.kv_heads, self.head_dim = dim, heads, kv_heads, dim // heads
        self._add_projections(bias)
        self.out_proj = nn.Linear(dim, dim, bias=bias)

    def _add_projections(self, bias: bool) -> None:
        kv_dim = self.kv_heads * self.head_dim
        self.q_proj = nn.Linear(self.dim, self.dim, bias=bias)
        self.k_proj = nn.Linear(self.dim, kv_dim, bias=bias)
        self.v_proj = nn.Linear(self.dim, kv_dim, bias=bias)

    @classmethod
    def from_torch(cls, other: nn.MultiheadAttention) -> Self:
        """Copy the weights of PyTorch's module, which stacks those of query, key and value in one matrix.

        Raises ValueError naming the option that has no counterpart here: a `kdim` or `vdim` of its own, `add_bias_kv`,
        `add_zero_attn`, or a `dropout` that is at work, in training mode.

        >>> import torch
        >>> theirs = nn.MultiheadAttention(8, 2, batch_first=True)
        >>> x = torch.linspace(-1, 1, 24).view(1, 3, 8)
        >>> torch.allclose(MultiHeadAttention.from_torch(theirs)(x)[0], theirs(x, x, x)[0], atol=1e-6)
        True
        """
        for option, used in {
            "kdim or vdim": other.in_proj_weight is None,
            "add_bias_kv": other.bias_k is not None,
            "add_zero_attn": other.add_zero_attn,
            "dropout": other.training and other.dropout > 0,
        }.items():
            if used:
                raise ValueError(f"other must be without {option}, got {other} (training = {other.training})")
        has_bias = other.in_proj_bias is not None
        state = dict(other.state_dict())
        for kind in ("weight", "bias") if has_bias else ("weight",):
            parts = state.pop(f"in_proj_{kind}").chunk(3)
            state |= {f"{name}_proj.{kind}": part for name, part in zip("qkv", parts, strict=True)}
        ours = cls(other.embed_dim, other.num_heads, bias=has_bias).to(other.in_proj_weight)
        ours.load_state_dict(state)
        return ours.train(other.training)

    def forward(
        self,
        query: Tensor,
        context: Tensor | None = None,
        mask: Tensor | None = None,
        need_weights: bool = False,
        *,
        bias: Tensor | None = None,
        cache: Cache | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from `query` (batch, query, dim) to `context` (batch, key, dim), by default to itself.

        `mask` and `bias`, numbers added to the scores, broadcast to (batch, heads, query, key). With a `cache` the keys
        are those of earlier tokens too, and those of the context are added to it. Returns the output
        (batch, query, dim), and the weights (batch, heads, query, key) if asked for, else None, and the fused kernel
        does the work. Raises ValueError where shapes don't fit.
        """
        check_features("query", query, self.dim, time=True)
        past = 0 if cache is None else cache.length
        if context is None:
            context = query
        else:
            check_features("context", context, self.dim, time=True)
            context = self._without_hidden(context, query, mask, past)
        q, k, v = self.project(query, context, past)
        if cache is not None:
            k, v = cache.update(k, v)
        if self.kv_heads < self.heads:  # each key head serves a group of query heads
            group = self.heads // self.kv_heads
            k, v = k.repeat_interleave(group, -3), v.repeat_interleave(group, -3)  # (batch, heads, key, head_dim)
        weights = None
        if need_weights:
            output, weights = dot_product_attention(q, k, v, mask, bias=bias)
        else:
            output = fused_attention(q, k, v, mask, bias=bias)
        output = output.transpose(-3, -2).flatten(-2)  # (batch, query, dim)
        return self.out_proj(output), weights

    def project(self, query: Tensor, context: Tensor, past: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries (batch, heads, query, head_dim), keys and values (batch, kv_heads, key, head_dim).

        `past` tokens stand before the context; where positions count, they go on from there.
        """
        return self._split(self.q_proj(query)), self._split(self.k_proj(context)), self._split(self.v_proj(context))

    def _split(self, x: Tensor) -> Tensor:
        heads = x.shape[-1] // self.head_dim  # -1 would be ambiguous where x is empty
        return x.view(*x.shape[:-1], heads, self.head_dim).transpose(-3, -2)  # (batch, heads, time, head_dim)

    def _without_hidden(self, context: Tensor, query: Tensor, mask: Tensor | None, past: int) -> Tensor:
        """Blank what no head sees before it is projected: else a NaN would reach the gradient of the weights."""
        if mask is None:
            return context
        keys = past + context.shape[-2]
        check_mask(mask, (*context.shape[:-2], self.heads, query.shape[-2], keys))
        for_any_head = mask.any(-3) if mask.ndim > 2 else mask  # (batch, query, keys)
        return blank_unseen(context, for_any_head.expand(*for_any_head.shape[:-1], keys)[..., past:])
