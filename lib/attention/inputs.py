"""What query, key, value and mask must have in common before anything is computed."""

import torch
from torch import Tensor

from lib.attention.masks import check_mask


def check_inputs(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, same_width: bool = True
) -> torch.Size:
    """Raise unless the inputs of an attention fit, and return the shape of its scores.

    Args:
        query: (..., query, dim).
        key: (..., key, dim).
        value: (..., key, value_dim). The leading shapes of all three broadcast.
        mask: boolean, broadcastable to (..., query, key), `True` = may attend.
        same_width: whether query and key must be equally wide.

    Returns:
        (..., query, key).

    Raises:
        ValueError: an axis is missing, or two shapes don't fit; both are named.

    >>> check_inputs(torch.zeros(8, 5, 16), torch.zeros(7, 16), torch.zeros(7, 3))
    torch.Size([8, 5, 7])
    """
    q, k, v = (tuple(x.shape) for x in (query, key, value))
    if min(len(q), len(k), len(v)) < 2:
        raise ValueError(f"query, key and value must be (..., time, dim), got {q}, {k} and {v}")
    if same_width and q[-1] != k[-1]:
        raise ValueError(f"query and key must be of the same width, got query {q} and key {k}")
    if k[-2] != v[-2]:
        raise ValueError(f"each key needs one value, got key {k} and value {v}")
    try:  # the common case first: broadcasting shapes takes longer than attention to a few keys
        leading = q[:-2] if q[:-2] == k[:-2] == v[:-2] else torch.broadcast_shapes(q[:-2], k[:-2], v[:-2])
    except RuntimeError:
        raise ValueError(f"leading shapes of query, key and value must broadcast, got {q}, {k}, {v}") from None
    shape = torch.Size((*leading, q[-2], k[-2]))
    if mask is not None:
        check_mask(mask, shape)
    return shape


def check_bias(bias: Tensor, shape: torch.Size) -> None:
    """Raise unless `bias` holds numbers and broadcasts to scores of `shape`.

    Raises:
        ValueError: naming the shape expected and the one that came.

    >>> check_bias(torch.zeros(4, 1, 7), torch.Size([2, 4, 5, 7]))
    """
    if not bias.is_floating_point():
        raise ValueError(f"bias must hold floating-point numbers, got {bias.dtype}")
    fits = bias.ndim <= len(shape) and all(
        b in (1, s) for b, s in zip(reversed(bias.shape), reversed(shape), strict=False)
    )
    if not fits:
        raise ValueError(f"bias of shape {tuple(bias.shape)} does not broadcast to scores of shape {tuple(shape)}")


def blank_unseen(rows: Tensor, mask: Tensor | None) -> Tensor:
    """Return keys or values with zeros where no query may attend: a weight of 0 times inf or NaN would be NaN.

    Args:
        rows: (..., key, dim).
        mask: boolean, broadcastable to (..., query, key); `None` hides nothing.

    >>> blank_unseen(torch.tensor([[1.0], [torch.nan]]), torch.tensor([[True, False], [False, False]]))
    tensor([[1.],
            [0.]])
    """
    if mask is None:
        return rows
    unseen = ~torch.atleast_2d(mask).any(-2)  # (..., key)
    return rows.masked_fill(unseen[..., None], 0.0)


def check_width(name: str, x: Tensor, width: int) -> None:
    if x.shape[-1] != width:
        raise ValueError(f"{name} must be (..., time, {width}), got {tuple(x.shape)}")
