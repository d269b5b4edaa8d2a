"""Masks: boolean, True = may attend, broadcastable to (batch, heads, query, key)."""

import pytest
import torch

from lib.attention import block_causal_mask, causal_mask, padding_mask
from lib.attention.masks import check_mask


@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (1, 7), (3, 7), (7, 3), (4, 0), (0, 4)])
def test_causal_mask_is_aligned_bottom_right(queries: int, keys: int):
    mask = causal_mask(queries, keys)
    assert mask.dtype == torch.bool
    assert mask.tolist() == [[s <= t + keys - queries for s in range(keys)] for t in range(queries)]


def test_causal_mask_is_square_by_default():
    assert torch.equal(causal_mask(4), causal_mask(4, 4))


def test_one_new_query_behind_a_cache_sees_every_key():
    assert causal_mask(1, 9).all()


@pytest.mark.parametrize("lengths", [[3, 0, 5], torch.tensor([3, 0, 5]), torch.tensor([3, 0, 5], dtype=torch.uint8)])
def test_padding_mask_counts_the_tokens_of_each_sequence(lengths):
    mask = padding_mask(lengths, 5)
    assert mask.shape == (3, 1, 1, 5)
    assert mask.sum(-1).flatten().tolist() == [3, 0, 5]
    assert mask[0, 0, 0].tolist() == [True, True, True, False, False]


def test_padding_mask_broadcasts_against_the_causal_one():
    mask = padding_mask([2, 7], 7) & causal_mask(3, 7)
    assert mask.shape == (2, 1, 3, 7)
    assert mask.sum((-1, -2)).flatten().tolist() == [6, 18]


def test_block_causal_mask_hides_later_blocks_and_nothing_else():
    sizes = [3, 0, 1, 2]
    block = [0, 0, 0, 2, 3, 3]
    expected = [[block[s] <= block[t] for s in range(6)] for t in range(6)]
    assert block_causal_mask(sizes).tolist() == expected


def test_blocks_of_one_token_are_causal_and_one_block_is_full():
    assert torch.equal(block_causal_mask([1] * 5), causal_mask(5))
    assert block_causal_mask([5]).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: causal_mask(-1), "queries must be at least 0, got -1"),
        (lambda: causal_mask(2, -3), "keys must be at least 0, got -3"),
        (lambda: padding_mask([2], -1), "size must be at least 0, got -1"),
        (lambda: padding_mask([2, 6], 5), r"0 … size = 5, got \[2, 6\]"),
        (lambda: padding_mask([-1], 5), r"got \[-1\]"),
        (lambda: padding_mask(torch.tensor([1.5]), 5), "lengths must be .* integers, got .*float32"),
        (lambda: padding_mask([True, False], 5), "lengths must be .* integers, got .*bool"),
        (lambda: padding_mask(torch.tensor([[1]]), 5), r"lengths must be \(batch,\).*got \(1, 1\)"),
        (lambda: block_causal_mask([]), "block_sizes must name at least one block"),
        (lambda: block_causal_mask([2, -1]), "block_sizes must be at least 0, got -1"),
    ],
)
def test_bad_input_is_named(make, message: str):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("shape", [(5, 7), (1, 7), (5, 1), (7,), (2, 1, 1, 7), (2, 3, 5, 7), ()])
def test_masks_that_broadcast_are_accepted(shape: tuple[int, ...]):
    check_mask(torch.ones(shape, dtype=torch.bool), (2, 3, 5, 7))


@pytest.mark.parametrize("shape", [(7, 5), (5, 5), (4, 5, 7), (1, 2, 3, 5, 7)])
def test_a_mask_that_does_not_broadcast_names_both_shapes(shape: tuple[int, ...]):
    with pytest.raises(ValueError, match=r"mask of shape .* scores of shape \(2, 3, 5, 7\)") as error:
        check_mask(torch.ones(shape, dtype=torch.bool), (2, 3, 5, 7))
    assert str(shape) in str(error.value)


def test_a_mask_of_numbers_is_refused():
    with pytest.raises(ValueError, match=r"mask must be boolean.*float32"):
        check_mask(torch.zeros(5, 7), (5, 7))
