"""What a panel accepts: each check names the argument, what was expected and what came."""

from collections.abc import Sequence
from typing import Any

import numpy as np

ArrayLike = Any  # a torch.Tensor, a numpy array or nested sequences


def as_array(values: ArrayLike) -> np.ndarray:
    """A numpy array of a tensor (also one that requires grad, or is bfloat16), array or sequence."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.float() if values.is_floating_point() else values
    return np.asarray(values)


def numbers(values: ArrayLike, kind: str, name: str, own: int) -> np.ndarray:
    try:
        array = as_array(values).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{kind}: {name} must be an array of numbers, got {type(values).__name__} ({error})") from None
    if array.ndim < own:
        raise ValueError(f"{kind}: {name} needs at least {own} axes of its own, got shape {array.shape}")
    if array.size == 0:
        raise ValueError(f"{kind}: {name} is empty, shape {array.shape}")
    if bad := int((~np.isfinite(array)).sum()):
        raise ValueError(f"{kind}: {name} must be finite, got {bad} NaN or infinite of {array.size} values")
    return array


def is_text(values: ArrayLike) -> bool:
    return not hasattr(values, "detach") and np.asarray(values).dtype.kind in "US"


def texts(values: ArrayLike) -> np.ndarray:
    return np.asarray(values, dtype=object)


def slider_names(sliders: Sequence[str] | None) -> tuple[str, ...] | None:
    if isinstance(sliders, str):
        raise ValueError(f"sliders must be a sequence of names such as ({sliders!r},), got the string {sliders!r}")
    return None if sliders is None else tuple(sliders)


def limits_of(array: np.ndarray, limits: tuple[float, float] | None, kind: str) -> tuple[float, float]:
    low, high = (array.min(), array.max()) if limits is None else limits
    if limits is not None and not low < high:
        raise ValueError(f"{kind}: limits must be (low, high) with low < high, got {limits}")
    return float(low), float(high)


def axis_labels(labels: Sequence[Any] | np.ndarray | None, length: int, kind: str, name: str, what: str) -> list[str]:
    given = list(range(length)) if labels is None else list(as_array(labels).tolist())
    if len(given) != length:
        raise ValueError(f"{kind}: {name} must name the {length} {what}, got {len(given)} labels")
    return [entry if isinstance(entry, str) else f"{entry:.4g}" for entry in given]


def scatter_of(dots: tuple[ArrayLike, ArrayLike] | None) -> list[np.ndarray]:
    if dots is None:
        return []
    x, y = (numbers(axis, "lines", "dots", own=1) for axis in dots)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"lines: dots must be (x, y) of one length, got shapes {x.shape} and {y.shape}")
    return [x, y]


def plain(array: np.ndarray) -> list[float]:
    return [float(f"{value:.6g}") for value in array]


def format_spec(spec: str, kind: str) -> str:
    """Check a format once, here, so that the browser only meets those it knows."""
    core = spec.removeprefix(",")
    known = core in ("", "d") or (core[:1] == "." and core[1:-1].isdigit() and core[-1] in "fg%")
    if not known:
        raise ValueError(
            f'{kind}: format must be one of "d", ".2f", ".3g", ".1%" (with "," for thousands), got {spec!r}'
        )
    return spec
