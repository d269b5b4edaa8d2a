"""Multi-head attention in which RoPE turns queries and keys."""

from functools import partial

import torch
from torch import Tensor

from lib.attention import MultiHeadAttention
from lib.transformer.positions import Layout, apply_rope


class RotaryAttention(MultiHeadAttention):
    """Multi-head attention that sees how far apart two tokens are, through rotary position embedding.

        head = Attention(R Q, R K, V)        R turns the token at position m by the angles m θᵢ

    Queries and context stand on one time axis and end together, as under a causal mask; with a cache, positions go on
    from its length.

    Args:
        dim, heads, kv_heads, bias: as in `MultiHeadAttention`; heads of even width.
        base: sets the slowest angle.
        layout: which features are a pair, see `apply_rope`.

    Raises:
        ValueError: heads are of odd width, or `layout` or `base` is unknown.

    Source: Su et al. 2021, §3.2.2.

    >>> attend, x = RotaryAttention(dim=8, heads=2), torch.randn(1, 5, 8)
    >>> torch.allclose(attend(x[:, 2:], x)[0], attend(x)[0][:, 2:], atol=1e-6)
    True
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        bias: bool = False,
        base: float = 10000.0,
        layout: Layout = "interleaved",
    ) -> None:
        super().__init__(dim, heads, kv_heads=kv_heads, bias=bias)
        if dim // heads % 2:
            raise ValueError(f"heads must be of even width, got dim = {dim} and heads = {heads}")
        self.rotate = partial(apply_rope, base=base, layout=layout)
        self.rotate(torch.zeros(0, 2))  # an unknown layout or base is an error here already

    def project(self, query: Tensor, context: Tensor, past: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries and keys, turned by their positions, and values, (batch, heads, time, head_dim)."""
        q, k, v = super().project(query, context, past)
        queries, end = q.shape[-2], past + k.shape[-2]
        if queries > end:
            raise ValueError(f"context must be as long as query or longer, got {queries} queries and {end} keys")
        q_positions = torch.arange(end - queries, end, device=q.device)
        k_positions = torch.arange(past, end, device=k.device)
        return self.rotate(q, q_positions), self.rotate(k, k_positions), v
