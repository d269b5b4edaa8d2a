"""A matrix product that a reader can follow cell by cell: its panel, and a cell multiplied out in words."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from lib.explore.checks import ArrayLike, Check, Labels, as_array
from lib.explore.panel import Panel, Values, panel_of
from lib.explore.text import WORDS, last_digit, number_of, written

THREE = ("", "", "")


def product(
    left: ArrayLike,
    right: ArrayLike,
    *,
    rows: Labels = None,
    inner: Labels = None,
    columns: Labels = None,
    names: Sequence[str] = THREE,
    notes: Sequence[str] = THREE,
    divide_by: float | None = None,
    mask: ArrayLike | None = None,
    start: tuple[int, int] = (0, 0),
    format: str = ".2f",
    label: str = "",
    note: str = "",
    sliders: Sequence[str] | None = None,
) -> Panel:
    """Multiply two matrices and let the reader point at a cell of the result to see it multiplied out.

        values[i, j] = Σ_s left[i, s] right[s, j] / divide_by

    The three stand as on paper: the left one at the lower left, the right one at the upper right, the result where row
    and column meet. Numbers are printed, so it reads well up to about 8 × 8. The sentence gives the factors as many
    digits more as it takes to come within one unit of the result's last digit, at most three.

    Args:
        left: (*sliders, rows, inner).
        right: (*sliders, inner, columns); slider axes broadcast as in `left @ right`.
        rows, inner, columns: names of the rows, of what is summed over, and of the columns; default their index.
        names, notes: of the left matrix, the right one and the result, such as ("Q", "Kᵀ", "QKᵀ / √d").
        divide_by: what the product is then divided by; a square root such as √8 is written as one.
        mask: (*sliders, rows, columns) booleans, `True` = may attend; the others are greyed and called masked.
        start: (row, column) of the cell that is picked at first.
        format: how a number is printed in the matrices, as in `format(value, ".2f")`.

    Raises:
        ValueError: for shapes that can't be multiplied, numbers that are not finite, names that don't match, a divisor
            that is not positive, a mask that is not boolean or a start outside the result.

    >>> q, k = np.ones((4, 3, 2)), np.ones((5, 2))  # 4 heads, 3 queries, 5 keys
    >>> panel = product(q, k.T, names=["Q", "Kᵀ", "QKᵀ / √d"], divide_by=2**0.5, rows="abc", label="scores")
    >>> str(panel), panel.arrays["values"].array.shape, panel.options["divisor"]
    ('product "scores"', (4, 3, 5), '√2')
    """
    check = Check("product")
    lefts, rights = check.numbers(left, "left", own=2), check.numbers(right, "right", own=2)
    axes = max(lefts.ndim, rights.ndim)
    lefts, rights = (array.reshape(*(axes - array.ndim) * [1], *array.shape) for array in (lefts, rights))
    products = _multiplied(check, lefts, rights)
    divisor = _divisor(check, divide_by)
    values = products if divide_by is None else products / divide_by
    check.format(format)
    finer = _digits(format, lambda write: write(lefts) @ write(rights), products)
    arrays = {
        "left": Values(lefts, 2, [format, finer], exact=True),
        "right": Values(rights, 2, [format, finer], exact=True),
        "values": Values(values, 2, [format], exact=True),
    }
    options = {
        "rows": check.labels(rows, lefts.shape[-2], "rows", "rows of left"),
        "inner": check.labels(inner, lefts.shape[-1], "inner", "columns of left"),
        "columns": check.labels(columns, rights.shape[-1], "columns", "columns of right"),
        "named": [rows is not None, columns is not None],
        "names": _three(check, names, "names"),
        "notes": _three(check, notes, "notes"),
        "start": _cell(check, start, values.shape[-2:]),
        "format": format,
        "factor_format": finer,
    }
    if divide_by is not None:
        options["divisor"] = divisor
        options["product_format"] = _digits(format, lambda write: write(products) / divide_by, values)
        arrays["products"] = Values(products, 2, [options["product_format"]], exact=True)
    if mask is not None:
        arrays["mask"] = Values(_mask(check, mask, values.shape), 2)
    return panel_of(check, arrays, options, label, note, sliders)


def multiplied_out(options: Mapping[str, Any], now: Mapping[str, np.ndarray], language: str) -> list[str]:
    """The sentence of the picked cell, in pieces between which a line may end; explorer.js says the same.

    >>> panel = product([[0.5, -1]], [[2], [3]], rows="一", columns="岁", format=".1f", divide_by=2)
    >>> "".join(multiplied_out(panel.options, {name: v.array for name, v in panel.arrays.items()}, "zh"))
    '「一」·「岁」 = 0.5 × 2.0 + (−1.0) × 3.0 = −2.0，÷ 2 = −1.0'
    """
    words, (row, column) = WORDS[language], options["start"]
    ends = [
        words["name"].format(options[f"{axis}s"][index]) if options["named"][place] else f"{words[axis]} {index}"
        for place, (axis, index) in enumerate((("row", row), ("column", column)))
    ]
    pairs = zip(now["left"][row], now["right"][:, column], strict=True)
    factors = [" × ".join(_factor(number, options["factor_format"]) for number in pair) for pair in pairs]
    results = [("values", options["format"])]
    if "products" in now:
        results.insert(0, ("products", options["product_format"]))
    totals = [f" = {printed(now[name][row, column].item(), spec)}" for name, spec in results]
    pieces = [words["dot"].join(ends) + " = " + factors[0], *(f" + {pair}" for pair in factors[1:]), totals[0]]
    pieces += [f"{words['stop']}÷ {options['divisor']}{totals[1]}"] if totals[1:] else []
    return pieces + ([words["stop"] + words["masked"]] if blocked(now, row, column) else [])


def printed(value: float, spec: str) -> str:
    """A number as the matrices print it, with a minus as wide as a digit."""
    return written(value, spec).replace("-", "−")


def blocked(now: Mapping[str, np.ndarray], row: int, column: int) -> bool:
    return "mask" in now and not now["mask"][row, column]


def _factor(value: float, spec: str) -> str:
    text = printed(value, spec)
    return f"({text})" if text.startswith("−") else text


def _multiplied(check: Check, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    shapes = f"got shapes {left.shape} and {right.shape}"
    if left.shape[-1] != right.shape[-2]:
        check.fail(f"left must have as many columns as right has rows, {shapes}")
    if any(a != b and 1 not in (a, b) for a, b in zip(left.shape[:-2], right.shape[:-2], strict=True)):
        check.fail(f"left and right must have the same slider axes (or 1), {shapes}")
    with np.errstate(over="ignore", invalid="ignore"):
        products = left @ right
    if not np.isfinite(products).all():
        check.fail(f"left @ right must be finite, got numbers up to {abs(left).max():g} and {abs(right).max():g}")
    return products


def _divisor(check: Check, divide_by: float | None) -> str:
    """The divisor as it is read: √8 for 2.828…"""
    if divide_by is None:
        return ""
    if isinstance(divide_by, bool) or not isinstance(divide_by, int | float) or not 0 < divide_by < float("inf"):
        check.fail(f"divide_by must be a positive number, got {divide_by!r}")
    square = round(divide_by**2) if divide_by < 1000 else 0
    is_root = square > 0 and abs(divide_by**2 - square) < 1e-6 * square and round(divide_by) ** 2 != square
    return f"√{square}" if is_root else written(divide_by, ".4g")


def _mask(check: Check, mask: ArrayLike, shape: Sequence[int]) -> np.ndarray:
    array = as_array(mask)
    if array.dtype != bool:
        check.fail(f"mask must hold booleans, True = may attend, got {array.dtype}")
    array = array.reshape(*(len(shape) - array.ndim) * [1], *array.shape)
    fits = array.ndim == len(shape) and array.shape[-2:] == tuple(shape[-2:])
    if not fits or any(a not in (1, b) for a, b in zip(array.shape[:-2], shape[:-2], strict=True)):
        check.fail(f"mask must have the result's shape {tuple(shape)}, got {as_array(mask).shape}")
    return array.astype(np.float64)


def _three(check: Check, texts: Sequence[str], name: str) -> list[str]:
    if len(texts) != 3:
        check.fail(f"{name} must be 3 texts, for left, right and the result, got {len(texts)}: {list(texts)}")
    return [str(text) for text in texts]


def _cell(check: Check, cell: tuple[int, int], shape: Sequence[int]) -> list[int]:
    whole = len(cell) == 2 and all(isinstance(index, int | np.integer) for index in cell)
    if not whole or not all(0 <= index < length for index, length in zip(cell, shape, strict=True)):
        rows, columns = shape
        check.fail(f"start must be (row, column) in 0…{rows - 1} and 0…{columns - 1}, got {tuple(cell)}")
    return [int(index) for index in cell]


def _digits(spec: str, reckon: Callable[[Callable[[np.ndarray], np.ndarray]], np.ndarray], result: np.ndarray) -> str:
    """The shortest format in which what a reader reckons from printed numbers comes to the printed result."""
    shown = _as_printed(result, spec)
    room = last_digit(result, spec) * (1 + 1e-9)
    finer = spec
    for finer in _finer(spec):
        if (abs(reckon(lambda array, spec=finer: _as_printed(array, spec)) - shown) <= room).all():
            break
    return finer


def _finer(spec: str) -> Iterator[str]:
    """The format, and those with one, two and three digits more."""
    yield spec
    comma, core = "," * spec.startswith(","), spec.removeprefix(",")
    digits, kind = (int(core[1:-1]), core[-1]) if core.startswith(".") else (0 if core else 6, "f" if core else "g")
    yield from (f"{comma}.{digits + more}{kind}" for more in (1, 2, 3))


def _as_printed(array: np.ndarray, spec: str) -> np.ndarray:
    """The numbers that a reader reads."""
    return np.array([number_of(written(value, spec)) for value in array.ravel().tolist()]).reshape(array.shape)
