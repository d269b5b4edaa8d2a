"""Pairs of sequences: what is padded with what, and noise on the decoder's inputs."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
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


rows = st.lists(st.integers(0, 40), max_size=6).map(lambda row: torch.tensor(row, dtype=torch.long))
pairs = st.lists(st.tuples(rows, rows), min_size=1, max_size=6)


@given(pairs)
def test_every_pair_can_be_read_back_from_its_batch(some: list[tuple[torch.Tensor, torch.Tensor]]):
    sources, targets = (list(side) for side in zip(*some, strict=True))
    if not (any(map(len, sources)) and any(map(len, targets))):
        with pytest.raises(ValueError, match=r"(sources|targets) must hold at least one token, got \d of length 0"):
            pair_batch(sources, targets)
        return
    batch = pair_batch(sources, targets)
    assert batch.source.shape == (len(some), max(map(len, sources)))
    assert batch.target.shape == batch.target_in.shape == (len(some), max(map(len, targets)))
    for row, (source, target) in enumerate(some):
        assert torch.equal(batch.source[row, : batch.source_lengths[row]], source)
        assert torch.equal(batch.target[row][batch.target[row] != IGNORED], target)
        shifted = torch.cat([torch.tensor([START]), target[:-1]]) if len(target) else target
        assert torch.equal(batch.target_in[row, : len(target)], shifted)
        assert (batch.target_in[row, len(target) + 1 :] == START).all()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32])
def test_tokens_of_any_integers_become_indices(dtype: torch.dtype):
    batch = pair_batch([torch.tensor([1, 2], dtype=dtype)], [torch.tensor([3], dtype=dtype)])
    assert {tensor.dtype for tensor in batch} == {torch.int64}
    assert (batch.source.tolist(), batch.target_in.tolist(), batch.target.tolist()) == ([[1, 2]], [[START]], [[3]])


@pytest.mark.parametrize("wrong", [torch.tensor([1.0]), torch.tensor([True]), torch.tensor([[1]]), torch.tensor(1)])
def test_rows_that_are_no_tokens_are_named(wrong: torch.Tensor):
    right = torch.tensor([1, 2])
    with pytest.raises(ValueError, match=r"sources must be \(length,\) integers, got"):
        pair_batch([right, wrong], [right, right])
    with pytest.raises(ValueError, match=r"targets must be \(length,\) integers, got"):
        pair_batch([right, right], [right, wrong])


def test_bad_numbers_of_pairs_are_refused():
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


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_a_rate_outside_zero_to_one_is_refused_at_the_call(rate: float):
    with pytest.raises(ValueError, match=f"rate must lie in 0 … 1, got {rate}"):
        noisy_inputs([], rate, generator=seeded())
