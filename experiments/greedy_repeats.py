"""How often does a small language model repeat itself, by the way its tokens are chosen?

Claim: after 60 steps, written greedily, about two thirds of the pieces stood there before; hardly any when sampled at
a temperature of 0.5 and above, for every seed; one character a couplet drawn at random, the rest greedy, leaves about a
third of it. After 240 steps the poems are known by heart: all greedy pieces stand in them, and nothing repeats within
120 characters, however tokens are chosen. Greedy comes back to where it was there too, since a window has finitely
many contents; the circle is as long as the text.

Controls: the poems it learned from, cut into pieces of the same length; and greedy with the first character of each
couplet drawn. Measured is the share of pieces of four characters that stood before, in 120 characters from each of
eight first characters; the share of the greedy pieces that stand in the poems, as read in training, from the last
back to the first; and in what period the end of a long greedy text repeats itself.

Seeds 0–4, for the weights at the start, the batches and the draws alike.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Generator, Tensor

from experiments.store import save, spread, start
from lib.data import poems
from lib.gpt import CharTokenizer, GPTConfig, MiniGPT, generate, pretrain, text_windows

SEEDS, STEPS = range(5), (60, 240)
OPENERS = "春白红床月山江夜"
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "0.25": {"temperature": 0.25},
    "0.5": {"temperature": 0.5},
    "0.75": {"temperature": 0.75},
    "1": {},
    "top-p 0.9": {"top_p": 0.9},
}
BOOK = "".join(poem.text for poem in poems("zh") if all(len(line) == 12 for line in poem.lines))
LETTERS = CharTokenizer(BOOK)
LONG = {60: 1200, 240: 5000}  # characters in which the circle is looked for


def couplets(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Windows of two couplets, from the beginning of one."""
    generator = Generator().manual_seed(seed)
    inputs, targets = (part[::12] for part in text_windows(torch.tensor(LETTERS.encode(BOOK + BOOK[:24])), 24))
    while True:
        chosen = torch.randperm(len(inputs), generator=generator)[:34]
        yield inputs[chosen], targets[chosen]


def repeated_share(row: Tensor, n: int = 4) -> float:
    """The share of pieces of `n` tokens that stood before."""
    pieces = row.unfold(0, n, 1)
    return 1 - len(pieces.unique(dim=0)) / len(pieces)


def mean_share(rows: Tensor) -> float:
    return sum(map(repeated_share, rows)) / len(rows)


def share_from_the_book(rows: Tensor, n: int = 4) -> float:
    """The share of pieces of `n` tokens that stand in the poems, read as a circle."""
    known = {(BOOK + BOOK[: n - 1])[i : i + n] for i in range(len(BOOK))}
    lines = [LETTERS.decode(row) for row in rows.tolist()]
    pieces = [line[i : i + n] for line in lines for i in range(len(line) - n + 1)]
    return sum(piece in known for piece in pieces) / len(pieces)


def period(row: Tensor) -> int:
    """The least period of the last half of a text; 0 if it is longer than that half."""
    end = len(row) // 2
    tail = row[end:]
    return next((p for p in range(1, end + 1) if torch.equal(tail, row[end - p : len(row) - p])), 0)


def greedy_with_a_draw(model: MiniGPT, rows: Tensor, generator: Generator) -> Tensor:
    """Greedy, but the first character of each couplet is drawn."""
    rows = generate(model, rows, 11, temperature=0.0)
    for _ in range(9):
        rows = generate(model, rows, 1, generator=generator)
        rows = generate(model, rows, 11, temperature=0.0)
    return rows


def run(seed: int, steps: int) -> dict[str, Any]:
    """The shares of each way, and the loss at the end."""
    torch.manual_seed(seed)
    model = MiniGPT(GPTConfig(LETTERS.vocab_size, 24, dim=64, layers=2, heads=4))
    losses = pretrain(model, couplets(seed), steps=steps)
    first = torch.tensor([LETTERS.encode(opener) for opener in OPENERS])
    found: dict[str, float] = {"loss": sum(losses[-10:]) / 10}
    for name, how in WAYS.items():
        found[name] = mean_share(generate(model, first, 119, generator=Generator().manual_seed(seed), **how))
    found["in the book"] = share_from_the_book(generate(model, first, 119, temperature=0.0))
    found["period"] = period(generate(model, first[:1], LONG[steps] - 1, temperature=0.0)[0])
    found["one drawn"] = mean_share(greedy_with_a_draw(model, first, Generator().manual_seed(seed)))
    return found


def of_people() -> float:
    """The same share in the poems themselves."""
    tokens = torch.tensor(LETTERS.encode(BOOK))
    return mean_share(tokens[: len(tokens) // 120 * 120].view(-1, 120))


def main() -> None:
    start()
    runs = {steps: [run(seed, steps) for seed in SEEDS] for steps in STEPS}
    for steps, each in runs.items():
        for name in each[0]:
            print(steps, name, spread([found[name] for found in each]), flush=True)
    save("greedy_repeats", {"seeds": SEEDS, "runs": runs, "people": of_people()})


if __name__ == "__main__":
    main()
