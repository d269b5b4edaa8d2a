"""How large should a model be for a budget of compute, and can smaller budgets tell?

Claim: for each of five budgets, three times apart, the loss against the size is a U whose lowest point moves to larger
models. The four smaller ones, by a power law, say within a fifth what size is best for the largest, which is held out;
a power law of the losses says too high a loss for it, for every seed.

Controls: the language has no end, so nothing is trained on twice but what is asked twice by chance; sizes of one budget
differ in nothing but size and, therefore, steps; of the same four learning rates each takes the one that was best on a
seed of its own; the language is noiseless, so that its floor, 0, is known and not fitted; the loss is the expectation
over the whole language. Against the power law of the losses stands a straight line over the logarithm of compute.

Compute is 6 N D, with N the weights that are multiplied and D the tokens. Seeds 0–4, for weights and questions alike.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy

from experiments.store import save, spread, start
from lib.gpt import GPTConfig, MiniGPT, training_flops
from lib.training import fit

SEEDS, TUNING_SEED = range(5), 100
RATES = (1.7e-3, 5e-3, 1.5e-2, 4.5e-2)
VOCABULARY, BATCH = 128, 64
WIDTHS = {  # of the models that get a budget of so many operations
    2.5e8: (4, 6, 8, 12, 16),
    7.5e8: (4, 6, 8, 12, 16),
    2.25e9: (6, 8, 12, 16, 24),
    6.75e9: (8, 12, 16, 24, 32),
    2.025e10: (12, 16, 24, 32, 48),
}

_generator = Generator().manual_seed(0)
QUESTIONS = torch.cartesian_prod(*[torch.arange(VOCABULARY)] * 2)
ANSWERS = torch.randint(VOCABULARY, (VOCABULARY**2,), generator=_generator)
FREQUENCY = 1 / (torch.randperm(VOCABULARY**2, generator=_generator) + 1.0)  # Zipf
FREQUENCY /= FREQUENCY.sum()


def weights_multiplied(width: int) -> int:
    """The matrices of one block, and the table of embeddings in its use as the output."""
    return 12 * width**2 + VOCABULARY * width


def steps_for(budget: float, width: int) -> int:
    """How many batches of questions, two tokens each, the budget pays for."""
    return round(budget / training_flops(weights_multiplied(width), 2 * BATCH))


def quizzes(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    generator = Generator().manual_seed(seed)
    while True:
        for asked in torch.multinomial(FREQUENCY, 50 * BATCH, True, generator=generator).split(BATCH):
            yield QUESTIONS[asked], ANSWERS[asked]


def quiz_loss(model: MiniGPT, question: Tensor, answer: Tensor) -> Tensor:
    return cross_entropy(model(question)[:, -1], answer)


def run(seed: int, budget: float, width: int, rate: float) -> float:
    """Train a model until the budget is spent; its expected loss over the whole language."""
    torch.manual_seed(seed)
    model = MiniGPT(GPTConfig(VOCABULARY, context_length=2, dim=width, layers=1, heads=2))
    steps = steps_for(budget, width)
    adamw: Any = partial(torch.optim.AdamW, fused=True)  # all parameters at once, faster
    options: Any = {"lr": rate, "warmup": steps // 10, "schedule": "cosine", "clip": 1.0, "optimizer": adamw}
    fit(model, quizzes(seed), quiz_loss, steps=steps, **options)
    with torch.no_grad():
        each = cross_entropy(model(QUESTIONS)[:, -1], ANSWERS, reduction="none")
    return (FREQUENCY * each).sum().item()


def tuned(cell: tuple[float, int]) -> dict[str, Any]:
    """A budget and a width: the loss of each rate on the seed for tuning, and of the best rate on all seeds."""
    start()
    budget, width = cell
    tuning = [run(TUNING_SEED, budget, width, rate) for rate in RATES]
    rate = RATES[tuning.index(min(tuning))]
    losses = [run(seed, budget, width, rate) for seed in SEEDS]
    size = weights_multiplied(width)
    tokens = 2 * BATCH * steps_for(budget, width)
    return {
        "budget": budget,
        "width": width,
        "size": size,
        "tokens": tokens,
        "tuning": tuning,
        "rate": rate,
        "loss": losses,
    }


def main() -> None:
    cells = [cell for budget, widths in reversed(WIDTHS.items()) for cell in product([budget], widths)]
    with ProcessPoolExecutor(2) as pool:
        found = []
        for each in pool.map(tuned, cells):
            found.append(each)
            print(f"{each['budget']:.1e}, {each['size']} weights: {spread(each['loss'])} {each['rate']}", flush=True)
    save("isoflop", {"seeds": SEEDS, "rates": RATES, "runs": found[::-1]})


if __name__ == "__main__":
    main()
