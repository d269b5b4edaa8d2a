"""Attention: a query is compared with keys, and the values are averaged by how well they match.

Shapes are (batch, heads, time, dim), batch first; functions take any leading shape. Masks are boolean,
`True` = may attend (see `lib.masks`). A blocked weight is exactly 0, whatever finite number stands there;
a key hidden from every query (padding) may hold anything, inf and NaN too. A query with nothing to attend
to gets a row of zeros, forward and backward.
"""

from typing import Self

import torch
from torch import Tensor, nn

from lib.dot_product import dot_product_attention, fused_attention, masked_softmax
from lib.inputs import blank_unseen, check_inputs
from lib.masks import check_mask
from lib.tiled import tiled_attention

__all__ = [
    "AdditiveAttention",
    "MultiHeadAttention",
    "dot_product_attention",
    "fused_attention",
    "hopfield_update",
    "kernel_regression",
    "masked_softmax",
    "tiled_attention",
]


def kernel_regression(
    x_query: Tensor, x_train: Tensor, y_train: Tensor, sigma: float | Tensor
) -> tuple[Tensor, Tensor]:
    """Predict y at each query point as the average of the training values, weighted by nearness.

        f(x) = Σᵢ α(x, xᵢ) yᵢ        α(x, xᵢ) = softmaxᵢ(−(x − xᵢ)² / 2σ²)

    `x_query` is the query, `x_train` the keys, `y_train` the values.

    Args:
        x_query: (..., queries).
        x_train: (..., keys).
        y_train: (..., keys).
        sigma: width of the Gaussian kernel, in units of x; a number or a 0-d tensor, above 0.

    Returns:
        The prediction (..., queries) and the weights (..., queries, keys).

    Raises:
        ValueError: `sigma` is not above 0, there is no training point, or keys and values differ in number.

    Source: Nadaraya 1964; Watson 1964.

    >>> x, y = torch.tensor([0.0, 1.0, 4.0]), torch.tensor([5.0, 7.0, 9.0])
    >>> kernel_regression(torch.tensor([0.5]), x, y, sigma=0.1)[0]
    tensor([6.])
    """
    if not sigma > 0:
        raise ValueError(f"sigma must be above 0, got {sigma}")
    if x_query.ndim < 1:
        raise ValueError("x_query must be (..., queries), got a 0-d tensor")
    if x_train.ndim < 1 or x_train.shape[-1:] != y_train.shape[-1:] or x_train.shape[-1] == 0:
        shapes = f"{tuple(x_train.shape)} and {tuple(y_train.shape)}"
        raise ValueError(f"x_train and y_train must hold the same points, at least one, got {shapes}")
    squared = (x_query[..., :, None] - x_train[..., None, :]) ** 2  # (..., queries, keys)
    sigma = torch.as_tensor(sigma, dtype=squared.dtype).clamp(min=torch.finfo(squared.dtype).tiny)
    # Softmax ignores a shift of its row. Measured from the nearest key, no sigma is too small.
    scores = -(squared - squared.amin(-1, keepdim=True)) / sigma / sigma / 2
    weights = masked_softmax(scores)
    return (weights @ y_train[..., None]).squeeze(-1), weights


class AdditiveAttention(nn.Module):
    """Score a query against a key with a small network, so that the two may differ in width.

        a(q, k) = vᵀ tanh(W_q q + W_k k)        output = softmax(a) V

    Without biases, as in the paper.

    Args:
        query_dim: width of a query.
        key_dim: width of a key.
        hidden_dim: width of the hidden layer.

    Source: Bahdanau, Cho & Bengio 2015, appendix A.1.2.

    >>> attend = AdditiveAttention(query_dim=5, key_dim=3, hidden_dim=8)
    >>> key = torch.zeros(2, 7, 3)
    >>> output, weights = attend(torch.zeros(2, 4, 5), key, key)
    >>> output.shape, weights.shape
    (torch.Size([2, 4, 3]), torch.Size([2, 4, 7]))
    """

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.q_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.k_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.score = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Attend from (..., query, query_dim) to (..., key, key_dim) and values (..., key, value_dim).

        Returns the output (..., query, value_dim) and the weights (..., query, key), to which `mask`
        broadcasts. Raises ValueError where shapes don't fit.
        """
        _check_width("query", query, self.q_proj.in_features)
        _check_width("key", key, self.k_proj.in_features)
        check_inputs(query, key, value, mask, same_width=False)
        q, k, value = self.q_proj(query), self.k_proj(blank_unseen(key, mask)), blank_unseen(value, mask)
        hidden = torch.tanh(q[..., :, None, :] + k[..., None, :, :])  # (..., query, key, hidden)
        weights = masked_softmax(self.score(hidden).squeeze(-1), mask)
        return weights @ value, weights


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
        _check_width("query", query, self.dim)
        _check_width("context", context, self.dim)
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


def _check_width(name: str, x: Tensor, width: int) -> None:
    if x.shape[-1] != width:
        raise ValueError(f"{name} must be (..., time, {width}), got {tuple(x.shape)}")


def hopfield_update(state: Tensor, patterns: Tensor, beta: float | Tensor) -> Tensor:
    """Take one step of a modern Hopfield network: attention with the patterns as keys and as values.

        ξ_new = X softmax(β Xᵀ ξ)

    The paper stores patterns as columns of X; here they are rows, as tokens are.

    Args:
        state: ξ, (dim,) or (..., states, dim).
        patterns: Xᵀ, (patterns, dim) or (..., patterns, dim).
        beta: inverse temperature, above 0; 1/√dim is the scale of attention.

    Returns:
        The new state, of the shape of `state`.

    Raises:
        ValueError: `beta` is not above 0, or the widths differ.

    Source: Ramsauer et al. 2021, equation 3.

    >>> patterns = torch.tensor([[1.0, 1.0, -1.0, -1.0], [1.0, -1.0, 1.0, -1.0]])
    >>> hopfield_update(torch.tensor([1.0, 1.0, -1.0, 0.0]), patterns, beta=8.0)
    tensor([ 1.,  1., -1., -1.])
    """
    if not beta > 0:
        raise ValueError(f"beta must be above 0, got {beta}")
    if state.shape[-1] != patterns.shape[-1]:
        shapes = f"{tuple(state.shape)} and {tuple(patterns.shape)}"
        raise ValueError(f"state and patterns must be of the same width, got {shapes}")
    return masked_softmax(beta * state @ patterns.transpose(-2, -1)) @ patterns
