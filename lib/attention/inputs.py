"""What query, key, value and mask must have in common before anything is computed."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from lib.attention.masks import check_mask


def check_inputs(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, same_width: bool = True
) -> tuple[int, ...]:
    """Raise unless the inputs of an attention fit, and return the shape of its scores.

    Args:
        query: (..., query, dim).
        key: (..., key, dim).
        value: (..., key, value_dim). The leading shapes of all three broadcast, and their types are equal.
        mask: boolean, broadcastable to (..., query, key), `True` = may attend.
        same_width: whether query and key must be equally wide.

    Returns:
        (..., query, key).

    Raises:
        ValueError: an axis is missing, or two shapes or types don't fit; both are named.

    >>> check_inputs(torch.zeros(8, 5, 16), torch.zeros(7, 16), torch.zeros(7, 3))
    (8, 5, 7)
    """
    q, k, v = tuple(query.shape), tuple(key.shape), tuple(value.shape)
    if min(len(q), len(k), len(v)) < 2:
        raise ValueError(f"query, key and value must be (..., time, dim), got {q}, {k} and {v}")
    if not (query.dtype == key.dtype == value.dtype and query.is_floating_point()):
        check_types(query, key, value)
    if same_width and (q[-1] != k[-1] or q[-1] == 0):
        raise ValueError(f"query and key must be of the same width, 1 or more, got query {q} and key {k}")
    if k[-2] != v[-2]:
        raise ValueError(f"each key needs one value, got key {k} and value {v}")
    leading = q[:-2]
    if not leading == k[:-2] == v[:-2]:
        leading = check_leading(2, query=q, key=k, value=v)
    shape = (*leading, q[-2], k[-2])
    if mask is not None:
        check_mask(mask, shape)
    return shape


def check_leading(axes: int, **shapes: Sequence[int]) -> tuple[int, ...]:
    """Return what the shapes without their last `axes` axes broadcast to; raise if they don't.

    >>> check_leading(1, x=(2, 1, 7), y=(3, 5))
    (2, 3)
    """
    try:
        return tuple(torch.broadcast_shapes(*(shape[:-axes] for shape in shapes.values())))
    except RuntimeError:
        names, found = ", ".join(shapes), ", ".join(str(tuple(shape)) for shape in shapes.values())
        raise ValueError(f"leading shapes of {names} must broadcast, got {found}") from None


def check_types(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Raise unless query, key and value hold floating-point numbers of one type, which autocast sees to by itself.

    >>> check_types(torch.zeros(3, 4).half(), torch.zeros(3, 4), torch.zeros(3, 4))
    Traceback (most recent call last):
        ...
    ValueError: query, key and value must be of one floating-point type, got torch.float16, torch.float32, torch.float32
    """
    types = query.dtype, key.dtype, value.dtype
    cast = torch.is_autocast_enabled(query.device.type)
    if not all(t.is_floating_point for t in types) or (len(set(types)) > 1 and not cast):
        names = ", ".join(map(str, types))
        raise ValueError(f"query, key and value must be of one floating-point type, got {names}")


def check_scale(query: Tensor, scale: float | None) -> float:
    """Return the factor on the dot products, 1/√dim when left out; raise unless it is finite.

    >>> check_scale(torch.zeros(5, 16), None)
    0.25
    """
    if scale is None:
        return 1 / math.sqrt(query.shape[-1])
    if not abs(scale) < math.inf:
        raise ValueError(f"scale must be a finite number, got {scale}")
    return scale


def check_bias(bias: Tensor, shape: Sequence[int]) -> None:
    """Raise unless `bias` holds numbers and broadcasts to scores of `shape`.

    >>> check_bias(torch.zeros(4, 1, 7), (2, 4, 5, 7))
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
