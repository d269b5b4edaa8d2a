"""Figures in the book's colours, with a face that can write Chinese on any machine."""

import warnings
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import torch
from cycler import cycler
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from numpy.typing import ArrayLike
from torch import Tensor

__all__ = ["curves", "heatmap", "literal", "style", "use_style"]

INK, QUIET, LINE, ZERO = "#1d2433", "#5b6577", "#d9dee7", "#f7f9fc"
ACCENT, WARM, FULL = "#1a5fb4", "#c2410c", "#0b3d91"
CYCLE = (ACCENT, WARM, "#2e7d4f", "#7b4ea3", "#b8860b", QUIET)
SEQUENTIAL = LinearSegmentedColormap.from_list("book_sequential", [ZERO, FULL])
DIVERGING = LinearSegmentedColormap.from_list("book_diverging", [WARM, ZERO, FULL])

FONT = Path(__file__).parent / "fonts" / "NotoSansCJKsc-GB2312.otf"
MOST_LABELS = 20  # an axis with more is thinned


def style() -> dict[Any, Any]:
    """Return the book's settings of matplotlib, for `matplotlib.rc_context` or `rcParams.update`.

    The face is registered by its path in this package, so nothing needs to be installed.

    >>> style()["font.family"]
    ['Noto Sans CJK SC GB2312', 'DejaVu Sans']
    """
    return {
        "font.family": [_registered_face(), "DejaVu Sans"],
        "font.size": 10,
        "figure.figsize": (6.4, 3.6),
        "figure.dpi": 110,
        "savefig.dpi": 110,
        "figure.constrained_layout.use": True,
        # Opaque, also in a dark theme, where a transparent figure could not be read.
        "figure.facecolor": "white",
        "savefig.facecolor": "white",
        "axes.facecolor": "white",
        "axes.edgecolor": LINE,
        "axes.labelcolor": QUIET,
        "axes.prop_cycle": cycler(color=CYCLE),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlecolor": INK,
        "axes.titlesize": 11,
        "axes.unicode_minus": True,
        "legend.frameon": False,
        "lines.linewidth": 2,
        "text.color": INK,
        "xtick.color": QUIET,
        "ytick.color": QUIET,
    }


def use_style() -> None:
    """Apply `style` to all figures from here on, and let a character no font can draw be an error.

    >>> with matplotlib.rc_context():  # restores what was set before
    ...     use_style()
    ...     matplotlib.rcParams["figure.facecolor"]
    'white'
    """
    matplotlib.rcParams.update(style())
    warnings.filterwarnings("error", message="Glyph .* missing from font")


@cache
def _registered_face() -> str:
    font_manager.fontManager.addfont(FONT)
    return font_manager.FontProperties(fname=FONT).get_name()


def literal(text: str) -> str:
    """Return a text as matplotlib draws it character by character: a `$` in it begins no formula.

    >>> literal("$x$")
    '\\\\$x\\\\$'
    """
    return text.replace("$", r"\$")


def heatmap(
    weights: Tensor | ArrayLike,
    rows: Sequence[Any] | Tensor | None = None,
    columns: Sequence[Any] | Tensor | None = None,
    *,
    ax: Axes | None = None,
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
    limits: tuple[float, float] | None = None,
    colorbar: bool = True,
) -> Axes:
    """Draw a matrix as colours: one row a query, one column a key.

    Negative values get a diverging scale with 0 in the middle; boolean masks are drawn as 0 and 1.

    Args:
        weights: (rows, columns), numbers or booleans; a tensor may require a gradient.
        rows: (rows,) labels from top to bottom, numbers or strings.
        columns: (columns,) labels from left to right.
        ax: where to draw; a new figure when left out.
        title, xlabel, ylabel: text, drawn as it stands: `$` begins no formula.
        limits: (low, high) ends of the colour scale; by default from 0, or as far below 0 as above.
        colorbar: draw the scale.

    Returns:
        The axes.

    Raises:
        ValueError: `weights` is not a matrix, or the labels don't fit it.

    >>> ax = heatmap(torch.eye(2, 3), rows=["我", "你"], xlabel="键")
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['我', '你']
    >>> plt.close(ax.figure)
    """
    values = _array(weights).astype(float)
    if values.ndim != 2 or values.size == 0:
        raise ValueError(f"weights must be (rows, columns), got {values.shape}")
    ax = _axes(ax)
    low, high = _limits(values) if limits is None else limits
    few, many = sorted(values.shape)
    image = ax.imshow(
        values,
        cmap=DIVERGING if low < 0 else SEQUENTIAL,
        vmin=low,
        vmax=high,
        interpolation="nearest",
        aspect="equal" if many <= 4 * few else "auto",
    )
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    _name_ticks(ax, "y", rows, values.shape[0])
    _name_ticks(ax, "x", columns, values.shape[1])
    _describe(ax, title, xlabel, ylabel)
    if colorbar:
        ax.figure.colorbar(image, ax=ax).outline.set_visible(False)
    return ax


