"""Pretraining: predict the next token of a text, in windows of it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import AdamW

from lib.checks import check_at_least
from lib.gpt.model import MiniGPT
from lib.training import fit

Pairs = tuple[Tensor, Tensor]


def next_token_loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean negative log likelihood of the next token, at all positions at once (teacher forcing).

        L = −(1/N) Σ log p(x_t | x_<t)

    Args:
        model: gives logits (batch, time, vocab_size) for tokens (batch, time).
        inputs: (batch, time).
        targets: (batch, time) integers, the inputs moved on by one; −100 where nothing is to be predicted.

    Returns:
        0-d, in nats a token, in float32 at least.

    Raises:
        ValueError: there is no token, or targets don't have the shape of inputs.

    Source: Bengio et al. 2003, §2.

    >>> even = nn.Embedding.from_pretrained(torch.zeros(8, 8))
    >>> next_token_loss(even, torch.tensor([[3, 1]]), torch.tensor([[1, 4]])).exp()
    tensor(8.)
    """
    if inputs.shape != targets.shape or not targets.numel():
        shapes = f"{tuple(inputs.shape)} and {tuple(targets.shape)}"
        raise ValueError(f"inputs and targets must be of one shape, with at least one token, got {shapes}")
    logits = model(inputs).flatten(0, -2)  # (batch · time, vocab_size)
    wide = torch.promote_types(logits.dtype, torch.float32)
    return cross_entropy(logits.to(wide), targets.flatten().long())


def text_windows(tokens: Tensor, length: int) -> Pairs:
    """Return all windows of a text, one for each start: inputs, and targets moved on by one.

    Args:
        tokens: (time,), the whole text.
        length: tokens a window.

    Returns:
        Inputs and targets, (time − length, length) each.

    Raises:
        ValueError: tokens are not a vector, or `length` is not within 1 … time − 1.

    >>> inputs, targets = text_windows(torch.tensor([3, 1, 4, 1, 5]), length=3)
    >>> inputs.tolist(), targets.tolist()
    ([[3, 1, 4], [1, 4, 1]], [[1, 4, 1], [4, 1, 5]])
    """
    if tokens.ndim != 1:
        raise ValueError(f"tokens must be (time,), got {tuple(tokens.shape)}")
    if not 1 <= length < len(tokens):
        raise ValueError(f"length must lie in 1 … {len(tokens) - 1}, one less than the tokens, got {length}")
    windows = tokens.unfold(0, length + 1, 1)
    return windows[:, :-1], windows[:, 1:]


def window_batches(
    tokens: Tensor, length: int, batch_size: int, *, generator: Generator, oversample: Sequence[int] = ()
) -> Iterator[Pairs]:
    """Return shuffled batches of a text's windows without end, each window once an epoch.

    Args:
        tokens: (time,), the whole text.
        length: tokens a window.
        batch_size: windows a batch; the last of an epoch may be smaller.
        generator: source of the random draws.
        oversample: starts of windows that come once more an epoch, for each time they are named here.

    Raises:
        ValueError: as in `text_windows`; `batch_size` is below 1; no window starts where `oversample` says.

    >>> batches = window_batches(torch.arange(20), 4, 8, generator=torch.Generator().manual_seed(0))
    >>> inputs, targets = next(batches)
    >>> inputs.shape, torch.equal(targets, inputs + 1)
    (torch.Size([8, 4]), True)
    """
    inputs, targets = text_windows(tokens, length)
    check_at_least(1, batch_size=batch_size)
    if any(not 0 <= start < len(inputs) for start in oversample):
        raise ValueError(f"oversample must lie in 0 … {len(inputs) - 1}, got {list(oversample)}")
    starts = torch.tensor([*range(len(inputs)), *oversample])
    return _shuffled_batches(inputs, targets, starts, batch_size, generator)


def _shuffled_batches(
    inputs: Tensor, targets: Tensor, starts: Tensor, batch_size: int, generator: Generator
) -> Iterator[Pairs]:
    while True:
        for batch in starts[torch.randperm(len(starts), generator=generator)].split(batch_size):
            yield inputs[batch], targets[batch]


def pretrain(
    model: nn.Module,
    batches: Iterable[Pairs],
    *,
    steps: int,
    lr: float = 1e-2,
    callback: Callable[[int], object] | None = None,
    label: str = "",
) -> list[float]:
    """Train a small language model in few steps.

    AdamW with β = (0.9, 0.95) and no weight decay; the learning rate is warmed up over a tenth of the steps (20 at
    most) and then lowered along a cosine; gradients are clipped to a norm of 1.

    Args:
        model: trained in place.
        batches: inputs and targets (batch, time), as of `window_batches`.
        steps: number of updates.
        lr: learning rate, after warm-up.
        callback, label: as in `lib.training.fit`.

    Returns:
        The loss of each step, in nats a token.

    Raises:
        ValueError, FloatingPointError: as in `lib.training.fit`.

    >>> batches = window_batches(torch.arange(40) % 5, 8, 16, generator=torch.Generator().manual_seed(0))
    >>> losses = pretrain(nn.Embedding(5, 5), batches, steps=60, lr=0.5)
    >>> losses[0] > 1, losses[-1] < 0.1
    (True, True)
    """
    optimizer = partial(AdamW, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    return fit(
        model,
        batches,
        next_token_loss,
        steps=steps,
        lr=lr,
        optimizer=optimizer,
        warmup=min(20, steps // 10),
        schedule="cosine",
        clip=1.0,
        callback=callback,
        label=label,
    )


def learn_by_heart(
    model: MiniGPT,
    verses: Sequence[Sequence[int]],
    *,
    steps: int = 120,
    batch_size: int = 16,
    generator: Generator,
    callback: Callable[[int], object] | None = None,
    label: str = "",
) -> list[float]:
    """Train a model on a few verses, joined in one text, until it can say them.

    Windows are as long as the model's context. Those that start where a verse does, and the last, which alone
    holds the end, come three times as often as others.

    Args:
        model: trained in place.
        verses: token numbers of each.
        steps, batch_size: number of updates, and windows in each.
        generator: source of the random draws.
        callback, label: as in `lib.training.fit`.

    Returns:
        The loss of each step, in nats a token.

    Raises:
        ValueError: all verses together are no longer than the context, or a number is below 1.

    >>> from lib.gpt import GPTConfig, MiniGPT, generate
    >>> _ = torch.manual_seed(0)
    >>> model = MiniGPT(GPTConfig(vocab_size=9, context_length=4, dim=32, layers=1, heads=2))
    >>> verses = [[0, 2, 4, 6], [1, 3, 5, 7]]
    >>> losses = learn_by_heart(model, verses, steps=60, generator=torch.Generator().manual_seed(0))
    >>> generate(model, torch.tensor([[0], [1]]), 3, temperature=0).tolist() == verses
    True
    """
    tokens = torch.tensor([token for verse in verses for token in verse])
    length = model.config.context_length
    starts = [0, *accumulate(len(verse) for verse in verses)][:-1]
    last = len(tokens) - length - 1
    oversample = 2 * [*(start for start in starts if start <= last), last]
    batches = window_batches(tokens, length, batch_size, generator=generator, oversample=oversample)
    return pretrain(model, batches, steps=steps, callback=callback, label=label)
