"""Scenes with many vision tokens and few tactile ones, of which the few decide."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Generator, Tensor
from torch.nn.functional import one_hot

from lib.checks import check_at_least


class TactileBatch(NamedTuple):
    """Tokens of three streams and what the action is to be."""

    vision: Tensor
    """(batch, vision tokens, dim)"""
    tactile: Tensor
    """(batch, tactile tokens, dim)"""
    action: Tensor
    """(batch, action tokens, dim)"""
    label: Tensor
    """(batch, action tokens), integers; the same for all action tokens of a scene"""


def tactile_batches(
    batch_size: int,
    *,
    generator: Generator,
    classes: int = 4,
    tokens: tuple[int, int, int] = (196, 4, 16),
    shared_features: bool = True,
    noise: float = 0.1,
) -> Iterator[TactileBatch]:
    """Draw scenes without end in which the few tactile tokens alone tell which action is right.

    A token is one-hot parts side by side, with normal noise on all: which stream it is from (3), and which class
    it shows. All tactile tokens show the label; each vision token shows a class of its own, drawn at random.
    With shared features vision and touch show classes in the same place, so that only attention to the stream
    tells them apart; else each has a place of its own, and a linear value projection can drop vision as well.

    Args:
        batch_size: scenes a batch.
        generator: source of the random draws.
        classes: number of actions.
        tokens: numbers of vision, tactile and action tokens.
        shared_features: whether vision and touch show their classes in the same features.
        noise: standard deviation of the noise.

    Yields:
        Batches with dim = 3 + `classes` if the features are shared, else 3 + 2 `classes`.

    Raises:
        ValueError: a number is below 1, or `noise` is negative.

    >>> batch = next(tactile_batches(8, generator=torch.Generator().manual_seed(0)))
    >>> batch.vision.shape, batch.tactile.shape, batch.label.shape
    (torch.Size([8, 196, 7]), torch.Size([8, 4, 7]), torch.Size([8, 16]))
    """
    check_at_least(1, batch_size=batch_size, classes=classes)
    check_at_least(0, noise=noise)
    if min(tokens) < 1:
        raise ValueError(f"tokens must be three numbers of at least 1, got {tokens}")
    return _scenes(batch_size, generator, classes, tokens, shared_features, noise)


def _scenes(
    batch_size: int,
    generator: Generator,
    classes: int,
    tokens: tuple[int, int, int],
    shared_features: bool,
    noise: float,
) -> Iterator[TactileBatch]:
    vision, tactile, action = tokens
    width = classes if shared_features else 2 * classes

    def stream(kind: int, shown: Tensor) -> Tensor:
        origin = one_hot(torch.full(shown.shape[:2], kind), 3)
        clean = torch.cat([origin, shown], dim=-1)  # (batch, tokens, 3 + width)
        return clean + noise * torch.randn(clean.shape, generator=generator)

    while True:
        label = torch.randint(classes, (batch_size, 1), generator=generator)
        seen = torch.randint(classes, (batch_size, vision), generator=generator)
        yield TactileBatch(
            stream(0, one_hot(seen, width)),
            stream(1, one_hot(label + width - classes, width).expand(-1, tactile, -1)),
            stream(2, torch.zeros(batch_size, action, width)),
            label.expand(-1, action),
        )
