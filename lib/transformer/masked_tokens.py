"""BERT's exercise: some tokens are hidden or swapped, and the model is to say what stood there."""

import torch
from torch import Generator, Tensor


def mask_tokens(
    tokens: Tensor, *, mask_token: int, vocab_size: int, generator: Generator, share: float = 0.15
) -> tuple[Tensor, Tensor]:
    """Choose tokens at random for the model to predict, and make them hard to read.

    Of the chosen ones 80 % become `mask_token`, 10 % a token drawn at random (which may be the same again),
    and 10 % stay as they are. The loss counts the chosen ones only, with `tokens` as the target.

    Args:
        tokens: integers of any shape; never modified.
        mask_token: the token that stands for [MASK].
        vocab_size: random tokens are drawn from 0 … `vocab_size` − 1.
        generator: source of the random draws.
        share: probability with which each token is chosen, by itself; the paper's code chooses exactly
            this share of each sequence.

    Returns:
        What the model reads and which tokens were chosen (boolean), both of the shape of `tokens`.

    Raises:
        ValueError: `share` lies outside 0 … 1, or `vocab_size` is below 1.

    Source: Devlin et al. 2019, §3.1.

    >>> tokens = torch.arange(1000) % 7
    >>> seen, chosen = mask_tokens(tokens, mask_token=7, vocab_size=7, generator=torch.Generator().manual_seed(0))
    >>> bool((seen == tokens)[~chosen].all())
    True
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share must lie in 0 … 1, got {share}")
    if vocab_size < 1:
        raise ValueError(f"vocab_size must be at least 1, got {vocab_size}")

    def draw() -> Tensor:
        return torch.rand(tokens.shape, generator=generator, device=tokens.device)

    chosen, fate = draw() < share, draw()
    other = torch.randint(vocab_size, tokens.shape, generator=generator, device=tokens.device)
    seen = tokens.masked_fill(chosen & (fate < 0.8), mask_token)
    return torch.where(chosen & (fate >= 0.9), other, seen), chosen
