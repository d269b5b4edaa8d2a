"""A Transformer beside the recurrent pair, on its own two tasks: digits backwards, and dates into ISO 8601.

Claim: of like size and with a rate chosen in the same way, both write digits backwards after 200 steps. Dates take
longer: after 400 steps the medians are alike, and one seed of the Transformer is behind. Stored are how well after how
many steps, and how long a step of training takes on one thread of a processor.

Controls: the same batches, steps, warm-up, cosine, and clipping. The rate is the best of four for each model and task,
by the mean exact match on the way, in a training of half the steps on a seed (100) that isn't reported. Steps are timed
in turn, one of each model, so that whatever else the machine does falls on both.

Seeds 0–4, for the weights at the start and the data alike; measured on unseen pairs.
"""

import time
from collections.abc import Iterator
from datetime import date
from statistics import median
from typing import Any

import torch
from torch import Generator, Tensor, nn

from experiments.store import save, spread, start
from experiments.training import ADAMW
from lib.attention import padding_mask
from lib.data import DATE_ALPHABET, date_batch, dates, reversed_digits
from lib.seq2seq import IGNORED, START, PairBatch, Seq2Seq, greedy_decode, teacher_forcing_loss
from lib.training import fit
from lib.transformer import Decoder, Encoder, count_parameters, sinusoidal_positions

SEEDS, TUNING_SEED, RATES = range(5), 100, (3e-3, 1e-2, 3e-2, 1e-1)
MODELS = ("recurrent", "transformer")
STEPS, EVERY = {"digits": 400, "dates": 400}, 50


class Translator(nn.Module):
    """Encoder and decoder of 2.1.1, two blocks each, and sinusoidal positions."""

    def __init__(self, vocab_size: int, dim: int = 40, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, dim)
        self.encoder, self.decoder = Encoder(dim, heads, layers), Decoder(dim, heads, layers)
        self.output = nn.Linear(dim, vocab_size)

    def embed(self, tokens: Tensor) -> Tensor:
        return self.embedding(tokens) + sinusoidal_positions(tokens.shape[1], self.embedding.embedding_dim)

    def forward(self, source: Tensor, target_in: Tensor, source_lengths: Tensor) -> tuple[Tensor, None]:
        mask = padding_mask(source_lengths, source.shape[1])
        memory, _ = self.encoder(self.embed(source), mask)
        return self.output(self.decoder(self.embed(target_in), memory, memory_mask=mask).output), None

    @torch.no_grad()
    def write(self, source: Tensor, steps: int, source_lengths: Tensor) -> Tensor:
        tokens = torch.full_like(source[:, :1], START)
        for _ in range(steps):
            logits, _ = self(source, tokens, source_lengths)
            tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], 1)
        return tokens[:, 1:]


def make(model: str, task: str) -> Any:
    vocab_size = 11 if task == "digits" else len(DATE_ALPHABET)
    return Seq2Seq(vocab_size, 32, 64) if model == "recurrent" else Translator(vocab_size)


def batches(task: str, seed: int, count: int = 48) -> Iterator[PairBatch]:
    generator = Generator().manual_seed(seed)
    return (reversed_digits if task == "digits" else dates)(count, generator=generator)


def write(model: Any, batch: PairBatch) -> Tensor:
    steps = batch.target.shape[1]
    if isinstance(model, Translator):
        return model.write(batch.source, steps, batch.source_lengths)
    return greedy_decode(model, batch.source, START, steps, batch.source_lengths)[0]


def exact(model: Any, batch: PairBatch) -> float:
    return ((write(model, batch) == batch.target) | (batch.target == IGNORED)).all(1).float().mean().item()


def run(seed: int, model: str, task: str, rate: float, steps: int | None = None) -> dict[str, Any]:
    """Exact match every 50 steps, and where the attending model looks in dates."""
    torch.manual_seed(seed)
    trained, test, marks = make(model, task), next(batches(task, 1000 + seed, 200)), []

    def look(step: int) -> None:
        if step and step % EVERY == 0:
            marks.append(exact(trained, test))

    recipe: Any = {"lr": rate, "warmup": 20, "clip": 1.0, "schedule": "cosine", "optimizer": ADAMW, "callback": look}
    fit(trained, batches(task, seed), teacher_forcing_loss, steps=steps or STEPS[task], **recipe)
    return {"exact": marks, **(looks(trained) if (model, task) == ("recurrent", "dates") else {})}


@torch.no_grad()
def looks(model: Seq2Seq) -> dict[str, Any]:
    """The mean place, in an English and a Chinese date, where the year and the month are read."""
    both = date_batch([date(2024, 3, 5)] * 2, ["March 5, 2024", "二〇二四年三月五日"])
    _, weights = greedy_decode(model, both.source, START, 10, both.source_lengths)
    assert weights is not None
    center = weights @ torch.arange(1.0, weights.shape[-1] + 1)
    return {"year": center[:, :4].mean(1).tolist(), "month": center[:, 5:7].mean(1).tolist()}


def milliseconds(task: str, rounds: int = 30) -> dict[str, float]:
    """The median of what a step of training takes, the models in turn."""
    models: dict[str, Any] = {model: make(model, task) for model in MODELS}
    optimizers = {model: torch.optim.AdamW(models[model].parameters(), foreach=True) for model in MODELS}
    stream, spent = batches(task, 0), {model: [] for model in MODELS}
    for _ in range(rounds):
        batch = next(stream)
        for model, optimizer in optimizers.items():
            begun = time.process_time()
            optimizer.zero_grad()
            teacher_forcing_loss(models[model], *batch).backward()
            optimizer.step()
            spent[model].append(1000 * (time.process_time() - begun))
    return {model: median(each) for model, each in spent.items()}


def main() -> None:
    start()
    found: dict[str, Any] = {"seeds": SEEDS, "steps": STEPS, "every": EVERY, "rates": RATES}
    found |= {"parameters": {}, "milliseconds": {}, "tuning": {}, "best": {}, "runs": {}}
    for task, steps in STEPS.items():
        found["milliseconds"][task] = milliseconds(task)
        print(task, found["milliseconds"][task], flush=True)
        for model in MODELS:
            key = f"{task} {model}"
            found["parameters"][key] = count_parameters(make(model, task))
            tuning = [run(TUNING_SEED, model, task, rate, steps // 2)["exact"] for rate in RATES]
            best = RATES[max(range(len(RATES)), key=lambda i: sum(tuning[i]))]
            print(key, found["parameters"][key], dict(zip(RATES, tuning, strict=True)), flush=True)
            found["tuning"][key], found["best"][key] = tuning, best
            found["runs"][key] = runs = [run(seed, model, task, best) for seed in SEEDS]
            for i, step in enumerate(range(EVERY, steps + 1, EVERY)):
                print(key, step, spread([each["exact"][i] for each in runs]), flush=True)
            save("seq2seq_transformer", found)


if __name__ == "__main__":
    main()
