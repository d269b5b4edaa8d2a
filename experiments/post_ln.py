"""Does a deep Post-LN stack learn, and does warm-up help it?

Claim: twelve layers of Post-LN, told to sort six digits in 400 steps at a rate of 0.001, learn it for every seed with
200 steps of warm-up; without, three of five are on the way and two go by the position alone. At 0.004 all stay at
guessing without warm-up, and with it three get no further than the position: the rate has to fit as well.

Controls: Pre-LN of the same depth and Post-LN of two layers at 0.004 without warm-up, on the same digits. A model that
ignores its input and goes by the position alone gets down to a loss of 1.242; guessing is ln 6 = 1.792.

Seeds 0–4, for the weights at the start and the digits alike; measured on unseen digits.
"""

from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy

from experiments.store import save, start
from experiments.training import ADAMW, over_seeds, tens
from lib.training import fit
from lib.transformer import Encoder, sinusoidal_positions

SEEDS, STEPS = range(5), 400
RECIPES: dict[str, tuple[Literal["pre", "post"], int, float, int]] = {  # where the norm is, layers, rate, warm-up
    "pre 12": ("pre", 12, 4e-3, 0),
    "post 12": ("post", 12, 4e-3, 0),
    "post 12 warm": ("post", 12, 4e-3, 200),
    "post 12 slow": ("post", 12, 1e-3, 0),
    "post 12 slow warm": ("post", 12, 1e-3, 200),
    "post 2": ("post", 2, 4e-3, 0),
}


class Sorter(nn.Module):
    """Sorts six digits below six."""

    def __init__(self, norm: Literal["pre", "post"], layers: int, dim: int = 32) -> None:
        super().__init__()
        self.embed, self.answer = nn.Embedding(6, dim), nn.Linear(dim, 6)
        self.stack = Encoder(dim, 4, layers, norm=norm)
        for weight in self.stack.parameters():
            if weight.ndim == 2:
                nn.init.xavier_uniform_(weight)

    def forward(self, digits: Tensor) -> Tensor:
        return self.answer(self.stack(self.embed(digits) + sinusoidal_positions(6, 32))[0])


def digit_batches(seed: int, count: int = 16) -> Iterator[tuple[Tensor, Tensor]]:
    generator = Generator().manual_seed(seed)
    while True:
        digits = torch.randint(6, (count, 6), generator=generator)
        yield digits, digits.sort(1).values


def sorting_loss(model: Sorter, digits: Tensor, target: Tensor) -> Tensor:
    return cross_entropy(model(digits).flatten(0, 1), target.flatten())


def prepare(seed: int, recipe: str) -> tuple[Sorter, dict[str, Any]]:
    """The model, and what `fit` needs besides it."""
    norm, layers, lr, warmup = RECIPES[recipe]
    torch.manual_seed(seed)
    model = Sorter(norm, layers)
    options = {"steps": STEPS, "lr": lr, "warmup": warmup, "schedule": "cosine", "optimizer": ADAMW}
    return model, {"batches": digit_batches(seed), "loss": sorting_loss, **options}


def run(seed: int, recipe: str) -> dict[str, Any]:
    """The loss, a mean of each ten steps; and that on unseen digits at the end."""
    model, options = prepare(seed, recipe)
    history = fit(model, **options)
    with torch.no_grad():
        test = next(digit_batches(1000 + seed, 1000))
        return {"loss": tens(history), "test": sorting_loss(model, *test).item()}


def main() -> None:
    start()
    runs = over_seeds(run, SEEDS, RECIPES, {"loss on unseen digits": lambda found: found["test"]})
    save("post_ln", {"seeds": SEEDS, "steps": STEPS, "runs": runs})


if __name__ == "__main__":
    main()
