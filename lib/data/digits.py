"""Digit sequences to be written backwards."""

from collections.abc import Iterator

import torch
from torch import Generator

from lib.checks import check_at_least
from lib.seq2seq import PairBatch, pair_batch


def reversed_digits(batch_size: int, *, generator: Generator, lengths: tuple[int, int] = (8, 8)) -> Iterator[PairBatch]:
    """Draw digit sequences without end; the target is the source backwards.

    Args:
        batch_size: pairs a batch.
        generator: source of the random draws.
        lengths: shortest and longest source; each pair draws its own length evenly.

    Raises:
        ValueError: `batch_size` is below 1, or `lengths` are not 1 ≤ shortest ≤ longest.

    >>> batch = next(reversed_digits(2, generator=torch.Generator().manual_seed(0), lengths=(3, 5)))
    >>> batch.source
    tensor([[ 3,  0,  3,  9,  7],
            [ 3,  7,  3, 10, 10]])
    >>> batch.target
    tensor([[   7,    9,    3,    0,    3],
            [   3,    7,    3, -100, -100]])
    """
    shortest, longest = lengths
    check_at_least(1, batch_size=batch_size)
    if not 1 <= shortest <= longest:
        raise ValueError(f"lengths must be (shortest, longest) with 1 ≤ shortest ≤ longest, got {lengths}")
    return _reversed_digits(batch_size, generator, shortest, longest)


def _reversed_digits(batch_size: int, generator: Generator, shortest: int, longest: int) -> Iterator[PairBatch]:
    while True:
        counts = torch.randint(shortest, longest + 1, (batch_size,), generator=generator).tolist()
        sources = torch.randint(10, (sum(counts),), generator=generator).split(counts)
        yield pair_batch(sources, [source.flip(0) for source in sources])
