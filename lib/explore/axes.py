"""Axes with round ticks, from matplotlib's locators."""

from typing import Any

import numpy as np
from matplotlib.ticker import LogLocator, MaxNLocator


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
        low, high = low - 0.5, high + 0.5
    locator = LogLocator(numticks=7) if log else MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])
    slack = 1e-9 * (high - low)
    ticks = [float(tick) for tick in locator.tick_values(low, high) if low - slack <= tick <= high + slack]
    return {
        "limits": [float(low), float(high)],
        "log": log,
        "label": label,
        "ticks": [[tick, tick_label(tick)] for tick in np.round(ticks, 12).tolist()],
    }


def tick_label(value: float) -> str:
    """A short tick label: plain below a million, then a power of ten.

    >>> [tick_label(v) for v in (0.0, 0.25, 2000.0, 1e8)]
    ['0', '0.25', '2000', '1e8']
    """
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        return f"{value:g}"
    mantissa, exponent = f"{value:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def thin(count: int, room: int) -> range:
    """Which of `count` labels to write so that at most `room` stand: every 1st, 2nd, 5th, 10th, …

    >>> list(thin(26, 6))
    [0, 5, 10, 15, 20, 25]
    """
    steps = (step * 10**power for power in range(10) for step in (1, 2, 5))
    return range(0, count, next(step for step in steps if -(-count // step) <= room))
