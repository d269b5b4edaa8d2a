"""Is one vector of fixed length too small for long sources, or only harder to learn from?

Claim: with one vector the share of sequences written without an error is far below that with attention after as many
steps, and at width 64 it is still rising when the training ends: part of what separates them early on is how fast they
learn. Whether one vector ends lower isn't shown.

Controls: the same digits, batches and rate (constant after warm-up, so that a mark on the way is a training that ended
there); vectors of width 64 and 128 a direction; lengths 13 to 16, which nobody trained on. For the models that come
off worse, those with one vector, three more rates are tried for 500 steps on another seed (100): the gap to attention
at one rate would say little if another rate closed it. The smallest comes out best; a smaller one wasn't tried.

Seeds 0–4, for the weights at the start and the digits alike; measured on the same unseen digits.
"""

from typing import Any

import torch
from torch import Generator, Tensor

from experiments.store import save, start
from experiments.training import ADAMW, over_seeds
from lib.data import reversed_digits
from lib.seq2seq import IGNORED, START, PairBatch, Seq2Seq, greedy_decode, pair_batch, teacher_forcing_loss
from lib.training import fit

SEEDS, LENGTHS, EACH = range(5), range(1, 17), 40
RATE, RATES, TUNING_SEED, TUNING_STEPS = 4e-3, (2e-3, 4e-3, 8e-3, 1.6e-2), 100, 500
MARKS = (125, 250, 500, 1000, 1500)
KINDS: dict[str, tuple[bool, int, int]] = {  # attention, width, steps
    "attention 64": (True, 64, 500),
    "vector 64": (False, 64, 1500),
    "vector 128": (False, 128, 500),
}


class OneVector(Seq2Seq):
    """The model without attention; its decoder's inputs are known beforehand, so it runs in one fused kernel."""

    def __init__(self, hidden: int) -> None:
        super().__init__(11, 32, hidden, attention=False)

    def forward(self, source: Tensor, target_in: Tensor, source_lengths: Any = None) -> tuple[Tensor, None]:
        context = self.encode(source, source_lengths).summary[:, None].expand(-1, target_in.shape[1], -1)
        inputs = torch.cat([self.embedding(target_in), context], -1)
        first = inputs.new_zeros(1, len(inputs), self.decoder.hidden_size)
        weights: list[Tensor] = list(self.decoder.parameters())
        states, _ = torch.gru(inputs, first, weights, True, 1, 0.0, self.training, False, True)
        return self.output(torch.cat([states, context], -1)), None


def make(attention: bool, hidden: int) -> Seq2Seq:
    return Seq2Seq(11, 32, hidden) if attention else OneVector(hidden)


def unseen() -> PairBatch:
    """`EACH` sources of each length."""
    generator = Generator().manual_seed(1000)
    rows = [torch.randint(10, (length,), generator=generator) for length in LENGTHS for _ in range(EACH)]
    return pair_batch(rows, [row.flip(0) for row in rows])


def exact_by_length(model: Seq2Seq, test: PairBatch) -> list[float]:
    """Share of sources of each length that are written without an error."""
    written, _ = greedy_decode(model, test.source, START, test.target.shape[1], test.source_lengths)
    right = ((written == test.target) | (test.target == IGNORED)).all(1)
    return right.view(len(LENGTHS), EACH).float().mean(1).tolist()


def run(seed: int, kind: str, steps: int | None = None, rate: float = RATE) -> list[list[float]]:
    """Exact match at each mark and length."""
    attention, hidden, most = KINDS[kind]
    steps = steps or most
    torch.manual_seed(seed)
    model, test, found = make(attention, hidden), unseen(), []

    def look(step: int) -> None:
        if step in MARKS:
            found.append(exact_by_length(model, test))

    batches = reversed_digits(48, generator=Generator().manual_seed(seed), lengths=(1, 12))
    options: Any = {"steps": steps, "lr": rate, "warmup": 20, "clip": 1.0, "optimizer": ADAMW, "callback": look}
    fit(model, batches, teacher_forcing_loss, **options)
    return found


def main() -> None:
    start()
    shown = {"exact at length 8": lambda found: found[-1][7], "exact at length 12": lambda found: found[-1][11]}
    runs = over_seeds(run, SEEDS, KINDS, shown)
    tuning = {
        kind: [run(TUNING_SEED, kind, TUNING_STEPS, rate) for rate in RATES]
        for kind, (attention, _, _) in KINDS.items()
        if not attention
    }
    found: dict[str, Any] = {"seeds": SEEDS, "marks": MARKS, "lengths": LENGTHS, "rates": RATES, "tuning": tuning}
    save("bottleneck", {**found, "runs": runs})


if __name__ == "__main__":
    main()
