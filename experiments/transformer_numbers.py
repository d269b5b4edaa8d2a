"""Does a small encoder–decoder learn to read numbers aloud, and does it read them through its cross-attention?

Claim: two layers of width 32 on either side, shown 8000 of the numbers from 1000 to 9999 with their Chinese reading
(3050 → 三千零五十。) for 200 steps, write the reading of numbers they have never seen, greedily, character by
character.

Controls: as many steps with fewer numbers to learn from; and the trained model, given the memory of another number:
if it reads the memory, it writes that number.

`reads` is how much weight a head of the cross-attention gives to the digit whose character is being written, a mean
over the characters 一 … 九 of the held-out numbers, for each layer and head; even weights would give 0.25.

Seeds 0–4, for the weights at the start, the order of the batches, and which 1000 numbers are held out.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy

from experiments.store import save, spread, start
from lib.training import fit
from lib.transformer import BlockOutput, Decoder, Encoder, sinusoidal_positions

SEEDS, STEPS, RATE = range(5), 200, 1e-2
MARKS, SHOWN = (25, 50, 75, 100, 150, 200), (100, 300, 1000, 8000)
CHARACTERS = "零一二三四五六七八九十百千。"
END, START, LONGEST = 13, 14, 8  # 三千四百五十六。


def reading(number: int) -> str:
    """Chinese reading of a number of four digits.

    >>> reading(3050), reading(3005), reading(3400)
    ('三千零五十', '三千零五', '三千四百')
    """
    text = ""
    for digit, unit in zip(f"{number:04}", ["千", "百", "十", ""], strict=True):
        if digit != "0":
            text += CHARACTERS[int(digit)] + unit
        elif not text.endswith("零"):
            text += "零"
    return text.rstrip("零")


def pairs() -> tuple[Tensor, Tensor]:
    """Digits (9000, 4) and readings (9000, 8), filled up with the end token."""
    numbers = range(1000, 10_000)
    digits = [[int(digit) for digit in str(number)] for number in numbers]
    readings = [[CHARACTERS.index(c) for c in reading(number).ljust(LONGEST, "。")] for number in numbers]
    return torch.tensor(digits), torch.tensor(readings)


def digit_places(source: Tensor, target: Tensor) -> Tensor:
    """Where the digit stands whose character is written, (numbers, 8); −1 where it is none of 一 … 九."""
    places = torch.full_like(target, -1)
    for number, (digits, characters) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        nonzero = [place for place, digit in enumerate(digits) if digit]
        written = [step for step, character in enumerate(characters) if 1 <= character <= 9]
        places[number, written] = torch.tensor(nonzero)
    return places


class Speller(nn.Module):
    """Reads digits, writes characters."""

    def __init__(self, dim: int = 32, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.source_embed, self.target_embed = nn.Embedding(10, dim), nn.Embedding(15, dim)
        self.encoder, self.decoder = Encoder(dim, heads, layers), Decoder(dim, heads, layers)
        self.answer = nn.Linear(dim, 14)

    def encode(self, source: Tensor) -> Tensor:
        x = self.source_embed(source)
        return self.encoder(x + sinusoidal_positions(*x.shape[1:]))[0]

    def decode(self, target_in: Tensor, memory: Tensor) -> Tensor:
        return self.answer(self.read(target_in, memory).output)

    def read(self, target_in: Tensor, memory: Tensor, need_weights: bool = False) -> BlockOutput:
        x = self.target_embed(target_in)
        return self.decoder(x + sinusoidal_positions(*x.shape[1:]), memory, need_weights=need_weights)


def shifted(target: Tensor) -> Tensor:
    """What the decoder reads: the target one step late, behind START."""
    return torch.cat([torch.full((len(target), 1), START), target[:, :-1]], 1)


def spelling_loss(model: Speller, source: Tensor, target: Tensor) -> Tensor:
    target_in = shifted(target)
    return cross_entropy(model.decode(target_in, model.encode(source)).flatten(0, 1), target.flatten())


def greedy(model: Speller, memory: Tensor) -> Tensor:
    written = torch.full((len(memory), 1), START)
    for _ in range(LONGEST):
        following = model.decode(written, memory)[:, -1].argmax(-1, keepdim=True)
        written = torch.cat([written, following], 1)
    return written[:, 1:]


@torch.no_grad()
def reads(model: Speller, source: Tensor, target: Tensor) -> Tensor:
    """Mean weight (layer, head) from a character 一 … 九 to its own digit."""
    cross = model.read(shifted(target), model.encode(source), need_weights=True).cross_weights
    assert cross is not None  # (number, layer, head, step, digit)
    places = digit_places(source, target)
    own = cross.gather(-1, places.clamp(min=0)[:, None, None, :, None].expand(*cross.shape[:-1], 1)).squeeze(-1)
    return own.movedim(0, -2)[..., places >= 0].mean(-1)


def batches(source: Tensor, target: Tensor, generator: Generator) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        chosen = torch.randint(len(source), (64,), generator=generator)
        yield source[chosen], target[chosen]


def run(seed: int, count: int) -> dict[str, Any]:
    """Exact match on held-out numbers along the way; at the end on those shown, and with memories of other numbers."""
    generator = Generator().manual_seed(seed)
    source, target = pairs()
    order = torch.randperm(9000, generator=generator)
    shown, held_out = order[:count], order[8000:]
    torch.manual_seed(seed)
    model = Speller()
    exact: list[float] = []

    def measure(step: int) -> None:
        if step in MARKS:
            written = greedy(model, model.encode(source[held_out]))
            exact.append((written == target[held_out]).all(-1).float().mean().item())

    adamw: Any = partial(torch.optim.AdamW, foreach=True)
    drawn = batches(source[shown], target[shown], generator)
    options: Any = {"steps": STEPS, "lr": RATE, "warmup": 20, "schedule": "cosine", "optimizer": adamw}
    history = torch.tensor(fit(model, drawn, spelling_loss, callback=measure, **options))
    with torch.no_grad():
        some = shown[:1000]
        known = (greedy(model, model.encode(source[some])) == target[some]).all(-1)
        swapped = greedy(model, model.encode(source[held_out].roll(1, 0)))
    return {
        "loss": history.unflatten(0, (-1, 10)).mean(-1).tolist(),
        "exact": exact,
        "reads": reads(model, source[held_out], target[held_out]),
        "shown": known.float().mean().item(),
        "swapped_own": (swapped == target[held_out]).all(-1).float().mean().item(),
        "swapped_other": (swapped == target[held_out].roll(1, 0)).all(-1).float().mean().item(),
    }


def main() -> None:
    start()
    runs = {count: [run(seed, count) for seed in SEEDS] for count in SHOWN}
    for count, each_seed in runs.items():
        print(count, "shown: exact on held-out numbers", spread([each["exact"][-1] for each in each_seed]))
    save("transformer_numbers", {"seeds": SEEDS, "steps": STEPS, "marks": MARKS, "rate": RATE, "runs": runs})


if __name__ == "__main__":
    main()
