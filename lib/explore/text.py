"""How numbers are written: by Python's format rules, and distinct where the numbers are."""

import re
from collections.abc import Iterable

import numpy as np

from lib.tables import text_width

MOST_DIGITS = 17  # tell any two float64 numbers apart

# What sentences are made of, in the language of an explorer; explorer.js has the same words.
WORDS = {
    "en": {"name": "{}", "row": "row", "column": "column", "dot": " · ", "stop": ", ", "masked": "this cell is masked"},
    "zh": {"name": "「{}」", "row": "行", "column": "列", "dot": "·", "stop": "，", "masked": "这一格被遮住"},
}


def written(value: float, spec: str) -> str:
    """Write a number as the page does: Python's format, `.6g` by default, short exponents and no minus zero.

    >>> written(1234567.0, ".3g"), written(-0.001, ".2f"), written(7.0, "d")
    ('1.23e6', '0.00', '7')
    """
    spec = f"{spec}.6g" if spec in ("", ",") else spec
    text = format(round(value) if spec.endswith("d") else value, spec)
    if text.startswith("-") and not text.strip("-0.,%"):
        text = text[1:]
    mantissa, mark, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if mark else text


def wrapped(text: str, columns: int) -> str:
    """Return the text in lines of at most `columns`, of which a Chinese character takes two; words stay whole.

    >>> wrapped("权重的和是 1.000 而不是 0.999", 12).splitlines()
    ['权重的和是', '1.000 而不是', '0.999']
    """
    lines, room = [""], columns
    for word in re.findall(r"[\u2e80-\uffef]|\s+|[^\s\u2e80-\uffef]+", text):
        width = text_width(word)
        if width > room and lines[-1]:
            lines, room = [*lines, ""], columns
        lines[-1] += word
        room -= width
    return "\n".join(line.strip() for line in lines)


def number_of(text: str) -> float:
    """Return the number that a text of `written` stands for.

    >>> number_of("1,234.5"), number_of("25.6%")
    (1234.5, 0.256)
    """
    return float(text.replace(",", "").removesuffix("%")) / (100 if text.endswith("%") else 1)


def format_for(values: Iterable[float], digits: int) -> str:
    """Return the shortest format, from `digits` significant digits on, that writes different numbers differently.

    >>> format_for([0.1, 0.25], 3), format_for([1.0001, 1.0002], 3), format_for([1000000.0, 1000001.0], 3)
    ('.3g', '.5g', 'd')
    """
    numbers = np.unique(np.asarray(values, dtype=np.float64))
    specs = [f".{count}g" for count in range(digits, MOST_DIGITS + 1)]
    if len(numbers) > 1 and (numbers == np.rint(numbers)).all() and np.abs(numbers).max() < 1e15:
        specs.insert(1, "d")  # whole numbers that need more digits are written out
    return next(spec for spec in specs if len({written(number, spec) for number in numbers}) == len(numbers))


def last_digit(values: np.ndarray, spec: str) -> np.ndarray:
    """Return the size of one unit in the last digit of each number as `spec` writes it; 0 for 0 with `g`.

    >>> last_digit(np.array([123.4, 0.5]), ".3g"), last_digit(np.array([123.4, 0.5]), ".1%")
    (array([1.   , 0.001]), array([0.001, 0.001]))
    """
    spec = spec.removeprefix(",")
    places = int(spec[1:-1]) if spec.startswith(".") else 6
    match spec[-1:]:
        case "d":
            return np.ones_like(values)
        case "f" | "%":
            return np.full_like(values, 10.0 ** -(places + 2 * (spec[-1] == "%")))
    with np.errstate(divide="ignore"):
        return 10.0 ** (np.floor(np.log10(np.abs(values))) - max(places, 1) + 1)
