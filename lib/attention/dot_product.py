"""Scaled dot-product attention: the scores of all queries in one matrix product, and softmax under a mask."""

import math

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from lib.attention.inputs import blank_unseen, check_bias, check_inputs, check_scale
from lib.attention.masks import check_mask
from lib.checks import values_known


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return weights over the keys that each query may attend to.

        wₛ = exp(scoreₛ) / Σ exp(scoreᵣ) over the allowed r, and exactly 0 where blocked

    Args:
        scores: (..., query, key); never modified. Blocked ones may hold anything; −inf blocks, too.
        mask: boolean, broadcastable to the scores, `True` = may attend.

    Returns:
        Weights of the scores' shape and type. A row sums to 1, or is all zeros if nothing is allowed.

    Raises:
        ValueError: scores are integers, or the mask is not boolean or does not broadcast to the scores.

    >>> scores = torch.tensor([[0.0, math.log(3), 1e30], [1.0, 2.0, 3.0]])
    >>> masked_softmax(scores, torch.tensor([[True, True, False], [False, False, False]]))
    tensor([[0.2500, 0.7500, 0.0000],
            [0.0000, 0.0000, 0.0000]])
    """
    if not scores.is_floating_point():
        raise ValueError(f"scores must be floating-point numbers, got {scores.dtype}")
    blocked = None
    if mask is not None:
        check_mask(mask, scores.shape)
        blocked = ~mask
        scores = scores.masked_fill(blocked, -math.inf)
    empty = (scores == -math.inf).all(-1, keepdim=True)
    # A row of −inf alone would turn to NaN, also on the way back: give it numbers, then take it out. Each name is
    # bound anew, so that no more than two matrices are held at once.
    scores = scores.masked_fill(empty, 0.0)
    scores = scores.softmax(-1)
    return scores.masked_fill(empty if blocked is None else empty | blocked, 0.0)


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the average of the values, with weights that grow with the dot product of query and key.

        Attention(Q, K, V) = softmax(Q Kᵀ / √d + B) V

    Args:
        query: (..., query, dim).
        key: (..., key, dim).
        value: (..., key, value_dim).
        mask: boolean, broadcastable to (..., query, key), `True` = may attend.
        scale: factor on the dot products; 1/√dim when left out.
        bias: B, numbers broadcastable to (..., query, key), such as `lib.transformer.alibi_bias`; −inf blocks.

    Returns:
        The output (..., query, value_dim) and the weights (..., query, key).

    Raises:
        ValueError: shapes or types of query, key, value, mask or bias don't fit, or `scale` is not finite.

    Source: Vaswani et al. 2017, equation 1, without B.

    >>> query = torch.tensor([[0.0, math.sqrt(2)]])
    >>> key, value = torch.eye(2), torch.tensor([[1.0], [0.0]])
    >>> output, weights = dot_product_attention(query, key, value)  # weights [1, e] / (1 + e)
    >>> weights
    tensor([[0.2689, 0.7311]])
    """
    shape = check_inputs(query, key, value, mask)
    scale = check_scale(query, scale)
    key, value = blank_unseen(key, mask), blank_unseen(value, mask)
    if bias is not None:
        check_bias(bias, shape)
    wide = torch.promote_types(query.dtype, torch.float32)  # halves in single precision, as in the fused kernel
    weights = masked_softmax(_scores(query.to(wide), key.to(wide), scale, bias), mask)
    return (weights @ value.to(wide)).to(query.dtype), weights.to(query.dtype)


def _scores(query: Tensor, key: Tensor, scale: float, bias: Tensor | None) -> Tensor:
    scores = (query * scale) @ key.transpose(-2, -1)  # scaled before the product, which may overflow
    return scores if bias is None else scores + bias.to(scores.dtype)


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Return the output of `dot_product_attention` through PyTorch's fused kernel, without the weights.

    Arguments, shapes and errors are those of `dot_product_attention`.

    >>> query, key = torch.eye(2), torch.eye(2)
    >>> fused_attention(query, key, key, torch.tensor([[True, False], [False, False]]))
    tensor([[1., 0.],
            [0., 0.]])
    """
    shape = check_inputs(query, key, value, mask)
    if scale is not None:
        check_scale(query, scale)
    if bias is None:
        if mask is None:
            return scaled_dot_product_attention(query, key, value, scale=scale)
        empty = ~mask.any(-1, keepdim=True)
        added = mask | empty
    else:
        check_bias(bias, shape)
        added = bias.to(query.dtype)[None] if bias.ndim == 0 else bias.to(query.dtype)
        added = added if mask is None else torch.where(mask, added, -math.inf)
        empty = (added == -math.inf).all(-1, keepdim=True)
        added = added.masked_fill(empty, 0.0)
    seen = blank_unseen(key, mask), blank_unseen(value, mask)
    output = scaled_dot_product_attention(query, *seen, torch.atleast_2d(added), scale=scale)
    if values_known() and not output.is_meta and output.isnan().any():
        # The kernel adds −inf to what is blocked, and an overflow there becomes inf − inf.
        return dot_product_attention(query, key, value, mask, scale=scale, bias=bias)[0]
    return output.masked_fill(empty, 0.0)  # what the kernel makes of such a row differs between its versions
