"""Pretraining: what a window is, how windows are shuffled, what the loss counts, and verses learned by heart."""

import math
from collections import Counter
from itertools import islice

import pytest
import torch
from torch import Generator, Tensor, nn

from lib.data import poems_by_heart
from lib.gpt import (
    CharTokenizer,
    GPTConfig,
    MiniGPT,
    generate,
    learn_by_heart,
    next_token_loss,
    pretrain,
    text_windows,
    window_batches,
)

TEXT = torch.arange(20)  # a token is its own place


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def starts(batches: int, **options) -> list[int]:
    settings = {"length": 4, "batch_size": 6, "generator": seeded()} | options
    return [start for inputs, _ in islice(window_batches(TEXT, **settings), batches) for start in inputs[:, 0].tolist()]


def test_the_loss_is_the_mean_negative_log_likelihood_of_the_next_token():
    torch.manual_seed(0)
    model, inputs, targets = nn.Embedding(7, 7), torch.randint(7, (3, 5)), torch.randint(7, (3, 5))
    log_p = model(inputs).log_softmax(-1)
    expected = -sum(log_p[b, t, targets[b, t]] for b in range(3) for t in range(5)) / 15
    torch.testing.assert_close(next_token_loss(model, inputs, targets), expected)


def test_windows_start_everywhere_and_targets_are_one_on():
    inputs, targets = text_windows(TEXT, 4)
    assert inputs.shape == (16, 4)
    assert torch.equal(inputs, torch.arange(16)[:, None] + torch.arange(4))
    assert torch.equal(targets, inputs + 1)


@pytest.mark.parametrize("length", [0, 20, -1])
def test_a_window_must_fit_the_text(length: int):
    with pytest.raises(ValueError, match=f"length must lie in 1 … 19, one less than the tokens, got {length}"):
        text_windows(TEXT, length)


def test_a_text_is_a_vector():
    with pytest.raises(ValueError, match=r"tokens must be \(time,\), got \(2, 10\)"):
        text_windows(TEXT.view(2, 10), 4)


def test_each_window_comes_once_an_epoch():
    assert sorted(starts(3)) == list(range(16))
    assert starts(3) != list(range(16))
    assert Counter(starts(6)) == dict.fromkeys(range(16), 2)


def test_some_come_more_often():
    assert Counter(starts(3, oversample=[3, 3])) == dict.fromkeys(range(16), 1) | {3: 3}


def test_the_seed_decides():
    assert starts(3) == starts(3)
    assert starts(3) != starts(3, generator=seeded(1))


@pytest.mark.parametrize("start", [-1, 16])
def test_where_no_window_starts_none_comes_more_often(start: int):
    with pytest.raises(ValueError, match=rf"oversample must lie in 0 … 15, got \[{start}\]"):
        starts(1, oversample=[start])


def test_a_batch_needs_a_window():
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        starts(1, batch_size=0)


def test_the_loss_falls_to_what_the_text_leaves_open():
    """Two tokens drawn by a coin after each: nothing better than log 2 can be learned."""
    text = torch.randint(2, (2000,), generator=seeded())
    torch.manual_seed(0)
    model = MiniGPT(GPTConfig(vocab_size=4, context_length=4, dim=16, layers=1, heads=2))
    losses = pretrain(model, window_batches(text, 4, 64, generator=seeded()), steps=80)
    assert losses[0] == pytest.approx(math.log(4), abs=0.1)
    assert sum(losses[-20:]) / 20 == pytest.approx(math.log(2), abs=0.03)


def test_the_callback_sees_each_step():
    model = MiniGPT(GPTConfig(vocab_size=20, context_length=4, dim=8, layers=1, heads=2))
    seen: list[int] = []
    pretrain(model, window_batches(TEXT, 4, 6, generator=seeded()), steps=3, callback=seen.append)
    assert seen == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", [0, 1])
def test_quatrains_are_learned_by_heart(seed: int):
    verses = [poem.text for poem in poems_by_heart("zh")]
    tokenizer = CharTokenizer("".join(verses))
    torch.manual_seed(seed)
    model = MiniGPT(GPTConfig(tokenizer.vocab_size, context_length=16, dim=64, layers=2, heads=4))
    learn_by_heart(model, [tokenizer.encode(verse) for verse in verses], generator=seeded(seed))

    def recite(first: str) -> Tensor:
        return generate(model, torch.tensor([tokenizer.encode(first)]), 23, temperature=0)[0]

    assert [tokenizer.decode(recite(verse[0]).tolist()) for verse in verses] == verses
    windows = text_windows(torch.tensor(tokenizer.encode("".join(verses))), 16)
    assert next_token_loss(model, *windows) < 0.1
