"""What experiments train with, and the first losses of a training that would go on: what a test compares."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from experiments.store import spread
from lib.training import fit

Kind = TypeVar("Kind")
Found = TypeVar("Found")
ADAMW: Any = partial(torch.optim.AdamW, foreach=True)  # all parameters at once, which is faster


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


def over_seeds(
    run: Callable[[int, Kind], Found],
    seeds: Iterable[int],
    kinds: Iterable[Kind],
    shown: Mapping[str, Callable[[Found], float]],
) -> dict[Kind, list[Found]]:
    """Run every kind with every seed; of each kind the spread of what `shown` takes from a run is printed."""
    runs: dict[Kind, list[Found]] = {}
    for kind in kinds:
        runs[kind] = [run(seed, kind) for seed in seeds]
        for name, taken in shown.items():
            print(f"{kind}: {name}", spread([taken(found) for found in runs[kind]]), flush=True)
    return runs
