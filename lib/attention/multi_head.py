"""Multi-head attention: several heads side by side, each in its own projection."""

from typing import Self

from torch import Tensor, nn

from lib.attention.dot_product import dot_product_attention, fused_attention
from lib.attention.inputs import blank_unseen, check_width
from lib.attention.masks import check_mask


class MultiHeadAttention(nn.Module):
    """Let several heads attend side by side, each in its own projection of width dim / heads.

        headᵢ = Attention(X W_Qⁱ, C W_Kⁱ, C W_Vⁱ)        output = Concat(head₁ … head_h) W_O

    Weights 4 dim². No biases unless asked for, as in LLaMA; `nn.MultiheadAttention` has them by default.

    Args:
        dim: width of tokens and of the output.
        heads: number of heads; must divide `dim`.
        bias: whether the four projections have a bias.

    Raises:
        ValueError: `heads` does not divide `dim`.

    Source: Vaswani et al. 2017, §3.2.2.

    >>> import torch
    >>> attend = MultiHeadAttention(dim=8, heads=2)
    >>> action, context = torch.zeros(1, 16, 8), torch.zeros(1, 200, 8)
    >>> output, weights = attend(action, context, need_weights=True)
    >>> output.shape, weights.shape
    (torch.Size([1, 16, 8]), torch.Size([1, 2, 16, 200]))
    """

    def __init__(self, dim: int, heads: int, *, bias: bool = False) -> None:
        super().__init__()
        if heads < 1 or dim < 1 or dim % heads:
            raise ValueError(f"heads must divide dim, got dim = {dim} and heads = {heads}")
        self.dim, self.heads = dim, heads
        self.q_proj = nn.Linear(dim, dim, bias=bias)
        self.k_proj = nn.Linear(dim, dim, bias=bias)
        self.v_proj = nn.Linear(dim, dim, bias=bias)
        self.out_proj = nn.Linear(dim, dim, bias=bias)

    @classmethod
    def from_torch(cls, other: nn.MultiheadAttention) -> Self:
        """Copy the weights of PyTorch's module, which stacks those of query, key and value in one matrix.

        >>> import torch
        >>> theirs = nn.MultiheadAttention(8, 2, batch_first=True)
        >>> x = torch.linspace(-1, 1, 24).view(1, 3, 8)
        >>> torch.allclose(MultiHeadAttention.from_torch(theirs)(x)[0], theirs(x, x, x)[0], atol=1e-6)
        True
        """
        if other.in_proj_weight is None or other.bias_k is not None or other.add_zero_attn:
            raise ValueError("other must have one embed_dim for query, key and value, and no extra key")
        has_bias = other.in_proj_bias is not None
        state = other.state_dict()
        for kind in ("weight", "bias") if has_bias else ("weight",):
            parts = state.pop(f"in_proj_{kind}").chunk(3)
            state |= {f"{name}_proj.{kind}": part for name, part in zip("qkv", parts, strict=True)}
        ours = cls(other.embed_dim, other.num_heads, bias=has_bias).to(other.in_proj_weight)
        ours.load_state_dict(state)
        return ours

    def forward(
        self,
        query: Tensor,
        context: Tensor | None = None,
        mask: Tensor | None = None,
        need_weights: bool = False,
        *,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from `query` (batch, query, dim) to `context` (batch, key, dim), by default to itself.

        `mask` and `bias`, numbers added to the scores, broadcast to (batch, heads, query, key). Returns the
        output (batch, query, dim), and the weights (batch, heads, query, key) if asked for, else None, and the
        fused kernel does the work.
        Raises ValueError where shapes don't fit.
        """
        context = query if context is None else context
        check_width("query", query, self.dim)
        check_width("context", context, self.dim)
        if mask is not None:
            check_mask(mask, (*context.shape[:-2], self.heads, query.shape[-2], context.shape[-2]))
            context = blank_unseen(context, mask.any(-3) if mask.ndim > 2 else mask)  # hidden from all heads
        q, k, v = self.project(query, context)
        weights = None
        if need_weights:
            output, weights = dot_product_attention(q, k, v, mask, bias=bias)
        else:
            output = fused_attention(q, k, v, mask, bias=bias)
        return self.out_proj(output.transpose(-3, -2).flatten(-2)), weights

    def project(self, query: Tensor, context: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Give queries, keys and values of all heads, (batch, heads, time, dim / heads)."""
        return self._split(self.q_proj(query)), self._split(self.k_proj(context)), self._split(self.v_proj(context))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(-3, -2)  # (batch, heads, time, dim / heads)
