"""Digits backwards: each within its length, all as likely."""

import pytest
import torch
from torch import Generator

from lib.data import reversed_digits
from lib.seq2seq import IGNORED, START


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def test_digits_come_back_in_reverse_each_within_its_length():
    batch = next(reversed_digits(50, generator=seeded(), lengths=(2, 7)))
    assert batch.source.shape == batch.target.shape == (50, 7)
    for source, target, length in zip(batch.source, batch.target, batch.source_lengths.tolist(), strict=True):
        assert torch.equal(source[:length].flip(0), target[:length])
        assert (source[length:] == START).all()
        assert (target[length:] == IGNORED).all()


def test_all_lengths_and_all_digits_are_as_likely():
    batch = next(reversed_digits(8000, generator=seeded(), lengths=(3, 6)))
    counts = torch.bincount(batch.source_lengths).float() / 8000
    assert counts.tolist() == pytest.approx([0, 0, 0, *[0.25] * 4], abs=0.02)
    digits = batch.source[batch.source < START].bincount().float()
    assert (digits / digits.sum()).tolist() == pytest.approx([0.1] * 10, abs=0.01)


def test_eight_digits_by_default():
    batch = next(reversed_digits(3, generator=seeded()))
    assert batch.source.shape == (3, 8)
    assert batch.source_lengths.tolist() == [8, 8, 8]


def test_the_seed_decides_and_batches_differ():
    first, again, other = (reversed_digits(4, generator=seeded(seed), lengths=(1, 9)) for seed in (1, 1, 2))
    one, same, different = next(first), next(again), next(other)
    assert all(torch.equal(a, b) for a, b in zip(one, same, strict=True))
    assert not torch.equal(one.source_lengths, different.source_lengths)
    assert not torch.equal(one.source_lengths, next(first).source_lengths)


@pytest.mark.parametrize("lengths", [(0, 3), (4, 3), (-1, -1)])
def test_bad_lengths_are_refused_at_the_call(lengths: tuple[int, int]):
    with pytest.raises(ValueError, match="1 ≤ shortest ≤ longest"):
        reversed_digits(2, generator=seeded(), lengths=lengths)


def test_a_batch_has_at_least_one_pair():
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        reversed_digits(0, generator=seeded())
