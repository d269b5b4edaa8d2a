"""BERT's masking: how many tokens are chosen, and what becomes of them."""

import pytest
import torch

from lib.transformer import mask_tokens

TOKENS = torch.arange(60_000).view(300, 200) % 1000
MASK = 1000


def draw(probability: float = 0.15, seed: int = 1):
    generator = torch.Generator().manual_seed(seed)
    return mask_tokens(TOKENS, mask_token=MASK, vocab_size=1000, generator=generator, probability=probability)


@pytest.mark.parametrize("probability", [0.05, 0.15, 0.5])
def test_that_many_are_chosen_and_split_80_10_10(probability: float):
    seen, chosen = draw(probability)
    assert chosen.float().mean().item() == pytest.approx(probability, rel=0.05)
    masked, kept = (seen == MASK)[chosen].float().mean(), (seen == TOKENS)[chosen].float().mean()
    assert masked.item() == pytest.approx(0.8, abs=0.02)
    assert kept.item() == pytest.approx(0.1, abs=0.02)


def test_tokens_that_were_not_chosen_stay_and_the_input_too():
    before = TOKENS.clone()
    seen, chosen = draw()
    assert torch.equal(seen[~chosen], TOKENS[~chosen])
    assert torch.equal(TOKENS, before)


def test_random_tokens_come_from_the_whole_vocabulary():
    seen, chosen = draw(1.0)
    swapped = seen[chosen & (seen != MASK) & (seen != TOKENS)]
    assert swapped.unique().numel() > 950
    assert swapped.max() < 1000


@pytest.mark.parametrize(("probability", "count"), [(0.0, 0), (1.0, 60_000)])
def test_none_or_all_may_be_chosen(probability: float, count: int):
    assert draw(probability)[1].sum() == count


def test_the_seed_decides():
    assert all(torch.equal(a, b) for a, b in zip(draw(), draw(), strict=True))
    assert not torch.equal(draw()[1], draw(seed=2)[1])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("shape", [(), (7,), (0, 5), (3, 0), (2, 3, 4)], ids=str)
def test_shape_and_type_are_kept(shape: tuple, dtype: torch.dtype):
    tokens, generator = torch.ones(shape, dtype=dtype), torch.Generator().manual_seed(0)
    read, chosen = mask_tokens(tokens, mask_token=5, vocab_size=4, generator=generator, probability=0.9)
    assert (read.shape, read.dtype) == (tokens.shape, dtype)
    assert (chosen.shape, chosen.dtype) == (tokens.shape, torch.bool)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bool, torch.uint8, torch.complex64], ids=str)
def test_tokens_are_integers(dtype: torch.dtype):
    with pytest.raises(ValueError, match=f"tokens must be integers .*, got {dtype}"):
        mask_tokens(torch.ones(2, 3).to(dtype), mask_token=5, vocab_size=4, generator=torch.Generator())


def test_a_negative_mask_token_is_named():
    with pytest.raises(ValueError, match="mask_token must be at least 0, got -1"):
        mask_tokens(TOKENS, mask_token=-1, vocab_size=4, generator=torch.Generator())


@pytest.mark.parametrize(
    ("probability", "size", "message"),
    [
        (1.5, 9, "probability must lie in 0 … 1, got 1.5"),
        (float("nan"), 9, "probability must lie in 0 … 1, got nan"),
        (0.1, 0, "vocab_size must be at least 1, got 0"),
    ],
)
def test_bad_input_is_named(probability: float, size: int, message: str):
    with pytest.raises(ValueError, match=message):
        mask_tokens(TOKENS, mask_token=9, vocab_size=size, generator=torch.Generator(), probability=probability)
