"""Packing: the smallest type that keeps the numbers, where kept is relative to their size and to the digits shown."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.explore.encoding import Encoded, encode
from lib.explore.text import last_digit, written

CODES = {"uint8": "u1", "float16": "<f2", "float32": "<f4", "float64": "<f8"}
LEVELS = np.arange(256) / 255


def decoded(packed: Encoded) -> np.ndarray:
    return packed.scale * np.frombuffer(packed.data, CODES[packed.dtype]).astype(float)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([True, False], "uint8"),
        ([0, 255], "uint8"),
        ([0.2, 0.4, 1.0], "uint8"),
        ([0.123], "float16"),
        ([256, 0.5], "float16"),
        ([-1, 1], "float16"),
        ([1e5], "float32"),
        ([1e-9], "float32"),
        ([1e39], "float64"),
        ([0.9999, 1.0], "float32"),  # float16 would draw a tenth of this range wrongly
        ([1 + 0.99 * 2**-11, 2.0], "float16"),  # off by a 2000th of the range
        ([1 + 0.99 * 2**-11, 1.25], "float32"),  # by a 500th
        ([16777216, 16777217], "float64"),
    ],
)
def test_the_smallest_type_that_serves_is_chosen(values: list[float], dtype: str):
    assert encode(np.array(values)).dtype == dtype


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("scale", [1.0, 1 / 255], ids=["integers", "levels"])
def test_eight_bits_take_levels_computed_in_float32_and_nothing_farther_from_them(scale: float, exact: bool):
    levels = np.arange(256) * scale
    levels[1:] = levels[1:].astype(np.float32)
    assert encode(levels, exact=exact).dtype == "uint8"
    for level in (1, 51, 254):
        for change in (1 + 2.0**-22, 1 - 2.0**-22, 1 + 1e-3, 1 - 1e-3):
            almost = levels.copy()
            almost[level] *= change
            packed = encode(almost, exact=exact)
            assert packed.dtype != "uint8", (level, change)
            np.testing.assert_allclose(decoded(packed)[level], almost[level], rtol=1e-6, atol=0 if exact else scale / 4)


def test_a_smooth_array_packs_into_less_than_its_float16_takes():
    positions = np.linspace(-3, 3, 40)
    weights = np.exp(-((positions[:, None] - positions) ** 2))
    plain = zlib.compress(weights.astype("<f2").tobytes())
    assert len(zlib.compress(encode(weights).data)) < 0.85 * len(plain)


def test_eight_bits_take_no_small_numbers_for_zero():
    tiny = np.array([0.0, 1e-10, 1.0])
    assert encode(tiny, [".3g"]).dtype == "float32"
    assert decoded(encode(tiny, [".3g"]))[1] == pytest.approx(1e-10, rel=1e-6)


@pytest.mark.parametrize(
    ("format", "dtype"), [(".2f", "float16"), (".3f", "float32"), (".3g", "float16"), ("", "float32")]
)
def test_the_digits_asked_for_decide_between_float16_and_float32(format: str, dtype: str):
    assert encode(np.array([0.1, 3.3333]), [format]).dtype == dtype


FORMATS = st.sampled_from(["", "d", ".0f", ".2f", ".5f", ".1%", ".1g", ".3g", ".6g", ".12g"])
SPREAD = st.lists(st.floats(-1e15, 1e15), min_size=1, max_size=6)
NARROW = st.builds(
    lambda x, steps, unit: [x + k * unit for k in steps],
    st.floats(-1e6, 1e6),
    st.lists(st.integers(0, 9), min_size=1, max_size=6),
    st.sampled_from([1.0, 1e-3, 1e-6]),
)


@given(values=SPREAD | NARROW, format=FORMATS)
def test_what_is_read_digit_by_digit_keeps_every_digit(values: list[float], format: str):
    came = decoded(encode(np.array(values), [format], exact=True)).tolist()
    assert [written(value, format) for value in came] == [written(value, format) for value in values]


@given(values=SPREAD | NARROW, format=FORMATS)
def test_what_is_drawn_keeps_its_place_in_the_range_and_its_last_digit(values: list[float], format: str):
    array = np.array(values)
    error = np.abs(decoded(encode(array, [format])) - array)
    assert (error <= (np.ptp(array) or np.abs(array).max()) / 1024).all()
    assert (error <= last_digit(array, format) / 2).all()
