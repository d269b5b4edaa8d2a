"""Feed-forward networks: each token is worked on alone, and nothing passes between tokens."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn


class FeedForward(nn.Module):
    """Widen a token, bend it, narrow it again.

        FFN(x) = W₂ φ(W₁ x + b₁) + b₂

    Weights 2 · dim · hidden: 8 dim² at the usual hidden = 4 dim. With biases, as in the paper's formula.

    Args:
        dim: width of a token.
        hidden: width in between; 4 `dim` when left out.
        activation: φ; GELU as in BERT, GPT and ViT, or ReLU as in the paper.

    Source: Vaswani et al. 2017, equation 2.

    >>> import torch
    >>> FeedForward(6, 24)(torch.zeros(2, 5, 6)).shape
    torch.Size([2, 5, 6])
    """

    def __init__(self, dim: int, hidden: int | None = None, *, activation: Callable[[Tensor], Tensor] = F.gelu) -> None:
        super().__init__()
        hidden = 4 * dim if hidden is None else hidden
        _check_widths(dim, hidden)
        self.up_proj = nn.Linear(dim, hidden)
        self.down_proj = nn.Linear(hidden, dim)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.activation(self.up_proj(x)))


class SwiGLU(nn.Module):
    """Let one projection of a token open and close the gates of another.

        SwiGLU(x) = W_down (SiLU(W_gate x) ⊙ W_up x)        SiLU(z) = z · sigmoid(z)

    Three matrices, weights 3 · dim · hidden; at hidden = 8 dim / 3 as many as `FeedForward` has at 4 dim.
    Without biases, as in the paper and in LLaMA.

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
        _check_widths(dim, hidden)
        self.gate_proj = nn.Linear(dim, hidden, bias=False)
        self.up_proj = nn.Linear(dim, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


def _check_widths(dim: int, hidden: int) -> None:
    if dim < 1 or hidden < 1:
        raise ValueError(f"dim and hidden must be at least 1, got {dim} and {hidden}")
