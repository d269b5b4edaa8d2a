"""What query, key, value and mask must have in common before anything is computed."""

import torch
from torch import Tensor

from lib.masks import check_mask


def check_inputs(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[torch.Size, Tensor, Tensor]:
    """Check the shapes of an attention's inputs, and blank keys and values that no query may attend to.

    A weight of 0 times inf or NaN would still be NaN; blanked, padding may hold anything.

    Args:
        query: (..., query, dim).
        key: (..., key, dim).
        value: (..., key, value_dim). The leading shapes of all three broadcast.
        mask: boolean, broadcastable to (..., query, key), `True` = may attend.

    Returns:
        The shape of the scores, (..., query, key), the key and the value.

    Raises:
        ValueError: an axis is missing, or two shapes don't fit; both are named.

    >>> shape, *_ = check_inputs(torch.zeros(8, 5, 16), torch.zeros(7, 16), torch.zeros(7, 3))
    >>> shape
    torch.Size([8, 5, 7])
    """
    shape = _scores_shape(query, key, value)
    if mask is None:
        return shape, key, value
    check_mask(mask, shape)
    unseen = ~torch.atleast_2d(mask).any(-2)[..., None]  # (..., key, 1)
    return shape, key.masked_fill(unseen, 0.0), value.masked_fill(unseen, 0.0)


def _scores_shape(query: Tensor, key: Tensor, value: Tensor) -> torch.Size:
    q, k, v = (tuple(x.shape) for x in (query, key, value))
    if min(len(q), len(k), len(v)) < 2:
        raise ValueError(f"query, key and value must be (..., time, dim), got {q}, {k} and {v}")
    if q[-1] != k[-1]:
        raise ValueError(f"query and key must be of the same width, got query {q} and key {k}")
    if k[-2] != v[-2]:
        raise ValueError(f"each key needs one value, got key {k} and value {v}")
    try:
        leading = torch.broadcast_shapes(q[:-2], k[:-2], v[:-2])
    except RuntimeError:
        raise ValueError(
            f"leading shapes of query, key and value must broadcast, got {q}, {k}, {v}"
        ) from None
    return torch.Size((*leading, q[-2], k[-2]))
