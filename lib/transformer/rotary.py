"""Multi-head attention in which RoPE turns queries and keys."""

from functools import partial

import torch
from torch import Tensor

from lib.attention import MultiHeadAttention
from lib.transformer.positions import Layout, apply_rope


class RotaryAttention(MultiHeadAttention):
    """Multi-head attention that sees how far apart two tokens are, through rotary position embedding.

        head = Attention(R Q, R K, V)        R turns the token at position m by the angles m θᵢ

    Values are not turned. Queries and context stand on one time axis and end together, as with a causal mask.

    Args:
        dim: width of tokens and of the output.
        heads: number of heads; must divide `dim` into heads of even width.
        bias: whether the four projections have a bias.
        base: sets the slowest angle.
        layout: which features are a pair, see `apply_rope`.

    Source: Su et al. 2021, §3.2.2.

    >>> attend, x = RotaryAttention(dim=8, heads=2), torch.randn(1, 5, 8)
    >>> torch.allclose(attend(x[:, 2:], x)[0], attend(x)[0][:, 2:], atol=1e-6)
    True
    """

    def __init__(
        self, dim: int, heads: int, *, bias: bool = False, base: float = 10000.0, layout: Layout = "interleaved"
    ) -> None:
        super().__init__(dim, heads, bias=bias)
        if dim // heads % 2:
            raise ValueError(f"heads must be of even width, got dim = {dim} and heads = {heads}")
        self.rotate = partial(apply_rope, base=base, layout=layout)

    def project(self, query: Tensor, context: Tensor, past: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries and keys, turned by their positions, and values, (batch, heads, time, head_dim)."""
        q, k, v = super().project(query, context, past)
        positions = torch.arange(past, past + k.shape[-2], device=k.device)
        return self.rotate(q, positions[k.shape[-2] - q.shape[-2] :]), self.rotate(k, positions), v
