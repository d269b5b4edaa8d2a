"""Pretraining: what a window is, how windows are shuffled, what the loss counts, and verses learned by heart."""

import copy
import itertools
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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_the_loss_of_half_precision_is_averaged_in_float32(dtype: torch.dtype):
    torch.manual_seed(0)
    model, tokens = nn.Embedding(50, 50), torch.randint(50, (4, 99))
    low = copy.deepcopy(model).to(dtype)
    loss = next_token_loss(low, tokens, tokens)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, next_token_loss(copy.deepcopy(low).float(), tokens, tokens))


def test_the_loss_under_autocast_is_in_float32_and_can_be_trained():
    torch.manual_seed(0)
    model = MiniGPT(GPTConfig(vocab_size=20, context_length=19, dim=16, layers=1, heads=2))
    windows = text_windows(TEXT, 19)
    with torch.autocast("cpu", torch.bfloat16):
        loss = next_token_loss(model, *windows)
    loss.backward()
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, next_token_loss(model, *windows), atol=0.02, rtol=0)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_targets_of_minus_100_and_of_32_bits():
    torch.manual_seed(0)
    model, inputs, targets = nn.Embedding(7, 7), torch.randint(7, (3, 5)), torch.randint(7, (3, 5))
    skipped = targets.masked_fill(torch.arange(5) > 2, -100).int()
    expected = next_token_loss(model, inputs[:, :3], targets[:, :3])
    torch.testing.assert_close(next_token_loss(model, inputs, skipped), expected)


@pytest.mark.parametrize(
    ("inputs", "targets"), [((2, 6), (3, 4)), ((2, 6), (2, 5)), ((0, 3), (0, 3)), ((2, 0), (2, 0))]
)
def test_a_target_for_each_input_and_at_least_one(inputs: tuple[int, int], targets: tuple[int, int]):
    shapes = rf"got \({inputs[0]}, {inputs[1]}\) and \({targets[0]}, {targets[1]}\)"
    with pytest.raises(ValueError, match=f"of one shape, with at least one token, {shapes}"):
        next_token_loss(nn.Embedding(7, 7), torch.zeros(inputs).long(), torch.zeros(targets).long())


def test_the_derivative_of_the_loss():
    tokens, targets = torch.tensor([[0, 3, 1]]), torch.tensor([[3, 1, -100]])

    class Table(nn.Module):
        def __init__(self, logits: Tensor) -> None:
            super().__init__()
            self.logits = logits

        def forward(self, tokens: Tensor) -> Tensor:
            return self.logits[tokens]

    def loss(logits: Tensor) -> Tensor:
        return next_token_loss(Table(logits), tokens, targets)

    torch.manual_seed(0)
    assert torch.autograd.gradcheck(loss, (torch.randn(4, 5, dtype=torch.float64, requires_grad=True),))


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


class Slope(nn.Module):
    """Logits whose loss has the same gradient everywhere near 0, of a given norm."""

    def __init__(self, norm: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.3]))
        self.norm = norm

    def forward(self, tokens: Tensor) -> Tensor:
        return torch.stack([torch.zeros(tokens.shape), self.norm * self.weight.expand(tokens.shape)], -1)


def adamw_by_hand(weight: float, gradients: list[float], rates: list[float]) -> list[float]:
    """Algorithm 2 of Loshchilov & Hutter 2019 with β = (0.9, 0.95), without decay."""
    first = second = 0.0
    weights = [weight]
    for t, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), 1):
        first = 0.9 * first + 0.1 * gradient
        second = 0.95 * second + 0.05 * gradient**2
        weight -= rate * first / (1 - 0.9**t) / (math.sqrt(second / (1 - 0.95**t)) + 1e-8)
        weights.append(weight)
    return weights


@pytest.mark.parametrize(("steps", "warmup"), [(7, 0), (12, 1), (40, 4), (300, 20)])
@pytest.mark.parametrize("norm", [0.5, 40.0])
def test_the_recipe_is_adamw_on_clipped_gradients_with_warmup_and_cosine(steps: int, warmup: int, norm: float):
    model = Slope(norm)
    batches = itertools.cycle([(torch.zeros(1, 1).long(), torch.full((1, 1), target)) for target in (1, 0, 0)])
    weights: list[float] = []
    pretrain(model, batches, steps=steps, lr=0.02, callback=lambda step: weights.append(model.weight.item()))

    targets = itertools.cycle((1, 0, 0))
    slopes = [norm * (1 / (1 + math.exp(-norm * weight)) - next(targets)) for weight in weights[:-1]]
    clipped = [slope / max(1, abs(slope)) for slope in slopes]
    rates = [
        0.02
        * ((step + 1) / warmup if step < warmup else (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2)
        for step in range(steps)
    ]
    assert (max(map(abs, slopes)) > 1) is (norm > 1)
    assert weights == pytest.approx(adamw_by_hand(0.3, clipped, rates), abs=2e-4)


@pytest.mark.parametrize("verses", [[], [[]], [[1, 2]]])
def test_too_little_to_learn_is_refused(verses: list[list[int]]):
    model = MiniGPT(GPTConfig(vocab_size=9, context_length=4, dim=8, layers=1, heads=2))
    with pytest.raises(ValueError, match="length must lie in"):
        learn_by_heart(model, verses, generator=seeded())


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
