"""Five kinds of panel; `product` is the sixth. Each checks its arrays; `Explorer` then lays them along the sliders."""

from collections.abc import Sequence
from string import Formatter

import numpy as np

from lib.explore.axes import axis
from lib.explore.checks import ArrayLike, Check, Labels, is_text, plain
from lib.explore.panel import Panel, Values, panel_of
from lib.explore.text import format_for


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

    Args:
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
    check = Check("heatmap")
    array = check.numbers(values, "values", own=2)
    if scale not in ("linear", "sqrt"):
        check.fail(f'scale must be "linear" or "sqrt", got {scale!r}')
    rows, columns = array.shape[-2:]
    low, high = check.limits(array, limits)
    options = {
        "rows": check.labels(y, rows, "y", "rows"),
        "columns": check.labels(x, columns, "x", "columns"),
        "x_label": x_label,
        "y_label": y_label,
        "limits": [min(low, 0.0) if limits is None else low, max(high, 0.0) if limits is None else high],
        "scale": scale,
        "format": check.format(format),
    }
    arrays = {"values": Values(array, 2, [format])}
    return panel_of(check, arrays, options, label, note, sliders, {"mark_row": (mark_row, rows)})


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

    Args:
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
    check = Check("lines")
    array = check.numbers(values, "values", own=2)
    xs = check.numbers(x, "x", own=1)
    series, points = array.shape[-2:]
    if xs.shape != (points,):
        check.fail(f"x must have shape ({points},) like the last axis of values, got {xs.shape}")
    if points > 1 and not (np.diff(xs) > 0).all():
        check.fail("x must increase")
    if len(names) != series:
        check.fail(f"names must hold {series} names, one per series, got {len(names)}: {list(names)}")
    if unknown := set(dashed) - set(names):
        check.fail(f"dashed must be among names {list(names)}, got {sorted(unknown)}")
    scatter = check.dots(dots)
    arrays = {"values": Values(array, 2, [check.format(format)], exact=True)}
    if dot_weights is not None:
        weights, count = check.numbers(dot_weights, "dot_weights", own=1), len(scatter[0]) if scatter else 0
        if weights.shape[-1] != count:
            check.fail(f"dot_weights must weigh the {count} dots, got {weights.shape[-1]} weights")
        arrays["dot_weights"] = Values(weights, 1)
    low, high = check.limits(np.concatenate([array.ravel(), *scatter[1:]]), limits)
    for name, log, least in (("x", x_log, xs.min()), ("y", y_log, low)):
        if log and least <= 0:
            check.fail(f"{name}_log needs positive values, got {least:g}")
    options = {
        "x": plain(xs),
        "x_format": format_for(xs, 4),
        "names": [str(name) for name in names],
        "dashed": [name in dashed for name in names],
        "dots": [plain(axis) for axis in scatter],
        "x_axis": axis(xs.min(), xs.max(), log=x_log, label=x_label),
        "y_axis": axis(low, high, log=y_log, label=y_label, pad=limits is None),
        "format": format,
    }
    return panel_of(check, arrays, options, label, note, sliders, {"mark_x": (mark_x, None)})


def bars(
    values: ArrayLike,
    *,
    names: Sequence[object],
    limits: tuple[float, float] | None = None,
    format: str = ".3f",
    label: str = "",
    note: str = "",
    sliders: Sequence[str] | None = None,
) -> Panel:
    """Horizontal bars from zero, each with its name and its number; a bar at exactly zero is drawn faded.

    Args:
        values: (*sliders, bars), none negative.
        names: one per bar.
        limits: (0, longest); default over all slider positions.

    Raises:
        ValueError: for a negative value or names that don't match the bars.

    >>> str(bars([[0.2, 0.8], [0.5, 0.5]], names=["a", "b"], label="shares"))
    'bars "shares"'
    """
    check = Check("bars")
    array = check.numbers(values, "values", own=1)
    if (least := array.min()) < 0:
        check.fail(f"values must not be negative, got {least:g}")
    _, high = check.limits(array, limits)
    options = {
        "names": check.labels(names, array.shape[-1], "names", "bars"),
        "limits": [0.0, high or 1.0],
        "format": check.format(format),
    }
    return panel_of(check, {"values": Values(array, 1, [format], exact=True)}, options, label, note, sliders)


def image(
    values: ArrayLike,
    *,
    channels: int = 1,
    label: str = "",
    note: str = "",
    sliders: Sequence[str] | None = None,
) -> Panel:
    """A picture: grey, or colour where `channels` is 3. Values in 0…1, sent with 256 levels.

    Args:
        values: (*sliders, height, width), or (*sliders, height, width, 3) with channels=3.

    Raises:
        ValueError: for values outside 0…1 or a last axis that isn't 3.

    >>> str(image(np.zeros((4, 8, 12)), label="patches"))
    'image "patches"'
    """
    check = Check("image")
    if channels not in (1, 3):
        check.fail(f"channels must be 1 or 3, got {channels}")
    own = 2 if channels == 1 else 3
    array = check.numbers(values, "values", own=own)
    if channels == 3 and array.shape[-1] != 3:
        check.fail(f"the last axis of values must hold 3 channels, got shape {array.shape}")
    if array.min() < 0 or array.max() > 1:
        check.fail(f"values must lie in 0…1, got {array.min():g} to {array.max():g}")
    arrays = {"values": Values(np.rint(array * 255) / 255, own)}
    return panel_of(check, arrays, {"channels": channels, "format": ".2f"}, label, note, sliders)


def readout(
    template: str,
    *,
    label: str = "",
    note: str = "",
    sliders: Sequence[str] | None = None,
    **values: ArrayLike,
) -> Panel:
    """One sentence that says what the numbers mean at the current positions.

    Args:
        template: text with fields such as `{prediction:.2f}`; a slider's name is a field too.
        values: name -> (*sliders,) numbers, or nested lists of strings.

    Raises:
        ValueError: for a value that the template doesn't use, or one that is not finite.

    >>> panel = readout("at {σ} the mean is {mean:.2f}", mean=np.ones(40))
    >>> panel.options["parts"]
    ['at ', {'field': 'σ', 'format': ''}, ' the mean is ', {'field': 'mean', 'format': '.2f'}]
    """
    check = Check("readout")
    parts: list[str | dict[str, str]] = []
    formats: dict[str, list[str]] = {}
    for text, name, spec, _ in Formatter().parse(template):
        parts += [text] if text else []
        if name is not None:
            parts.append({"field": name, "format": check.format(spec or "")})
            formats.setdefault(name, []).append(spec or "")
    if unused := sorted(set(values) - set(formats)):
        check.fail(f"the template must use each value it is given, but not {unused}")
    arrays = {
        name: Values(np.asarray(value, dtype=object), 0)
        if is_text(value)
        else Values(check.numbers(value, name, own=0), 0, formats[name], exact=True)
        for name, value in values.items()
    }
    return panel_of(check, arrays, {"parts": parts}, label, note, sliders)
