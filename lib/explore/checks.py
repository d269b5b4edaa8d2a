"""What a panel accepts: each check names the panel's kind, the argument, what was expected and what came."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from lib.explore.text import format_for, written

ArrayLike = Any  # a torch.Tensor, a numpy array or nested sequences
Labels = Sequence[Any] | np.ndarray | None

MOST_COUNT = 2**53  # float64, the only number of a browser, counts exactly up to here


def as_array(values: ArrayLike) -> np.ndarray:
    """A numpy array of a tensor (also one that requires grad, or is bfloat16), array or sequence."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.double() if values.is_floating_point() else values
    return np.asarray(values)


def is_text(values: ArrayLike) -> bool:
    return not hasattr(values, "detach") and np.asarray(values).dtype.kind in "US"


def slider_names(sliders: Sequence[str] | None) -> tuple[str, ...] | None:
    if isinstance(sliders, str):
        raise ValueError(f"sliders must be a sequence of names such as ({sliders!r},), got the string {sliders!r}")
    return None if sliders is None else tuple(sliders)


@dataclass(frozen=True)
class Check:
    """The checks of one kind of panel, whose name begins every message."""

    kind: str

    def fail(self, message: str) -> NoReturn:
        raise ValueError(f"{self.kind}: {message}") from None

    def numbers(self, values: ArrayLike, name: str, own: int) -> np.ndarray:
        """The values as float64, finite and with at least `own` axes."""
        try:
            given = as_array(values)
            array = given.astype(np.float64)
        except (TypeError, ValueError) as error:
            self.fail(f"{name} must be an array of numbers, got {type(values).__name__} ({error})")
        if array.ndim < own:
            self.fail(f"{name} needs at least {own} axes of its own, got shape {array.shape}")
        if array.size == 0:
            self.fail(f"{name} is empty, shape {array.shape}")
        if bad := int((~np.isfinite(array)).sum()):
            self.fail(f"{name} must be finite, got {bad} NaN or infinite of {array.size} values")
        if given.dtype.kind in "iuO" and not -MOST_COUNT <= given.min() <= given.max() <= MOST_COUNT:
            self.fail(f"{name} must hold integers of at most 2^53, got {given.min()} to {given.max()}")
        return array

    def limits(self, array: np.ndarray, limits: tuple[float, float] | None) -> tuple[float, float]:
        """The limits, or the smallest and largest value."""
        low, high = (array.min(), array.max()) if limits is None else limits
        if limits is not None and not (low < high and np.isfinite([low, high]).all()):
            self.fail(f"limits must be (low, high) with low < high, got {limits}")
        return float(low), float(high)

    def labels(self, labels: Labels, length: int, name: str, what: str) -> list[str]:
        """One text for each of the `what`: different numbers are written differently."""
        given = list(range(length)) if labels is None else list(as_array(labels).tolist())
        if len(given) != length:
            self.fail(f"{name} must name the {length} {what}, got {len(given)} labels")
        spec = format_for([entry for entry in given if isinstance(entry, float)], 4)
        return [written(entry, spec) if isinstance(entry, float) else str(entry) for entry in given]

    def dots(self, dots: tuple[ArrayLike, ArrayLike] | None) -> list[np.ndarray]:
        """The x and y of scattered dots, or nothing."""
        if dots is None:
            return []
        x, y = (self.numbers(axis, "dots", own=1) for axis in dots)
        if x.ndim != 1 or x.shape != y.shape:
            self.fail(f"dots must be (x, y) of one length, got shapes {x.shape} and {y.shape}")
        return [x, y]

    def format(self, spec: str) -> str:
        """Check a format once, here, so that the browser only meets those it knows."""
        core = str(spec).removeprefix(",")
        known = core in ("", "d") or (core[:1] == "." and core[1:-1].isdigit() and core[-1] in "fg%")
        if not known:
            self.fail(f'format must be one of "d", ".2f", ".3g", ".1%" (with "," for thousands), got {spec!r}')
        return spec


def plain(array: np.ndarray) -> list[float]:
    """Numbers with few digits, but all that tell them apart or move them by a 10 000th of their range.

    >>> plain(np.array([0.0, 0.123456789, 1.0])), plain(np.array([1000000.0, 1000001.0]))
    ([0.0, 0.123457, 1.0], [1000000.0, 1000001.0])
    """
    room = 1e-4 * float(np.ptp(array))
    for digits in range(6, 17):
        short = np.array([float(f"{value:.{digits}g}") for value in array])
        if len(np.unique(short)) == len(np.unique(array)) and (np.abs(short - array) <= room).all():
            return short.tolist()
    return array.tolist()
