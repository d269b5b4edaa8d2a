"""A matrix product drawn by matplotlib: three grids of numbers, laid out as on paper, and one cell multiplied out."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from lib.explore.multiplication import blocked, multiplied_out, printed
from lib.plots import ACCENT, INK, LINE, QUIET, WARM, literal

WIDE, HIGH = 0.52, 0.28  # inches of a cell
HEAD, GAP = 1.4, 1.6  # cells left for names of rows; for a title and names of columns
AIR = 0.1  # for the lines around the last cells
LINE_LENGTH = 12  # characters of the sentence to an inch
LEFT, RIGHT = "#dbe7f6", "#f9e3d8"  # the row and the column that meet

Options = Mapping[str, Any]
Arrays = Mapping[str, np.ndarray]


def product_size(options: Options) -> tuple[float, float]:
    """Inches across and down."""
    across, down = _extent(options)
    return max(4.4, WIDE * across), HIGH * (down + 3.5)


def draw_product(axes: Axes, options: Options, now: Arrays, language: str) -> None:
    """The left matrix at the lower left, the right one at the upper right, the result where row and column meet."""
    row, column = options["start"]
    inner, (across, down) = len(options["inner"]), _extent(options)
    lower, further = 2 * GAP + inner, 2 * HEAD + inner
    corners = {"left": (HEAD, lower), "right": (further, GAP), "values": (further, lower)}
    headings = {"left": ("rows", "inner"), "right": ("inner", "columns"), "values": ("rows", "columns")}
    for index, (name, corner) in enumerate(corners.items()):
        down_names, across_names = (options[heading] for heading in headings[name])
        title = " ".join(filter(None, (options["names"][index], options["notes"][index])))
        picked = {"left": (row, None), "right": (None, column), "values": (row, column)}[name]
        grey = [(i, j) for i, j in np.ndindex(now[name].shape) if name == "values" and blocked(now, i, j)]
        texts = [[printed(value, options["format"]) for value in line] for line in now[name]]
        _grid(axes, corner, texts, down_names, across_names, title, picked, grey)
    axes.set(xlim=(0, across), ylim=(down, 0))
    axes.set_axis_off()
    words = _lines(multiplied_out(options, now, language), round(LINE_LENGTH * product_size(options)[0]))
    axes.text(0, down + 0.4, literal("\n".join(words)), va="top", fontsize=9.5, color=INK)


def _extent(options: Options) -> tuple[float, float]:
    """Cells across and down, names and titles included."""
    rows, inner, columns = (len(options[axis]) for axis in ("rows", "inner", "columns"))
    return 2 * HEAD + inner + columns + AIR, 2 * GAP + inner + rows + AIR


def _grid(
    axes: Axes,
    corner: tuple[float, float],
    texts: Sequence[Sequence[str]],
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    picked: tuple[int | None, int | None],
    grey: Sequence[tuple[int, int]],
) -> None:
    """One matrix, the upper left corner of its first number at `corner`."""
    left, top = corner
    small: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8}
    whole = None in picked  # a row or a column, else one cell
    for (i, j), text in np.ndenumerate(np.array(texts, dtype=object)):
        hits = (picked[0] == i, picked[1] == j)
        face = {(True, False): LEFT, (False, True): RIGHT}.get(hits, "white") if whole else "white"
        look = {"facecolor": face, "edgecolor": LINE, "lw": 0.8, "hatch": "////" if (i, j) in grey else None}
        axes.add_patch(Rectangle((left + j, top + i), 1, 1, **look))
        axes.text(left + j + 0.5, top + i + 0.5, literal(text), color=QUIET if (i, j) in grey else INK, **small)
    if picked[0] is not None and picked[1] is not None:
        axes.add_patch(Rectangle((left + picked[1], top + picked[0]), 1, 1, fill=False, edgecolor=INK, lw=1.8))
    for i, name in enumerate(rows):
        ink = ACCENT if picked[0] == i else QUIET
        axes.text(left - 0.15, top + i + 0.5, literal(name), color=ink, **{**small, "ha": "right"})
    for j, name in enumerate(columns):
        ink = WARM if picked[1] == j else QUIET
        axes.text(left + j + 0.5, top - 0.4, literal(name), color=ink, **small)
    axes.text(left, top - 1.1, literal(title), va="center", fontsize=9, color=INK)


def _lines(pieces: Sequence[str], most: int) -> list[str]:
    """Pieces joined to lines of at most `most` characters, where a piece isn't longer."""
    lines = [""]
    for piece in pieces:
        if lines[-1] and len(lines[-1] + piece) > most:
            lines.append("")
        lines[-1] += piece if lines[-1] else piece.lstrip()
    return lines
