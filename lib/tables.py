"""Small tables of numbers under headings, as a page prints them."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from unicodedata import east_asian_width

import torch
from torch import Tensor

__all__ = ["Table"]


class Table:
    """A matrix with the names of its rows and columns, shown as a table where a notebook shows the last line of a cell.

    Args:
        values: (rows, columns), or (columns,) for a single row; numbers or truth values.
        rows: names of the rows, without which they have none.
        columns: names of the columns, without which they have none.
        digits: decimals of numbers that aren't whole.
        corner: what stands above the names of the rows, such as "查询 \\ 键".

    Raises:
        ValueError: `values` has no or more than two axes, `digits` is negative, or there is not one name each.

    >>> Table([[0.25, 0.75], [-math.inf, 1]], rows=["a", "b"], columns=["一", "岁"])
         一    岁
    a  0.25  0.75
    b    −∞  1.00
    """

    def __init__(
        self,
        values: Tensor | Sequence[object],
        rows: Iterable[object] | None = None,
        columns: Iterable[object] | None = None,
        *,
        digits: int = 2,
        corner: str = "",
    ) -> None:
        numbers = torch.as_tensor(values).detach().cpu()
        if numbers.ndim not in (1, 2):
            raise ValueError(f"values must have 1 or 2 axes, got shape {tuple(numbers.shape)}")
        if digits < 0:
            raise ValueError(f"digits must be at least 0, got {digits}")
        numbers = numbers.reshape(-1, numbers.shape[-1])
        self.rows = _names("rows", rows, len(numbers))
        self.columns = _names("columns", columns, numbers.shape[1])
        self.corner = corner
        digits = digits if numbers.is_floating_point() else 0
        self.cells = [[_written(number, digits) for number in row] for row in numbers.tolist()]

    def __repr__(self) -> str:
        """Return the table in lines of equal width; a Chinese character is two wide."""
        body = [[name, *cells] for name, cells in zip(self.rows, self.cells, strict=True)]
        head = [[self.corner, *self.columns]] if any(self.columns) else []
        widths = [max(map(text_width, column)) for column in zip(*head, *body, strict=True)]
        lines = [[_padded(*each) for each in zip(line, widths, strict=True)] for line in head + body]
        return "\n".join("  ".join(line) for line in lines)

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in self.columns)
        head = f"<thead><tr><td>{escape(self.corner)}</td>{head}</tr></thead>\n" if any(self.columns) else ""
        lines = "\n".join(
            f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
            for name, cells in zip(self.rows, self.cells, strict=True)
        )
        return f'<table class="numbers">\n{head}<tbody>\n{lines}\n</tbody>\n</table>'


def _names(argument: str, names: Iterable[object] | None, count: int) -> list[str]:
    found = [""] * count if names is None else [str(name) for name in names]
    if len(found) != count:
        raise ValueError(f"{argument} must name each of the {count}, got {len(found)} names")
    return found


def _written(number: float | bool, digits: int) -> str:
    if isinstance(number, bool):
        return "✓" if number else "·"
    if math.isinf(number):
        return "∞" if number > 0 else "−∞"
    text = f"{number:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")


def text_width(text: str) -> int:
    """Return how many columns a text takes where a Chinese character takes two.

    >>> text_width("QK 转置")
    7
    """
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def _padded(text: str, width: int) -> str:
    return " " * (width - text_width(text)) + text
