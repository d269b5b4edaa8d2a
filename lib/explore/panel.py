"""What a panel is: arrays whose leading axes are sliders, and how to draw what remains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lib.explore.checks import Check, slider_names

Marks = Mapping[str, tuple[str | None, int | None]]


@dataclass(frozen=True)
class Values:
    """An array of a panel: its last `own` axes are the panel's, those before them sliders.

    Args:
        array: (*sliders, *own axes), numbers or, as objects, strings.
        own: how many trailing axes belong to the panel itself.
        formats: how its numbers are written.
        exact: whether they are read digit by digit, so that every digit has to arrive.
    """

    array: np.ndarray
    own: int
    formats: Sequence[str] = ()
    exact: bool = False


@dataclass(frozen=True)
class Panel:
    """One figure of an explorer: arrays whose leading axes are sliders, and how to draw what remains.

    Args:
        kind: "heatmap", "lines", "bars", "image", "product" or "readout".
        arrays: name -> its values.
        options: what the browser needs besides the arrays; plain JSON.
        label, note: what it shows, in a few words, and a remark beside it.
        sliders: names of the sliders that the leading axes stand for; None for all, in their order.
        marks: option name -> (slider name, length that the slider must have or None).
    """

    kind: str
    arrays: Mapping[str, Values]
    options: dict[str, Any]
    label: str = ""
    note: str = ""
    sliders: tuple[str, ...] | None = None
    marks: Mapping[str, tuple[str, int | None]] = field(default_factory=dict)

    def spec(self) -> dict[str, Any]:
        """What the browser needs besides the arrays."""
        marks = {option: slider for option, (slider, _) in self.marks.items()}
        return {"kind": self.kind, "label": self.label, "note": self.note, **self.options, **marks}

    def __str__(self) -> str:
        return f'{self.kind} "{self.label}"' if self.label else self.kind


def panel_of(
    check: Check,
    arrays: Mapping[str, Values],
    options: dict[str, Any],
    label: str,
    note: str,
    sliders: Sequence[str] | None,
    marks: Marks = {},  # noqa: B006  # only read
) -> Panel:
    """A panel of the checked kind; a mark without a slider is none."""
    named = {option: (slider, length) for option, (slider, length) in marks.items() if slider is not None}
    return Panel(check.kind, arrays, options, label, note, slider_names(sliders), named)
