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

from lib.explore.axes import thin
from lib.explore.layout import Slider, at
from lib.explore.panels import Panel
from lib.plots import ACCENT, INK, LINE, QUIET, WARM, style
from lib.plots import heatmap as draw_heatmap

DOTS = LinearSegmentedColormap.from_list("dots", [LINE, WARM])

Arrays = Mapping[str, np.ndarray]
Options = Mapping[str, Any]
Mark = tuple[Slider, int] | None  # the slider that a panel marks, and where it stands


def picture(
    label: str,
    sliders: Sequence[Slider],
    panels: Sequence[Panel],
    arrays: Sequence[Arrays],
    positions: Sequence[int],
) -> bytes:
    """PNG of all panels side by side, the sliders' values above them and the readouts below."""
    now = [{name: at(array, positions) for name, array in laid.items()} for laid in arrays]
    shown = list(zip(panels, now, strict=True))
    stands = {slider.name: (slider, position) for slider, position in zip(sliders, positions, strict=True)}
    values = {name: slider.values[position] for name, (slider, position) in stands.items()}
    plots = [(panel, now) for panel, now in shown if panel.kind != "readout"]
    texts = [sentence(panel, now, values) for panel, now in shown if panel.kind == "readout"]
    with matplotlib.rc_context(style()):
        width = max(1, len(plots))
        figure = Figure(figsize=(4.4 * width, 3.4 if plots else 0.6), layout="constrained", facecolor="white")
        FigureCanvasAgg(figure)
        header = " · ".join(f"{name} = {slider.labels[position]}" for name, (slider, position) in stands.items())
        figure.suptitle(header, fontsize=10, color=QUIET)
        for place, (panel, now) in enumerate(plots, start=1):
            axes = figure.add_subplot(1, width, place)
            axes.set_title(panel.label, fontsize=10)
            DRAW[panel.kind](axes, panel.options, now, *(stands[name] for name, _ in panel.marks.values()))
        if texts:
            figure.supxlabel("\n".join(texts), fontsize=9.5, color=INK)
        file = BytesIO()
        figure.savefig(file, format="png", dpi=100, metadata={"Software": None})
    return file.getvalue()


def sentence(panel: Panel, now: Arrays, values: Mapping[str, Any]) -> str:
    """A readout's text at one position."""
    parts = panel.options["parts"]
    return "".join(part if isinstance(part, str) else _field(part, now, values) for part in parts)


def _field(part: Mapping[str, str], now: Arrays, values: Mapping[str, Any]) -> str:
    name, spec = part["field"], part["format"]
    value = np.asarray(now[name]).item() if name in now else values[name]
    if isinstance(value, str):
        return value
    return format(round(value) if spec.endswith("d") else value, spec or ".3g")


def _heatmap(axes: Axes, options: Options, now: Arrays, mark: Mark = None) -> None:
    values, limits = now["values"], np.array(options["limits"])
    if options["scale"] == "sqrt":
        values, limits = np.sign(values) * np.sqrt(np.abs(values)), np.sign(limits) * np.sqrt(np.abs(limits))
    low, high = limits.tolist()
    ends = (-max(-low, high), max(-low, high)) if low < 0 else (low, high or 1.0)
    rows, columns, labels = options["rows"], options["columns"], (options["x_label"], options["y_label"])
    draw_heatmap(values, rows, columns, ax=axes, xlabel=labels[0], ylabel=labels[1], limits=ends, colorbar=False)
    axes.set_aspect("auto")
    axes.set_xticks(list(few := thin(len(columns), 9)), [columns[i] for i in few])
    axes.set_yticks(list(few := thin(len(rows), 9)), [rows[i] for i in few])
    if mark:
        axes.axhspan(mark[1] - 0.5, mark[1] + 0.5, fill=False, color=WARM, lw=1.2)


def _lines(axes: Axes, options: Options, now: Arrays, mark: Mark = None) -> None:
    if options["dots"]:
        shades = now.get("dot_weights", np.zeros(len(options["dots"][0])))
        axes.scatter(*options["dots"], c=shades, cmap=DOTS, s=18, edgecolors=QUIET, linewidths=0.5)
    for name, dashed, series in zip(options["names"], options["dashed"], now["values"], strict=True):
        look = {"ls": "--", "lw": 1.2, "color": QUIET} if dashed else {"ls": "-", "lw": 2}
        axes.plot(options["x"], series, label=name or None, **look)
    x, y = options["x_axis"], options["y_axis"]
    axes.set(xscale="log" if x["log"] else "linear", yscale="log" if y["log"] else "linear")
    axes.set(xlim=x["limits"], ylim=y["limits"], xlabel=x["label"], ylabel=y["label"])
    if mark:
        axes.axvline(mark[0].values[mark[1]], color=WARM, lw=1.2)
    if any(options["names"]):
        axes.legend(fontsize=8, frameon=False)


def _bars(axes: Axes, options: Options, now: Arrays) -> None:
    places = range(len(options["names"]))
    drawn = axes.barh(places, now["values"], color=ACCENT)
    axes.bar_label(drawn, [format(value, options["format"]) for value in now["values"]], padding=3, fontsize=8)
    axes.set_yticks(list(places), options["names"])
    axes.set_xlim(0, 1.15 * options["limits"][1])
    axes.invert_yaxis()


def _image(axes: Axes, options: Options, now: Arrays) -> None:
    axes.imshow(now["values"], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_axis_off()


DRAW: dict[str, Callable[..., None]] = {"heatmap": _heatmap, "lines": _lines, "bars": _bars, "image": _image}
