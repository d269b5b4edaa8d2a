"""The figure of an explorer at one position, drawn by matplotlib for readers without JavaScript."""

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from lib.explore.axes import thin
from lib.explore.layout import Slider
from lib.explore.panel import Panel
from lib.explore.product_picture import draw_product, product_size
from lib.explore.text import wrapped, written
from lib.plots import ACCENT, INK, LINE, QUIET, WARM, literal, style
from lib.plots import heatmap as draw_heatmap

COLUMNS = 14  # of a readout, an inch; a Chinese character takes two
DOTS = LinearSegmentedColormap.from_list("dots", [LINE, WARM])

Arrays = Mapping[str, np.ndarray]
Options = Mapping[str, Any]
Mark = tuple[Slider, int] | None  # the slider that a panel marks, and where it stands


def picture(
    sliders: Sequence[Slider],
    panels: Sequence[Panel],
    now: Sequence[Arrays],
    positions: Sequence[int],
    language: str = "en",
) -> bytes:
    """PNG of all panels side by side, products in rows of their own, the sliders' values above and readouts below."""
    stands = {slider.name: (slider, position) for slider, position in zip(sliders, positions, strict=True)}
    drawn = list(zip(panels, now, strict=True))
    plots = [(panel, arrays) for panel, arrays in drawn if panel.kind != "readout"]
    texts = [sentence(panel, arrays, stands) for panel, arrays in drawn if panel.kind == "readout"]
    rows = _rows([panel for panel, _ in plots])
    columns = max(map(len, rows), default=1)
    sizes = [_size(row) for row in rows] or [(4.4, 0.0)]
    width, heights = max(4.4 * columns, *(width for width, _ in sizes)), [height for _, height in sizes]
    with matplotlib.rc_context(style()):
        figure = Figure(figsize=(width, sum(heights) + 0.2), layout="constrained")
        FigureCanvasAgg(figure)
        header = " · ".join(f"{name} = {slider.labels[position]}" for name, (slider, position) in stands.items())
        figure.suptitle(literal(header), fontsize=10, color=QUIET)
        grid = figure.add_gridspec(len(heights), columns, height_ratios=heights if any(heights) else None)
        places = [(row, place) for row, panels in enumerate(rows) for place in range(len(panels))]
        for (row, place), (panel, arrays) in zip(places, plots, strict=True):
            axes = figure.add_subplot(grid[row, :] if panel.kind == "product" else grid[row, place])
            if panel.kind == "product":
                draw_product(axes, panel.options, arrays, language)
            else:
                DRAW[panel.kind](axes, panel.options, arrays, *(stands[name] for name, _ in panel.marks.values()))
            axes.set_title(literal(panel.label), fontsize=10)
        if texts:
            lines = "\n".join(wrapped(text, int(COLUMNS * width)) for text in texts)
            figure.supxlabel(literal(lines), fontsize=9.5, color=INK)
        file = BytesIO()
        figure.savefig(file, format="png", dpi=100, metadata={"Software": None})
    return file.getvalue()


def _rows(panels: Sequence[Panel]) -> list[list[Panel]]:
    """Up to three panels a row, but a product alone."""
    rows: list[list[Panel]] = []
    for panel in panels:
        alone = not rows or panel.kind == "product" or rows[-1][-1].kind == "product" or len(rows[-1]) == 3
        rows.append([panel]) if alone else rows[-1].append(panel)
    return rows


def _size(row: Sequence[Panel]) -> tuple[float, float]:
    """Inches across and down that a row of panels takes."""
    return product_size(row[0].options) if row[0].kind == "product" else (4.4 * len(row), 3.4)


def sentence(panel: Panel, now: Arrays, stands: Mapping[str, tuple[Slider, int]]) -> str:
    """A readout's text where the sliders stand."""
    return "".join(part if isinstance(part, str) else _field(part, now, stands) for part in panel.options["parts"])


def _field(part: Mapping[str, str], now: Arrays, stands: Mapping[str, tuple[Slider, int]]) -> str:
    name, spec = part["field"], part["format"]
    if name in now:
        value = np.asarray(now[name]).item()
        return value if isinstance(value, str) else written(value, spec)
    slider, position = stands[name]
    return written(slider.values[position], spec) if spec else slider.labels[position]


def _heatmap(axes: Axes, options: Options, now: Arrays, mark: Mark = None) -> None:
    values, limits = now["values"], np.array(options["limits"])
    if options["scale"] == "sqrt":
        values, limits = np.sign(values) * np.sqrt(np.abs(values)), np.sign(limits) * np.sqrt(np.abs(limits))
    low, high = limits.tolist()
    ends = (-max(-low, high), max(-low, high)) if low < 0 else (low, high or 1.0)
    rows, columns, labels = options["rows"], options["columns"], (options["x_label"], options["y_label"])
    draw_heatmap(values, rows, columns, ax=axes, xlabel=labels[0], ylabel=labels[1], limits=ends, colorbar=False)
    axes.set_aspect("auto")
    axes.set_xticks(list(few := thin(len(columns), 9)), [literal(columns[i]) for i in few])
    axes.set_yticks(list(few := thin(len(rows), 9)), [literal(rows[i]) for i in few])
    if mark:
        axes.axhspan(mark[1] - 0.5, mark[1] + 0.5, fill=False, color=WARM, lw=1.2)


def _lines(axes: Axes, options: Options, now: Arrays, mark: Mark = None) -> None:
    if options["dots"]:
        shades = now.get("dot_weights", np.zeros(len(options["dots"][0])))
        axes.scatter(*options["dots"], c=shades, cmap=DOTS, s=18, edgecolors=QUIET, linewidths=0.5)
    for dashed, series in zip(options["dashed"], now["values"], strict=True):
        look = {"ls": "--", "lw": 1.2, "color": QUIET} if dashed else {"ls": "-", "lw": 2}
        axes.plot(options["x"], series, **look)
    for side in (axes.xaxis, axes.yaxis):
        ends, log = options[f"{side.axis_name}_axis"], options[f"{side.axis_name}_axis"]["log"]
        axes.set(**{f"{side.axis_name}scale": "log" if log else "linear", f"{side.axis_name}lim": ends["limits"]})
        side.set_ticks([tick for tick, _ in ends["ticks"]], labels=[text for _, text in ends["ticks"]])
        side.set_minor_locator(NullLocator())
        side.set_label_text(literal(ends["label"]))
    if mark:
        axes.axvline(mark[0].values[mark[1]], color=WARM, lw=1.2)
    if any(options["names"]):
        drawn = [(line, literal(name)) for line, name in zip(axes.lines, options["names"], strict=False) if name]
        axes.legend(*zip(*drawn, strict=True), fontsize=8, frameon=False)


def _bars(axes: Axes, options: Options, now: Arrays) -> None:
    places = range(len(options["names"]))
    drawn = axes.barh(places, now["values"], color=ACCENT)
    axes.bar_label(drawn, [written(value, options["format"]) for value in now["values"]], padding=3, fontsize=8)
    axes.set_yticks(list(places), [literal(name) for name in options["names"]])
    axes.set_xlim(0, 1.15 * options["limits"][1])
    axes.invert_yaxis()


def _image(axes: Axes, options: Options, now: Arrays) -> None:
    axes.imshow(now["values"], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_axis_off()


DRAW: dict[str, Callable[..., None]] = {"heatmap": _heatmap, "lines": _lines, "bars": _bars, "image": _image}
