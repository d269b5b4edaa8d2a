"""Laying a panel's arrays along the sliders, so that one index, the sliders' positions, serves them all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lib.explore.checks import Check, as_array
from lib.explore.panel import Panel
from lib.explore.text import format_for, written

MAX_SLIDERS = 6


@dataclass(frozen=True)
class Slider:
    """An axis that a reader moves along: a name, its values and how they are written."""

    name: str
    values: Sequence[Any]
    labels: Sequence[str]
    start: int = 0
    play: bool = False

    def spec(self) -> dict[str, Any]:
        """What the browser needs."""
        return {
            "name": self.name,
            "values": list(self.values),
            "labels": list(self.labels),
            "start": self.start,
            "play": self.play,
        }


def slider_axes(
    sliders: Mapping[str, Any], *, start: Mapping[str, int], play: str | None, formats: Mapping[str, str]
) -> list[Slider]:
    """Check an explorer's sliders and write out their labels.

    >>> slider_axes({"T": [0.5, 1.0]}, start={"T": 1}, play=None, formats={"T": ".1f"})[0].labels
    ['0.5', '1.0']
    """
    if not 1 <= len(sliders) <= MAX_SLIDERS:
        raise ValueError(f"sliders must hold 1 to {MAX_SLIDERS} sliders, got {len(sliders)}: {list(sliders)}")
    for argument, names in (("start", [*start]), ("play", [play] if play else []), ("formats", [*formats])):
        if unknown := [name for name in names if name not in sliders]:
            raise ValueError(f"{argument} names the slider {unknown[0]!r}, but the sliders are {list(sliders)}")
    return [
        _slider(name, values, start.get(name, 0), name == play, formats.get(name)) for name, values in sliders.items()
    ]


def _slider(name: str, values: Any, start: int, play: bool, spec: str | None) -> Slider:
    array = as_array(values)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"slider {name!r} must be one row of values, got shape {array.shape}")
    if array.dtype.kind not in "US" and not np.isfinite(array.astype(float)).all():
        raise ValueError(f"slider {name!r} must hold finite numbers or strings, got {array.tolist()}")
    if not isinstance(start, int) or not 0 <= start < array.size:
        raise ValueError(f"start of slider {name!r} must be a position in 0…{array.size - 1}, got {start}")
    entries = array.tolist()
    if array.dtype.kind in "USiub" and not spec:
        return Slider(name, entries, [str(entry) for entry in entries], start, play)
    spec = Check(f"slider {name!r}").format(spec or format_for(array, 3))
    return Slider(name, entries, [written(entry, spec) for entry in entries], start, play)


def lay_out(panel: Panel, index: int, sliders: Sequence[Slider]) -> dict[str, np.ndarray]:
    """Return every array of a panel with one axis per slider, of length 1 where it does not depend on that slider.

    Raises:
        ValueError: naming the panel, the slider, the length expected and the length that came.
    """
    names = [slider.name for slider in sliders]
    along = list(names) if panel.sliders is None else list(panel.sliders)
    where = f"panel {index} ({panel})"
    if unknown := [name for name in along if name not in names]:
        raise ValueError(f"{where}: sliders names {unknown[0]!r}, but the sliders are {names}")
    if along != [name for name in names if name in along]:
        raise ValueError(f"{where}: sliders must follow the explorer's order {names}, got {along}")
    for option, (name, length) in panel.marks.items():
        _check_mark(where, option, name, length, sliders)
    fields = {part["field"] for part in panel.options.get("parts", []) if isinstance(part, dict)}
    if missing := sorted(fields - set(names) - set(panel.arrays)):
        raise ValueError(
            f"{where}: the template's field {missing[0]!r} is neither a value nor one of the sliders {names}"
        )
    counts = {slider.name: len(slider.values) for slider in sliders}
    return {
        key: _expand(values.array, f"{where}: {key}", values.own, along, counts) for key, values in panel.arrays.items()
    }


def _expand(array: np.ndarray, where: str, own: int, along: Sequence[str], counts: Mapping[str, int]) -> np.ndarray:
    leading, trailing = array.shape[: array.ndim - own], array.shape[array.ndim - own :]
    if len(leading) != len(along):
        raise ValueError(
            f"{where} must have {len(along)} slider axes {list(along)} and {own} of its own, got shape {array.shape}; "
            f"say sliders=(…) if it depends on fewer"
        )
    for name, length in zip(along, leading, strict=True):
        if length not in (1, counts[name]):
            raise ValueError(
                f"{where} has {length} positions on {name!r}, expected {counts[name]} (or 1), shape {array.shape}"
            )
    lengths = dict(zip(along, leading, strict=True))
    return array.reshape(*(lengths.get(name, 1) for name in counts), *trailing)


def _check_mark(where: str, option: str, name: str, length: int | None, sliders: Sequence[Slider]) -> None:
    slider = next((slider for slider in sliders if slider.name == name), None)
    if slider is None:
        raise ValueError(f"{where}: {option} names {name!r}, but the sliders are {[slider.name for slider in sliders]}")
    if length is not None and len(slider.values) != length:
        raise ValueError(f"{where}: {option} needs {length} positions, but slider {name!r} has {len(slider.values)}")
    if length is None and isinstance(slider.values[0], str):
        raise ValueError(f"{where}: {option} needs a slider with numbers, but {name!r} holds strings")


def at(array: np.ndarray, positions: Sequence[int]) -> np.ndarray:
    """The part of a laid-out array that shows at the sliders' positions.

    >>> at(np.arange(12).reshape(3, 1, 4), (2, 5))
    array([ 8,  9, 10, 11])
    """
    return array[tuple(min(position, length - 1) for position, length in zip(positions, array.shape, strict=False))]
