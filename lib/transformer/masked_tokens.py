"""BERT's exercise: some tokens are hidden or swapped, and the model is to say what stood there."""

import torch
from torch import Generator, Tensor

from lib.checks import check_at_least


def mask_tokens(
    tokens: Tensor, *, mask_token: int, vocab_size: int, generator: Generator, probability: float = 0.15
) -> tuple[Tensor, Tensor]:
    """Choose tokens at random for the model to predict, and hide most of them.

    Of the chosen ones 80 % become `mask_token`, 10 % a token drawn from 0 … `vocab_size` − 1, and 10 % stay as they
    are. The loss counts the chosen ones only, with `tokens` as the target.

    Args:
        tokens: integers (int32 or int64) of any shape; never modified.
        mask_token: the token that stands for [MASK].
        vocab_size: number of tokens that may be drawn.
        generator: source of the random draws.
        probability: of choosing a token, each by itself.

    Returns:
        What the model reads and which tokens were chosen (boolean), both of the shape of `tokens`.

    Raises:
        ValueError: tokens are no integers, or a number lies outside its range.

    Source: Devlin et al. 2019, §3.1; its code chooses exactly 15 % of each sequence.

    >>> read, chosen = mask_tokens(torch.arange(9), mask_token=9, vocab_size=9, generator=torch.Generator())
    >>> bool((read == torch.arange(9))[~chosen].all())
    True
    """
    if tokens.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"tokens must be integers (int32 or int64), got {tokens.dtype}")
    if not 0 <= probability <= 1:
        raise ValueError(f"probability must lie in 0 … 1, got {probability}")
    check_at_least(0, mask_token=mask_token)
    check_at_least(1, vocab_size=vocab_size)

    def draw() -> Tensor:
        return torch.rand(tokens.shape, generator=generator, device=tokens.device)

    chosen, fate = draw() < probability, draw()
    other = torch.randint(vocab_size, tokens.shape, generator=generator, device=tokens.device, dtype=tokens.dtype)
    read = tokens.masked_fill(chosen & (fate < 0.8), mask_token)
    read = torch.where(chosen & (fate >= 0.9), other, read)
    return read, chosen
