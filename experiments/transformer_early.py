"""The first losses of a training that would go on: what a test compares, where the whole would take too long."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from torch import Tensor, nn

from lib.training import fit


class Enough(Exception):
    """Raised to leave a training early."""


def first_losses(
    model: nn.Module, batches: Iterable[Iterable[Tensor]], loss: Callable[..., Tensor], count: int, **options: Any
) -> list[float]:
    """Losses of the first `count` steps that `fit` makes with these options, its schedule for all steps included."""
    losses: list[float] = []

    def recorded(model: nn.Module, *batch: Tensor) -> Tensor:
        if len(losses) == count:
            raise Enough
        value = loss(model, *batch)
        losses.append(value.item())
        return value

    with suppress(Enough):
        fit(model, batches, recorded, **options)
    return losses


def tens(losses: list[float]) -> list[float]:
    """Means of each ten."""
    return [sum(losses[i : i + 10]) / 10 for i in range(0, len(losses), 10)]
