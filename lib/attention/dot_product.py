"""Scaled dot-product attention: the scores of all queries in one matrix product, and softmax under a mask."""

import math

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from lib.attention.inputs import blank_unseen, check_bias, check_inputs
from lib.attention.masks import check_mask


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Turn scores into weights over the keys that each query may attend to.

        wₛ = exp(scoreₛ) / Σ exp(scoreᵣ) over the allowed r, and exactly 0 where blocked

    Args:
        scores: (..., query, key); never modified. Blocked ones may hold anything.
        mask: boolean, broadcastable to the scores, `True` = may attend.

    Returns:
        Weights of the scores' shape and type. A row sums to 1, or is all zeros if nothing is allowed.

    Raises:
        ValueError: the mask is not boolean or does not broadcast to the scores.

    >>> scores = torch.tensor([[0.0, math.log(3), 1e30], [1.0, 2.0, 3.0]])
    >>> masked_softmax(scores, torch.tensor([[True, True, False], [False, False, False]]))
    tensor([[0.2500, 0.7500, 0.0000],
            [0.0000, 0.0000, 0.0000]])
    """
    if mask is None:
        return scores.softmax(-1)
    check_mask(mask, scores.shape)
    empty = ~mask.any(-1, keepdim=True)
    # A row of −inf alone would turn to NaN, also on the way back: give it numbers, then take it out.
    allowed = scores.masked_fill(~mask, -math.inf).masked_fill(empty, 0.0)
    return allowed.softmax(-1).masked_fill(empty, 0.0)


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Average the values with weights that grow with the dot product of query and key.

        Attention(Q, K, V) = softmax(Q Kᵀ / √d + B) V

    Args:
        query: (..., query, dim).
        key: (..., key, dim).
        value: (..., key, value_dim).
        mask: boolean, broadcastable to (..., query, key), `True` = may attend.
        scale: factor on the dot products; 1/√dim when left out.
        bias: B, numbers broadcastable to (..., query, key), such as `lib.transformer.alibi_bias`; 0 when left out.

    Returns:
        The output (..., query, value_dim) and the weights (..., query, key).

    Raises:
        ValueError: shapes of query, key, value, mask or bias don't fit.

    Source: Vaswani et al. 2017, equation 1, without B.

    >>> query = torch.tensor([[0.0, math.sqrt(2)]])
    >>> key, value = torch.eye(2), torch.tensor([[1.0], [0.0]])
    >>> output, weights = dot_product_attention(query, key, value)  # weights [1, e] / (1 + e)
    >>> weights
    tensor([[0.2689, 0.7311]])
    """
    shape = check_inputs(query, key, value, mask)
    key, value = blank_unseen(key, mask), blank_unseen(value, mask)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ key.transpose(-2, -1) * scale
    if bias is not None:
        check_bias(bias, shape)
        scores = scores + bias.to(scores.dtype)
    weights = masked_softmax(scores, mask)
    return weights @ value, weights


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Give the output of `dot_product_attention` through PyTorch's fused kernel, without the weights.

    Arguments, shapes and errors are those of `dot_product_attention`. The polarity of a boolean mask is the
    same in `F.scaled_dot_product_attention`; what it makes of a row with nothing to attend to differs between
    its versions and backends, so such rows are set to zero here.

    >>> query, key = torch.eye(2), torch.eye(2)
    >>> fused_attention(query, key, key, torch.tensor([[True, False], [False, False]]))
    tensor([[1., 0.],
            [0., 0.]])
    """
    shape = check_inputs(query, key, value, mask)
    if bias is not None:
        check_bias(bias, shape)
        bias = torch.atleast_2d(bias.to(query.dtype))
    if mask is None:
        return scaled_dot_product_attention(query, key, value, bias, scale=scale)
    key, value = blank_unseen(key, mask), blank_unseen(value, mask)
    empty = ~mask.any(-1, keepdim=True)
    allowed = torch.atleast_2d(mask | empty)
    added = allowed if bias is None else torch.where(allowed, bias, -math.inf)
    return scaled_dot_product_attention(query, key, value, added, scale=scale).masked_fill(empty, 0.0)
