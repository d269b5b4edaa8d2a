"""The one widget: named sliders over arrays that a kernel has computed."""

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anywidget
import numpy as np
import traitlets

from lib.explore.encoding import Store
from lib.explore.layout import MAX_SLIDERS, at, lay_out, slider_axes
from lib.explore.panel import Panel
from lib.explore.picture import picture

HERE = Path(__file__).parent
HANZI = re.compile(r"[\u4e00-\u9fff]")
SLIDER_TRAITS = [f"slider_{index}" for index in range(MAX_SLIDERS)]


class Explorer(anywidget.AnyWidget):
    """Panels of numbers, computed in Python, that sliders index in the browser: with a kernel or without one.

    A panel's array has the slider axes first: at positions (i, j, …) it shows `values[i, j, …]`. A panel may leave out
    sliders it does not depend on (`sliders=` of the panel, or an axis of length 1). Positions are synced traits named
    `slider_0`, `slider_1`, …; `at("σ")` gives the pair that `ipywidgets.jslink` and `observe` want.

    Args:
        sliders: name -> values along that axis: numbers, or strings for kinds. At most 6.
        panels: made by `heatmap`, `lines`, `bars`, `image`, `product` and `readout`.
        label: what the explorer shows, for readers who cannot see it.
        start: slider name -> position (an index) at first; default 0.
        play: a slider whose axis is time; it gets a play button.
        formats: slider name -> format of its values; default "d" for integers, and ".3g" or as many more
            digits as tell the values apart for other numbers.

    Raises:
        ValueError: no slider, no panel, an unknown name, or an array whose axes don't match the sliders; the message
            names the panel, the slider, the length expected and the length that came.

    >>> import torch
    >>> from lib.explore import heatmap
    >>> sigmas = torch.logspace(-1.5, 0.5, 40)
    >>> explorer = Explorer({"σ": sigmas}, [heatmap(torch.rand(40, 5, 8), label="weights")], start={"σ": 18})
    >>> explorer
    Explorer(weights; σ × 40)
    >>> explorer.slider_0, explorer.value("σ")
    (18, 0.26...)

    On the attention of a model from another library, a slider for its heads:

    >>> theirs = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    >>> x = torch.randn(1, 6, 16)
    >>> _, weights = theirs(x, x, x, average_attn_weights=False)  # (batch, heads, query, key)
    >>> Explorer({"head": range(1, 5)}, [heatmap(weights[0], label="attention", x_label="key", y_label="query")])
    Explorer(attention; head × 4)
    """

    _esm = HERE / "explorer.js"
    _css = HERE / "explorer.css"

    label = traitlets.Unicode().tag(sync=True)
    language = traitlets.Unicode("en").tag(sync=True)
    sliders = traitlets.List().tag(sync=True)
    panels = traitlets.List().tag(sync=True)
    buffers = traitlets.List().tag(sync=True)
    slider_0 = traitlets.Int(0).tag(sync=True)
    slider_1 = traitlets.Int(0).tag(sync=True)
    slider_2 = traitlets.Int(0).tag(sync=True)
    slider_3 = traitlets.Int(0).tag(sync=True)
    slider_4 = traitlets.Int(0).tag(sync=True)
    slider_5 = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        sliders: Mapping[str, Any],
        panels: Sequence[Panel],
        *,
        label: str = "",
        start: Mapping[str, int] | None = None,
        play: str | None = None,
        formats: Mapping[str, str] | None = None,
    ) -> None:
        self._sliders = slider_axes(sliders, start=start or {}, play=play, formats=formats or {})
        self._panels = list(panels)
        if not self._panels:
            raise ValueError("panels must hold at least one panel, got none")
        if odd := [panel for panel in self._panels if not isinstance(panel, Panel)]:
            raise ValueError(
                f"panels must be made by heatmap, lines, bars, image, product or readout, got {type(odd[0]).__name__}"
            )
        self._arrays = [lay_out(panel, index, self._sliders) for index, panel in enumerate(self._panels)]
        store = Store()
        super().__init__(
            label=label or next((panel.label for panel in self._panels if panel.label), ""),
            language="zh" if HANZI.search("".join([label, *sliders, *map(str, self._panels)])) else "en",
            sliders=[slider.spec() for slider in self._sliders],
            panels=[
                {
                    **panel.spec(),
                    "arrays": {name: store.add(panel.arrays[name], array) for name, array in arrays.items()},
                }
                for panel, arrays in zip(self._panels, self._arrays, strict=True)
            ],
            buffers=store.buffers,
            **{f"slider_{index}": slider.start for index, slider in enumerate(self._sliders)},
        )

    @traitlets.validate(*SLIDER_TRAITS)
    def _within(self, proposal: Any) -> int:
        index, position = SLIDER_TRAITS.index(proposal.trait.name), proposal.value
        known = index < len(self._sliders)
        name, count = (self._sliders[index].name, len(self._sliders[index].values)) if known else ("unused", 1)
        if not 0 <= position < count:
            raise ValueError(f"slider_{index} ({name}) must be a position in 0…{count - 1}, got {position}")
        return position

    @property
    def positions(self) -> tuple[int, ...]:
        """The current index on each slider, in order."""
        return tuple(getattr(self, trait) for trait in SLIDER_TRAITS[: len(self._sliders)])

    def at(self, slider: str) -> tuple["Explorer", str]:
        """The (widget, trait) pair of a slider's position, as `ipywidgets.jslink` wants it.

        >>> from lib.explore import readout
        >>> Explorer({"σ": [0.1, 1.0]}, [readout("{σ}")]).at("σ")[1]
        'slider_0'
        """
        return self, SLIDER_TRAITS[self._index(slider)]

    def value(self, slider: str) -> Any:
        """The value, not the index, at which a slider stands."""
        index = self._index(slider)
        return self._sliders[index].values[self.positions[index]]

    def shown(self) -> list[dict[str, np.ndarray]]:
        """The numbers that each panel shows at the current positions, by array name.

        >>> from lib.explore import bars
        >>> explorer = Explorer({"T": [0.5, 1.0]}, [bars([[0.9, 0.1], [0.7, 0.3]], names="ab")], start={"T": 1})
        >>> explorer.shown()
        [{'values': array([0.7, 0.3])}]
        """
        return [{name: at(array, self.positions) for name, array in arrays.items()} for arrays in self._arrays]

    def png(self) -> bytes:
        """The figure at the current positions, for pages and readers without JavaScript."""
        return picture(self._sliders, self._panels, self.shown(), self.positions, self.language)

    def __repr__(self) -> str:
        sliders = ", ".join(f"{slider.name} × {len(slider.values)}" for slider in self._sliders)
        return f"Explorer({self.label or ', '.join(map(str, self._panels))}; {sliders})"

    def _index(self, slider: str) -> int:
        names = [known.name for known in self._sliders]
        if slider not in names:
            raise ValueError(f"slider must be one of {names}, got {slider!r}")
        return names.index(slider)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        data, metadata = super()._repr_mimebundle_(**kwargs) or ({}, {})
        return {**data, "image/png": b64encode(self.png()).decode()}, metadata
