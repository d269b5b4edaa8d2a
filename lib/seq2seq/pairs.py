"""Pairs of token sequences for an encoder and a decoder, and the task of writing digits in reverse."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Generator, Tensor
from torch.nn.utils.rnn import pad_sequence

START = 10
"""The token before the first of a target; digits are the tokens 0 … 9. It also fills the padding of inputs."""

IGNORED = -100
"""Target on padding: what `cross_entropy` leaves out by default."""


class PairBatch(NamedTuple):
    """Sources and targets of different lengths, padded behind."""

    source: Tensor
    """(batch, source) tokens, `START` on padding"""
    target_in: Tensor
    """(batch, target) tokens that the decoder reads: the target shifted right behind `START`"""
    target: Tensor
    """(batch, target) tokens that it is to write, `IGNORED` on padding"""
    source_lengths: Tensor
    """(batch,) tokens in each source"""


def pair_batch(sources: Sequence[Tensor], targets: Sequence[Tensor]) -> PairBatch:
    """Pad pairs of sequences to a batch and shift the targets right.

    Args:
        sources: one (length,) tensor of integers a pair, at least one token in some of them.
        targets: the same; a target may be longer or shorter than its source.

    Raises:
        ValueError: sources and targets differ in number, there are none, or one of them is no row of integers.

    >>> batch = pair_batch([torch.tensor([4, 7, 9]), torch.tensor([5])], [torch.tensor([9, 7]), torch.tensor([5])])
    >>> batch.target_in
    tensor([[10,  9],
            [10,  5]])
    >>> batch.target
    tensor([[   9,    7],
            [   5, -100]])
    """
    if len(sources) != len(targets) or not sources:
        raise ValueError(f"each source needs one target, got {len(sources)} sources and {len(targets)} targets")
    source = _padded("sources", sources, START)  # (batch, source)
    target = _padded("targets", targets, IGNORED)  # (batch, target)
    known = target.masked_fill(target == IGNORED, START)
    target_in = torch.cat([torch.full_like(known[:, :1], START), known[:, :-1]], 1)  # (batch, target)
    return PairBatch(source, target_in, target, torch.tensor([len(tokens) for tokens in sources]))


def _padded(name: str, rows: Sequence[Tensor], padding: int) -> Tensor:
    for row in rows:
        if row.ndim != 1 or row.is_floating_point() or row.dtype == torch.bool:
            raise ValueError(f"{name} must be (length,) integers, got {tuple(row.shape)} {row.dtype}")
    if not any(len(row) for row in rows):
        raise ValueError(f"{name} must hold at least one token, got {len(rows)} of length 0")
    return pad_sequence([row.long() for row in rows], batch_first=True, padding_value=padding)


def noisy_inputs(batches: Iterable[PairBatch], rate: float, *, generator: Generator) -> Iterator[PairBatch]:
    """Put random digits in place of some of the tokens that the decoder reads; what it is to write stays.

    Args:
        batches: pairs.
        rate: share of tokens that are replaced, from 0 to 1; the start token never is.
        generator: source of the random draws.

    Raises:
        ValueError: `rate` is not within 0 … 1.

    Source: Xie et al. 2017 (unigram noising).

    >>> generator = torch.Generator().manual_seed(0)
    >>> clean = pair_batch([torch.tensor([4, 7, 9])], [torch.tensor([9, 7, 4])])
    >>> next(noisy_inputs([clean], 1.0, generator=generator)).target_in[:, 0]
    tensor([10])
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"rate must lie in 0 … 1, got {rate}")
    return _noisy_inputs(batches, rate, generator)


def _noisy_inputs(batches: Iterable[PairBatch], rate: float, generator: Generator) -> Iterator[PairBatch]:
    for batch in batches:
        shape = batch.target_in.shape
        replaced = torch.rand(shape, generator=generator) < rate
        replaced[:, 0] = False
        digits = torch.randint(START, shape, generator=generator)
        yield batch._replace(target_in=torch.where(replaced, digits, batch.target_in))
