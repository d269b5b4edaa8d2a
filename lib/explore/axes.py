"""Axes with round ticks, from matplotlib's locators."""

from typing import Any

import numpy as np
from matplotlib.ticker import LogLocator, MaxNLocator

from lib.explore.text import format_for, written


def axis(low: float, high: float, *, log: bool = False, label: str = "", pad: bool = False) -> dict[str, Any]:
    """Limits and ticks of an axis; `pad` leaves a little air above and below.

    >>> axis(0, 5)["ticks"]
    [[0.0, '0'], [1.0, '1'], [2.0, '2'], [3.0, '3'], [4.0, '4'], [5.0, '5']]
    """
    if pad and log:
        low, high = low / 1.2, high * 1.2
    elif pad:
        air = 0.04 * (high - low or abs(high) or 1.0)
        low, high = low - air, high + air
    elif low == high:
        air = max(0.5, 1e-6 * abs(high))
        low, high = (low / 1.2, high * 1.2) if log else (low - air, high + air)
    ticks = _ticks(low, high, log)
    spec = format_for(ticks, 6)
    return {
        "limits": [float(low), float(high)],
        "log": log,
        "label": label,
        "ticks": [[tick, written(tick, spec)] for tick in ticks],
    }


def _ticks(low: float, high: float, log: bool) -> list[float]:
    locators = [MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])]
    if log:  # powers of ten; 1, 2, 5 between them where the axis holds less than two; round numbers if that fails
        locators = [LogLocator(numticks=7), LogLocator(subs=(1.0, 2.0, 5.0), numticks=7), *locators]
    slack = 1e-9 * (high - low)
    inside: list[float] = []
    for locator in locators:
        inside = [float(tick) for tick in locator.tick_values(low, high) if low - slack <= tick <= high + slack]
        if len(inside) > 1:
            break
    if log:
        return [float(f"{tick:.12g}") for tick in inside]
    unit = 10.0 ** np.floor(np.log10(high - low))
    return [float(f"{round(tick / unit, 9) * unit:.15g}") for tick in inside]


def thin(count: int, room: int) -> range:
    """Which of `count` labels to write so that at most `room` stand: every 1st, 2nd, 5th, 10th, …

    >>> list(thin(26, 6))
    [0, 5, 10, 15, 20, 25]
    """
    steps = (step * 10**power for power in range(10) for step in (1, 2, 5))
    return range(0, count, next(step for step in steps if -(-count // step) <= room))
