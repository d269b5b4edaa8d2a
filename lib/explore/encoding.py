"""How an array travels to the browser: float16, or 8 bits where nothing is lost, or float32 where digits are read."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

HALF_MAX = float(np.finfo(np.float16).max)


@dataclass(frozen=True)
class Encoded:
    """Bytes of an array and how to read them: each value is `scale` times what is stored."""

    data: bytes
    dtype: str
    scale: float = 1.0


def encode(values: np.ndarray, *, exact: bool = False) -> Encoded:
    """Pack finite numbers into the smallest of uint8, float16 and float32 that serves.

    Arguments:
        values: finite numbers of any shape.
        exact: keep float32 precision (values that are read digit by digit), unless 8 bits lose nothing.

    Returns:
        `Encoded`: uint8 where all values are equally spaced levels k/255 or small integers, else float16, else float32
        when `exact` or beyond float16's range.

    >>> encode(np.array([True, False])).dtype, encode(np.array([0.1, 0.7])).dtype, encode(np.array([1e6])).dtype
    ('uint8', 'float16', 'float32')
    """
    values = np.ascontiguousarray(values, dtype=np.float64)
    for scale in (1.0, 1 / 255):
        levels = np.rint(values / scale)
        if (
            values.size
            and levels.min() >= 0
            and levels.max() <= 255
            and np.allclose(levels * scale, values, rtol=0, atol=1e-9)
        ):
            return Encoded(levels.astype(np.uint8).tobytes(), "uint8", scale)
    if exact or np.abs(values).max() > HALF_MAX:
        return Encoded(values.astype("<f4").tobytes(), "float32")
    return Encoded(values.astype("<f2").tobytes(), "float16")


class Store:
    """The binary buffers of an explorer; arrays with the same bytes share one."""

    def __init__(self) -> None:
        self.buffers: list[bytes] = []

    def add(self, array: np.ndarray, *, exact: bool = False) -> dict[str, Any]:
        """Keep an array and return what the browser needs to find and decode it; strings travel as they are."""
        if array.dtype == object:
            return {"shape": list(array.shape), "texts": array.ravel().tolist()}
        encoded = encode(array, exact=exact)
        if encoded.data not in self.buffers:
            self.buffers.append(encoded.data)
        return {
            "shape": list(array.shape),
            "dtype": encoded.dtype,
            "scale": encoded.scale,
            "buffer": self.buffers.index(encoded.data),
        }

    def add_all(self, arrays: Mapping[str, np.ndarray], *, exact: Collection[str] = ()) -> dict[str, dict[str, Any]]:
        """`add` for each named array; those named in `exact` keep float32 precision."""
        return {name: self.add(array, exact=name in exact) for name, array in arrays.items()}
