"""How an array travels to the browser: in the smallest of uint8, float16, float32, float64 that keeps its numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lib.explore.panel import Values
from lib.explore.text import last_digit, written

LEVEL = 2.0**-24  # relative distance from k or k/255 of what float32 arithmetic calls so
STEPS = 1024  # a drawn value is off by at most this part of the array's range
FINER = 8  # powers of two tried below that
FLOATS = {"float16": "<f2", "float32": "<f4", "float64": "<f8"}


@dataclass(frozen=True)
class Encoded:
    """Bytes of an array and how to read them: each value is `scale` times what is stored."""

    data: bytes
    dtype: str
    scale: float = 1.0


def encode(values: np.ndarray, formats: Sequence[str] = (), *, exact: bool = False) -> Encoded:
    """Pack finite numbers into the smallest of uint8, float16, float32 and float64 that keeps them.

    Kept means: off by at most a 1024th of the array's range, and written in each of `formats` with an error of at most
    half a unit in the last digit, or, when `exact`, with the very digits of the float64 number.

    Args:
        values: finite numbers of any shape.
        formats: how the numbers are written, such as ".3f".
        exact: for numbers that are read digit by digit; float16 is then left out.

    Returns:
        `Encoded`: uint8 where all values are k or k/255 (k = 0…255) to float32's precision, else a float type.

    >>> encode(np.array([True, False])).dtype, encode(np.array([0.1, 0.7])).dtype, encode(np.array([1e6])).dtype
    ('uint8', 'float16', 'float32')
    """
    values = np.ascontiguousarray(values, dtype=np.float64)
    for scale in (1.0, 1 / 255):
        levels = np.clip(np.rint(values / scale), 0, 255)
        near = np.abs(levels * scale - values) <= LEVEL * np.abs(values)
        if near.all() and keeps(levels * scale, values, formats, exact):
            return Encoded(levels.astype(np.uint8).tobytes(), "uint8", scale)
    drawn = values if exact else coarsened(values, formats)
    for dtype, code in FLOATS.items():
        with np.errstate(over="ignore"):  # what overflows is not kept
            stored = drawn.astype(code)
        if not (exact and dtype == "float16") and keeps(stored.astype(np.float64), values, formats, exact):
            return Encoded(stored.tobytes(), dtype)
    raise ValueError(f"values must be finite numbers, got {values}")


def coarsened(values: np.ndarray, formats: Sequence[str]) -> np.ndarray:
    """Round to multiples of a power of two, as large a power as keeps the values: zeros at the end pack well.

    >>> coarsened(np.array([0.0, 0.3333, 1.0]), [".1f"]).tolist()
    [0.0, 0.333984375, 1.0]
    """
    largest = math.frexp((np.ptp(values) or np.abs(values).max()) / STEPS)[1] if values.any() else 0
    for exponent in range(largest, largest - FINER, -1):
        multiples = np.ldexp(np.rint(np.ldexp(values, -exponent)), exponent)
        if keeps(multiples, values, formats, exact=False):
            return multiples
    return values


def keeps(decoded: np.ndarray, values: np.ndarray, formats: Sequence[str], exact: bool) -> bool:
    """Whether numbers that were packed and unpacked still draw and read as the `values` they were."""
    error = np.abs(decoded - values)
    if not (error <= (np.ptp(values) or np.abs(values).max()) / STEPS).all():
        return False
    if not exact:
        return all((error <= last_digit(values, spec) / 2).all() for spec in formats)
    changed = np.nonzero(error)
    pairs = list(zip(decoded[changed].tolist(), values[changed].tolist(), strict=True))
    return all(written(came, spec) == written(went, spec) for spec in formats for came, went in pairs)


class Store:
    """The binary buffers of an explorer; arrays with the same bytes share one."""

    def __init__(self) -> None:
        self.buffers: list[bytes] = []

    def add(self, values: Values, laid_out: np.ndarray) -> dict[str, Any]:
        """Keep an array, laid out along the sliders, and return what the browser needs to find and decode it."""
        if laid_out.dtype == object:
            return {"shape": list(laid_out.shape), "texts": laid_out.ravel().tolist()}
        encoded = encode(laid_out, values.formats, exact=values.exact)
        if encoded.data not in self.buffers:
            self.buffers.append(encoded.data)
        return {
            "shape": list(laid_out.shape),
            "dtype": encoded.dtype,
            "scale": encoded.scale,
            "buffer": self.buffers.index(encoded.data),
        }
