"""Which positions still work beyond the length trained on?

Claim: two layers of a decoder, trained on 16 tokens to name the token before each, and tested on 64. Learned positions
and sinusoidal ones fail soon after 16, RoPE later, ALiBi last; with a causal mask alone the task is learned in part.
The task asks for the nearest token, which ALiBi favours: nothing is said of tasks that look far back.

Seeds 0–4, for the weights at the start and for the batches; the test sequences are the same for all.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy

from experiments.store import save, spread, start
from experiments.training import ADAMW, first_losses, tens
from lib.attention import MultiHeadAttention
from lib.training import fit
from lib.transformer import Decoder, LearnedPositions, RotaryAttention, alibi_bias, sinusoidal_positions

SEEDS, STEPS, LENGTH, LONGEST = range(5), 300, 16, 64
KINDS = ("sinusoidal", "learned", "rope", "alibi", "none")


class Recaller(nn.Module):
    """Names the token before each."""

    def __init__(self, kind: str, dim: int = 32) -> None:
        super().__init__()
        self.kind = kind
        self.embed, self.answer = nn.Embedding(8, dim), nn.Linear(dim, 8)
        attention = RotaryAttention if kind == "rope" else MultiHeadAttention
        self.stack = Decoder(dim, 4, 2, cross_attention=False, attention=attention)
        self.table = LearnedPositions(LONGEST, dim)  # training uses its first 16 rows

    def forward(self, tokens: Tensor) -> Tensor:
        x, length = self.embed(tokens), tokens.shape[1]
        if self.kind == "sinusoidal":
            x = x + sinusoidal_positions(length, x.shape[-1])
        if self.kind == "learned":
            x = x + self.table(length)
        bias = alibi_bias(4, length) if self.kind == "alibi" else None
        return self.answer(self.stack(x, bias=bias).output)


def recall_loss(model: Recaller, tokens: Tensor) -> Tensor:
    return cross_entropy(model(tokens)[:, 1:].flatten(0, 1), tokens[:, :-1].flatten())


def random_tokens(seed: int, count: int, length: int) -> Iterator[tuple[Tensor]]:
    generator = Generator().manual_seed(seed)
    while True:
        yield (torch.randint(8, (count, length), generator=generator),)


def prepare(seed: int, kind: str) -> tuple[Recaller, dict[str, Any]]:
    """The model, and what `fit` needs besides it."""
    torch.manual_seed(seed)
    model = Recaller(kind)
    options = {"steps": STEPS, "lr": 1e-2, "schedule": "cosine", "optimizer": ADAMW}
    return model, {"batches": random_tokens(seed, 32, LENGTH), "loss": recall_loss, **options}


def run(seed: int, kind: str) -> list[float]:
    """Share of right answers at each place but the first, 1 … 63."""
    model, options = prepare(seed, kind)
    fit(model, **options)
    (test,) = next(random_tokens(999, 300, LONGEST))
    with torch.no_grad():
        return (model(test)[:, 1:].argmax(-1) == test[:, :-1]).float().mean(0).tolist()


def early(kind: str) -> list[float]:
    """Loss of seed 0, a mean of each ten of the first forty steps."""
    model, options = prepare(0, kind)
    return tens(first_losses(model, count=40, **options))


def main() -> None:
    start()
    runs: dict[str, Any] = {}
    for kind in KINDS:
        runs[kind] = [run(seed, kind) for seed in SEEDS]
        for low, high in ((0, 15), (15, 31), (47, 63)):
            print(kind, low + 1, high, spread([sum(hits[low:high]) / (high - low) for hits in runs[kind]]), flush=True)
    save(
        "transformer_lengths",
        {"seeds": SEEDS, "steps": STEPS, "early": {kind: early(kind) for kind in KINDS}, "runs": runs},
    )


if __name__ == "__main__":
    main()
