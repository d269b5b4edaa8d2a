"""Pairs of sequences: what is padded with what, and the digits backwards."""

import pytest
import torch
from torch import Generator
from torch.nn.functional import cross_entropy

from lib.data import reversed_digits
from lib.seq2seq import IGNORED, START, noisy_inputs, pair_batch


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def test_a_pair_is_padded_to_the_longest_and_the_target_shifted_right():
    batch = pair_batch([torch.tensor([1, 2, 3]), torch.tensor([4])], [torch.tensor([5]), torch.tensor([6, 7])])
    assert batch.source.tolist() == [[1, 2, 3], [4, START, START]]
    assert batch.source_lengths.tolist() == [3, 1]
    assert batch.target.tolist() == [[5, IGNORED], [6, 7]]
    assert batch.target_in.tolist() == [[START, 5], [START, 6]]


def test_padded_targets_are_left_out_of_the_loss():
    logits = torch.randn(1, 3, 11, generator=seeded())
    target = torch.tensor([[4, 9, IGNORED]])
    expected = cross_entropy(logits[0, :2], target[0, :2])
    torch.testing.assert_close(cross_entropy(logits.flatten(0, 1), target.flatten()), expected)


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


def test_bad_numbers_of_pairs_are_refused():
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        reversed_digits(0, generator=seeded())
    with pytest.raises(ValueError, match="1 sources and 0 targets"):
        pair_batch([torch.tensor([1])], [])
    with pytest.raises(ValueError, match="0 sources and 0 targets"):
        pair_batch([], [])


def test_noise_replaces_the_share_asked_for_and_nothing_but_the_decoders_inputs():
    clean = next(reversed_digits(2000, generator=seeded()))
    noisy = next(noisy_inputs([clean], 0.3, generator=seeded(1)))
    changed = (noisy.target_in != clean.target_in).float()
    assert changed[:, 1:].mean().item() == pytest.approx(0.3 * 0.9, abs=0.01)  # one in ten draws the same digit
    assert (noisy.target_in[:, 0] == START).all()
    assert torch.equal(noisy.source, clean.source)
    assert torch.equal(noisy.target, clean.target)


def test_no_noise_changes_nothing_and_full_noise_says_nothing():
    clean = next(reversed_digits(3000, generator=seeded()))
    assert torch.equal(next(noisy_inputs([clean], 0.0, generator=seeded(1))).target_in, clean.target_in)
    noisy = next(noisy_inputs([clean], 1.0, generator=seeded(1)))
    agrees = (noisy.target_in[:, 1:] == clean.target_in[:, 1:]).float().mean().item()
    assert agrees == pytest.approx(0.1, abs=0.01)


def test_noise_leaves_the_clean_batch_and_ends_with_the_batches():
    clean = next(reversed_digits(4, generator=seeded()))
    before = clean.target_in.clone()
    assert len(list(noisy_inputs([clean, clean], 1.0, generator=seeded()))) == 2
    assert torch.equal(clean.target_in, before)


@pytest.mark.parametrize("rate", [-0.1, 1.1])
def test_a_rate_outside_zero_to_one_is_refused_at_the_call(rate: float):
    with pytest.raises(ValueError, match=f"rate must lie in 0 … 1, got {rate}"):
        noisy_inputs([], rate, generator=seeded())
