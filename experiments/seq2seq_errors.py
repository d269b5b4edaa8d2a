"""Where a reversing model looks, and what becomes of a sequence once one token in it is wrong.

Claim: all models write almost every sequence of eight digits backwards, but for the one with a single vector; token by
token they are more often right when they read the answer than when they read themselves, until there are no errors. One
wrong token costs the vector model most of what follows, the attending one less, and the one that was trained on inputs
of which three tenths were random nothing; where each output rests on the one before (running sums), all stays wrong.

Controls: the noisy model and the clean one differ in the noise alone: same digits, steps and rate. The wrong digit is
each of the nine in turn.

Seeds 0–4, for the weights at the start and the digits alike; measured on unseen digits.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Generator

from experiments.store import save, start
from experiments.training import ADAMW, over_seeds
from lib.data import reversed_digits
from lib.seq2seq import START, PairBatch, Seq2Seq, greedy_decode, noisy_inputs, pair_batch, teacher_forcing_loss
from lib.training import fit

SEEDS, STEPS, MARKS = range(5), 250, range(25, 251, 25)
KINDS = ("attention", "vector", "sums", "noisy")


def running_sums(count: int, generator: Generator) -> Iterator[PairBatch]:
    """The t-th output is the last digit of the sum of the first t inputs."""
    while True:
        source = torch.randint(10, (count, 8), generator=generator)
        yield pair_batch(source.unbind(), (source.cumsum(1) % 10).unbind())


def batches(kind: str, seed: int, count: int = 64) -> Iterator[PairBatch]:
    generator = Generator().manual_seed(seed)
    if kind == "sums":
        return running_sums(count, generator)
    clean = reversed_digits(count, generator=generator)
    return noisy_inputs(clean, 0.3, generator=Generator().manual_seed(500 + seed)) if kind == "noisy" else clean


@torch.no_grad()
def with_error(model: Seq2Seq, batch: PairBatch, position: int) -> list[float]:
    """Accuracy of each step where the model reads itself, but at `position` a wrong token in place of its own."""
    memory = model.encode(batch.source)
    state, tokens, right = model.start(memory), torch.full_like(batch.source[:, 0], START), []
    shift = 1 + torch.arange(len(tokens)) % 9
    for t, answer in enumerate(batch.target.unbind(1)):
        logits, state, _ = model.step(tokens, state, memory)
        tokens = logits.argmax(-1)
        right.append((tokens == answer).float().mean().item())
        if t == position:
            tokens = (answer + shift) % 10
    return right


def run(seed: int, kind: str) -> dict[str, Any]:
    torch.manual_seed(seed)
    model = Seq2Seq(11, 32, 64, attention=kind != "vector")
    test = next(batches("sums" if kind == "sums" else "attention", 1000 + seed, 360))
    found: dict[str, Any] = {"forced": [], "free": [], "exact": [], "diagonal": []}

    def look(step: int) -> None:
        if step not in MARKS:
            return
        forced = model(test.source, test.target_in)[0].argmax(-1) == test.target
        written, alignments = greedy_decode(model, test.source, START, 8)
        right = written == test.target
        found["forced"].append(forced.float().mean().item())
        found["free"].append(right.float().mean().item())
        found["exact"].append(right.all(1).float().mean().item())
        if alignments is not None:  # the weight of each step on the place it should copy from
            found["diagonal"].append(alignments.flip(2).diagonal(dim1=1, dim2=2).mean(0).tolist())

    recipe: Any = {"lr": 1e-2, "warmup": 20, "clip": 1.0, "schedule": "cosine", "optimizer": ADAMW, "callback": look}
    fit(model, batches(kind, seed), teacher_forcing_loss, steps=STEPS, **recipe)
    found["usual"] = with_error(model, test, -1)
    found["wrong"] = [with_error(model, test, position) for position in range(7)]
    return found


def main() -> None:
    start()
    shown = {
        "exact match": lambda found: found["exact"][-1],
        "after an error at the fourth step": lambda found: sum(found["wrong"][3][4:]) / 4,
    }
    runs = over_seeds(run, SEEDS, KINDS, shown)
    save("seq2seq_errors", {"seeds": SEEDS, "marks": MARKS, "runs": runs})


if __name__ == "__main__":
    main()