def curves(
    x: Tensor | ArrayLike,
    series: Mapping[str, Tensor | ArrayLike],
    *,
    ax: Axes | None = None,
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
    dashed: Collection[str] = (),
) -> Axes:
    """Draw named curves over one x.

    Args:
        x: (points,).
        series: name → (points,); names go into a legend.
        ax: where to draw; a new figure when left out.
        title, xlabel, ylabel: text, drawn as it stands: `$` begins no formula.
        dashed: names of the curves drawn thin and dashed, as a reference.

    Returns:
        The axes.

    Raises:
        ValueError: a curve is not as long as `x`, or a dashed name is not in `series`.

    >>> x = torch.linspace(0, 5, 50)
    >>> ax = curves(x, {"预测": x.sin(), "真实": x.cos()}, dashed=["真实"])
    >>> [line.get_linestyle() for line in ax.lines]
    ['-', '--']
    >>> plt.close(ax.figure)
    """
    if unknown := set(dashed) - set(series):
        raise ValueError(f"dashed must be names in series {list(series)}, got {sorted(unknown)}")
    points = _array(x)
    ax = _axes(ax)
    for name, values in series.items():
        y = _array(values)
        if y.shape != points.shape:
            raise ValueError(f"series {name!r} must be as long as x, {points.shape}, got {y.shape}")
        reference: dict[str, Any] = {"linestyle": "--", "linewidth": 1.2, "color": QUIET}
        ax.plot(points, y, label=literal(name), **(reference if name in dashed else {}))
    _describe(ax, title, xlabel, ylabel)
    named = [line for line in ax.lines if not str(line.get_label()).startswith("_child")]  # matplotlib's own names
    ax.legend(named, [str(line.get_label()) for line in named])  # named here: else it leaves out a name such as "_x"
    return ax


def _array(values: Tensor | ArrayLike) -> np.ndarray:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    return np.asarray(values)


def _axes(ax: Axes | None) -> Axes:
    return plt.subplots()[1] if ax is None else ax


def _limits(values: np.ndarray) -> tuple[float, float]:
    end = float(np.abs(values).max()) or 1.0
    return (-end if values.min() < 0 else 0.0), end


def _name_ticks(ax: Axes, axis: str, labels: Sequence[Any] | Tensor | None, length: int) -> None:
    if labels is None:
        return
    names = _names(labels)
    if len(names) != length:
        side = "rows" if axis == "y" else "columns"
        raise ValueError(f"{side} must name the {length} {side} of weights, got {len(names)} labels")
    places = range(0, length, -(-length // MOST_LABELS))
    ax.set(**{f"{axis}ticks": places, f"{axis}ticklabels": [literal(names[place]) for place in places]})


def _names(labels: Sequence[Any] | Tensor) -> list[str]:
    """Labels as text: numbers with three digits, or as many more as tell them apart."""
    entries = labels.tolist() if isinstance(labels, Tensor | np.ndarray) else list(labels)
    digits = next((d for d in range(3, 17) if len(set(_written(entries, d))) >= len(set(entries))), 17)
    return _written(entries, digits)


def _written(entries: list[Any], digits: int) -> list[str]:
    return [f"{entry:.{digits}g}" if isinstance(entry, float) else str(entry) for entry in entries]


def _describe(ax: Axes, title: str, xlabel: str, ylabel: str) -> None:
    ax.set(title=literal(title), xlabel=literal(xlabel), ylabel=literal(ylabel))
