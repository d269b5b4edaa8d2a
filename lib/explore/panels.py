"""The five kinds of panel. Each constructor checks its arrays; `Explorer` then lays them along the sliders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import Any

import numpy as np

from lib.explore.axes import axis
from lib.explore.checks import (
    ArrayLike,
    axis_labels,
    format_spec,
    is_text,
    limits_of,
    numbers,
    plain,
    scatter_of,
    slider_names,
    texts,
)

Labels = Sequence[Any] | np.ndarray | None


@dataclass(frozen=True)
class Panel:
    """One figure of an explorer: arrays whose leading axes are sliders, and how to draw what remains.

    Arguments:
        kind: "heatmap", "lines", "bars", "image" or "readout".
        arrays: name -> array of shape (*sliders, *own axes).
        own_axes: name -> how many trailing axes belong to the panel itself.
        options: what the browser needs besides the arrays; plain JSON.
        sliders: names of the sliders that the leading axes stand for; None for all, in their order.
        exact: names of arrays whose digits are read, so that they keep float32 precision.
        marks: option name -> (slider name, length that the slider must have or None).
    """

    kind: str
    arrays: Mapping[str, np.ndarray]
    own_axes: Mapping[str, int]
    options: dict[str, Any]
    label: str = ""
    note: str = ""
    sliders: tuple[str, ...] | None = None
    exact: frozenset[str] = frozenset()
    marks: Mapping[str, tuple[str, int | None]] = field(default_factory=dict)

    def spec(self) -> dict[str, Any]:
        """What the browser needs besides the arrays."""
        marks = {option: slider for option, (slider, _) in self.marks.items()}
        return {"kind": self.kind, "label": self.label, "note": self.note, **self.options, **marks}

    def __str__(self) -> str:
        return f'{self.kind} "{self.label}"' if self.label else self.kind


def heatmap(
    values: ArrayLike,
    *,
    x: Labels = None,
    y: Labels = None,
    x_label: str = "",
    y_label: str = "",
    limits: tuple[float, float] | None = None,
    scale: str = "linear",
    mark_row: str | None = None,
    format: str = ".3f",
    label: str = "",
    note: str = "",
    sliders: Sequence[str] | None = None,
) -> Panel:
    """A matrix as colours: rows down, columns across; negative values get a second hue.

    Arguments:
        values: (*sliders, rows, columns).
        x, y: names or numbers of the columns and of the rows; default their index.
        limits: (low, high) of the colour scale; default over all slider positions, zero included.
        scale: "linear", or "sqrt" where small values should stay visible.
        mark_row: a slider with as many positions as there are rows; its position is framed.
        format: how a value is read out, as in `format(value, ".3f")`.

    Raises:
        ValueError: for values that are not finite numbers, or labels that don't match the rows and columns.

    >>> panel = heatmap(np.zeros((40, 25, 50)), y=np.linspace(0, 5, 25), label="weights")
    >>> str(panel), panel.options["rows"][-1]
    ('heatmap "weights"', '5')
    """
    array = numbers(values, "heatmap", "values", own=2)
    if scale not in ("linear", "sqrt"):
        raise ValueError(f'heatmap: scale must be "linear" or "sqrt", got {scale!r}')
    rows, columns = array.shape[-2:]
    low, high = limits_of(array, limits, "heatmap")
    return Panel(
        kind="heatmap",
        arrays={"values": array},
        own_axes={"values": 2},
        options={
            "rows": axis_labels(y, rows, "heatmap", "y", "rows"),
            "columns": axis_labels(x, columns, "heatmap", "x", "columns"),
            "x_label": x_label,
            "y_label": y_label,
            "limits": [min(low, 0.0) if limits is None else low, max(high, 0.0) if limits is None else high],
            "scale": scale,
            "format": format_spec(format, "heatmap"),
        },
        label=label,
        note=note,
        sliders=slider_names(sliders),
        marks={"mark_row": (mark_row, rows)} if mark_row else {},
    )


def lines(
    values: ArrayLike,
    *,
    x: ArrayLike,
    names: Sequence[str] = ("",),
    dashed: Sequence[str] = (),
    x_label: str = "",
    y_label: str = "",
    limits: tuple[float, float] | None = None,
    dots: tuple[ArrayLike, ArrayLike] | None = None,
    dot_weights: ArrayLike | None = None,
    mark_x: str | None = None,
    x_log: bool = False,
    y_log: bool = False,
    format: str = ".3g",
    label: str = "",
    note: str = "",
    sliders: Sequence[str] | None = None,
) -> Panel:
    """Curves over a shared x axis, with scattered dots behind them where wanted.

    Arguments:
        values: (*sliders, series, points).
        x: (points,), increasing.
        names: one per series; `dashed` lists those drawn dashed.
        limits: (low, high) of the y axis; default over all slider positions.
        dots: (x, y) of points that stay where they are; `dot_weights` (*sliders, dots) colours them.
        mark_x: a slider with numeric values; its value is drawn as a vertical line.
        x_log, y_log: logarithmic axes; values must then be positive.

    Raises:
        ValueError: for lengths that don't match, values that are not finite, or logarithms of what is not positive.

    >>> str(lines(np.zeros((40, 2, 121)), x=np.linspace(0, 5, 121), names=["fit", "truth"], dashed=["truth"]))
    'lines'
    """
    array = numbers(values, "lines", "values", own=2)
    xs = numbers(x, "lines", "x", own=1)
    series, points = array.shape[-2:]
    if xs.shape != (points,):
        raise ValueError(f"lines: x must have shape ({points},) like the last axis of values, got {xs.shape}")
    if points > 1 and not (np.diff(xs) > 0).all():
        raise ValueError("lines: x must increase")
    if len(names) != series:
        raise ValueError(f"lines: names must hold {series} names, one per series, got {len(names)}: {list(names)}")
    if unknown := set(dashed) - set(names):
        raise ValueError(f"lines: dashed must be among names {list(names)}, got {sorted(unknown)}")
    arrays, own = {"values": array}, {"values": 2}
    scatter = scatter_of(dots)
    if dot_weights is not None:
        weights, count = numbers(dot_weights, "lines", "dot_weights", own=1), len(scatter[0]) if scatter else 0
        if weights.shape[-1] != count:
            raise ValueError(f"lines: dot_weights must weigh the {count} dots, got {weights.shape[-1]} weights")
        arrays["dot_weights"], own["dot_weights"] = weights, 1
    low, high = limits_of(np.concatenate([array.ravel(), *scatter[1:]]), limits, "lines")
    for name, log, least in (("x", x_log, xs.min()), ("y", y_log, low)):
        if log and least <= 0:
            raise ValueError(f"lines: {name}_log needs positive values, got {least:g}")
    return Panel(
        kind="lines",
        arrays=arrays,
        own_axes=own,
        options={
            "x": plain(xs),
            "names": list(names),
            "dashed": [name in dashed for name in names],
            "dots": [plain(axis) for axis in scatter],
            "x_axis": axis(xs.min(), xs.max(), log=x_log, label=x_label),
            "y_axis": axis(low, high, log=y_log, label=y_label, pad=limits is None),
            "format": format_spec(format, "lines"),
        },
        label=label,
        note=note,
        sliders=slider_names(sliders),
        exact=frozenset({"values"}),
        marks={"mark_x": (mark_x, None)} if mark_x else {},
    )


def bars(
    values: ArrayLike,
    *,
    names: Sequence[Any],
    limits: tuple[float, float] | None = None,
    format: str = ".3f",
    label: str = "",
    note: str = "",
    sliders: Sequence[str] | None = None,
) -> Panel:
    """Horizontal bars from zero, each with its name and its number; a bar at exactly zero is drawn faded.

    Arguments:
        values: (*sliders, bars), none negative.
        names: one per bar.
        limits: (0, longest); default over all slider positions.

    Raises:
        ValueError: for a negative value or names that don't match the bars.

    >>> str(bars([[0.2, 0.8], [0.5, 0.5]], names=["a", "b"], label="shares"))
    'bars "shares"'
    """
    array = numbers(values, "bars", "values", own=1)
    if (least := array.min()) < 0:
        raise ValueError(f"bars: values must not be negative, got {least:g}")
    _, high = limits_of(array, limits, "bars")
    return Panel(
        kind="bars",
        arrays={"values": array},
        own_axes={"values": 1},
        options={
            "names": axis_labels(names, array.shape[-1], "bars", "names", "bars"),
            "limits": [0.0, high or 1.0],
            "format": format_spec(format, "bars"),
        },
        label=label,
        note=note,
        sliders=slider_names(sliders),
        exact=frozenset({"values"}),
    )


def image(
    values: ArrayLike,
    *,
    channels: int = 1,
    label: str = "",
    note: str = "",
    sliders: Sequence[str] | None = None,
) -> Panel:
    """A picture: grey, or colour where `channels` is 3. Values in 0…1, sent with 256 levels.

    Arguments:
        values: (*sliders, height, width), or (*sliders, height, width, 3) with channels=3.

    Raises:
        ValueError: for values outside 0…1 or a last axis that isn't 3.

    >>> str(image(np.zeros((4, 8, 12)), label="patches"))
    'image "patches"'
    """
    if channels not in (1, 3):
        raise ValueError(f"image: channels must be 1 or 3, got {channels}")
    array = numbers(values, "image", "values", own=2 if channels == 1 else 3)
    if channels == 3 and array.shape[-1] != 3:
        raise ValueError(f"image: the last axis of values must hold 3 channels, got shape {array.shape}")
    if array.min() < 0 or array.max() > 1:
        raise ValueError(f"image: values must lie in 0…1, got {array.min():g} to {array.max():g}")
    return Panel(
        kind="image",
        arrays={"values": np.rint(array * 255) / 255},
        own_axes={"values": 2 if channels == 1 else 3},
        options={"channels": channels, "format": ".2f"},
        label=label,
        note=note,
        sliders=slider_names(sliders),
    )


def readout(
    template: str,
    *,
    label: str = "",
    note: str = "",
    sliders: Sequence[str] | None = None,
    **values: ArrayLike,
) -> Panel:
    """One sentence that says what the numbers mean at the current positions.

    Arguments:
        template: text with fields such as `{prediction:.2f}`; a slider's name is a field too.
        values: name -> (*sliders,) numbers, or nested lists of strings.

    Raises:
        ValueError: for a value that the template doesn't use, or one that is not finite.

    >>> panel = readout("at {σ} the mean is {mean:.2f}", mean=np.ones(40))
    >>> panel.options["parts"]
    ['at ', {'field': 'σ', 'format': ''}, ' the mean is ', {'field': 'mean', 'format': '.2f'}]
    """
    parts: list[str | dict[str, str]] = []
    for text, name, spec, _ in Formatter().parse(template):
        parts += [text] if text else []
        parts += [{"field": name, "format": format_spec(spec or "", "readout")}] if name is not None else []
    fields = {part["field"] for part in parts if isinstance(part, dict)}
    if unused := sorted(set(values) - fields):
        raise ValueError(f"readout: the template must use each value it is given, but not {unused}")
    arrays = {
        name: texts(value) if is_text(value) else numbers(value, "readout", name, own=0)
        for name, value in values.items()
    }
    return Panel(
        kind="readout",
        arrays=arrays,
        own_axes=dict.fromkeys(arrays, 0),
        options={"parts": parts},
        label=label,
        note=note,
        sliders=slider_names(sliders),
        exact=frozenset(arrays),
    )
