"""Feed-forward networks: each token is worked on alone, and nothing passes between tokens."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from lib.checks import check_at_least, check_features


class FeedForward(nn.Module):
    """Map a token to a wider vector, through a nonlinearity, and back.

        FFN(x) = W₂ φ(W₁ x + b₁) + b₂

    Weights 2 · dim · hidden: 8 dim² at hidden = 4 dim.

    Args:
        dim: width of a token.
        hidden: width in between; 4 `dim` when left out.
        activation: φ; GELU as in BERT, GPT and ViT, or ReLU as in the paper.
        dropout: share of φ's output that is dropped while training; none in the paper.

    Source: Vaswani et al. 2017, equation 2.

    >>> import torch
    >>> FeedForward(6, 24)(torch.zeros(2, 5, 6)).shape
    torch.Size([2, 5, 6])
    """

    def __init__(
        self,
        dim: int,
        hidden: int | None = None,
        *,
        activation: Callable[[Tensor], Tensor] = F.gelu,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        hidden = 4 * dim if hidden is None else hidden
        check_at_least(1, dim=dim, hidden=hidden)
        self.dim = dim
        self.up_proj = nn.Linear(dim, hidden)
        self.down_proj = nn.Linear(hidden, dim)
        self.activation = activation
        self.dropout = nn.Dropout(dropout) if dropout else None

    def forward(self, x: Tensor) -> Tensor:
        check_features("x", x, self.dim)
        hidden = self.activation(self.up_proj(x))  # (..., hidden)
        return self.down_proj(hidden if self.dropout is None else self.dropout(hidden))


class SwiGLU(nn.Module):
    """Map a token to a wider vector, multiply it by gates that the token sets, and map it back.

        SwiGLU(x) = W_down (SiLU(W_gate x) ⊙ W_up x)        SiLU(z) = z · sigmoid(z)

    Weights 3 · dim · hidden, without biases; at hidden = 8 dim / 3 as many as `FeedForward` has.

    Args:
        dim: width of a token.
        hidden: width in between; 8 `dim` / 3, rounded, when left out.

    Source: Shazeer 2020, equation 6.

    >>> sum(p.numel() for p in SwiGLU(6).parameters()) == 8 * 6**2
    True
    """

    def __init__(self, dim: int, hidden: int | None = None) -> None:
        super().__init__()
        hidden = round(8 * dim / 3) if hidden is None else hidden
        check_at_least(1, dim=dim, hidden=hidden)
        self.dim = dim
        self.gate_proj = nn.Linear(dim, hidden, bias=False)
        self.up_proj = nn.Linear(dim, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        check_features("x", x, self.dim)
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
