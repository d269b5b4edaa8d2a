"""Does a small encoder–decoder learn to read numbers aloud, and does it read them through its cross-attention?

Claim: two layers of width 32 on either side, shown 8000 of the numbers from 1000 to 9999 with their Chinese reading
(3050 → 三千零五十。) for 200 steps, write the reading of numbers they have never seen, greedily, character by
character.

Controls: as many steps with fewer numbers to learn from; and the trained model, given a memory in which the row of one
digit is that of another number: does this one character change, and no other? It need not: the encoder lets the digits
read each other, so that a row may hold any of them.

`reads` is how much weight a head of the cross-attention gives to the digit whose character is being written, a mean
over the characters 一 … 九 of the held-out numbers, for each layer and head; even weights would give 0.25.

Seeds 0–4, for the weights at the start, the order of the batches, and which 1000 numbers are held out.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy

from experiments.store import save, start
from experiments.training import ADAMW, over_seeds, tens
from experiments.transformer_numbers_model import LONGEST, START, Speller, digit_places, pairs, shifted
from lib.training import fit

SEEDS, STEPS, RATE = range(5), 200, 1e-2
MARKS, SHOWN = (25, 50, 75, 100, 150, 200), (100, 300, 1000, 8000)


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


@torch.no_grad()
def one_row(model: Speller, source: Tensor) -> dict[str, float]:
    """What is written when one row of the memory is another number's; of numbers without zero, whose digits differ."""
    source = source[(source > 0).all(-1)]
    other = source.roll(1, 0)
    own, foreign = model.encode(source), model.encode(other)
    found: dict[str, list[Tensor]] = {"follows": [], "others_stay": [], "both": []}
    for place in range(4):
        mixed = own.clone()
        mixed[:, place] = foreign[:, place]
        digits = greedy(model, mixed)[:, ::2]  # 三千四百五十六。 → 三四五六
        changed = source[:, place] != other[:, place]
        follows = (digits[:, place] == other[:, place])[changed]
        rest = [each for each in range(4) if each != place]
        stay = (digits[:, rest] == source[:, rest]).all(-1)[changed]
        for name, right in {"follows": follows, "others_stay": stay, "both": follows & stay}.items():
            found[name].append(right)
    return {name: torch.cat(right).float().mean().item() for name, right in found.items()}


class Prepared(NamedTuple):
    """The model, what `fit` needs besides it, and which numbers are shown and held out."""

    model: Speller
    options: dict[str, Any]
    shown: Tensor
    held_out: Tensor


def prepare(seed: int, count: int) -> Prepared:
    generator = Generator().manual_seed(seed)
    source, target = pairs()
    order = torch.randperm(9000, generator=generator)
    shown, held_out = order[:count], order[8000:]
    torch.manual_seed(seed)
    options = {"steps": STEPS, "lr": RATE, "warmup": 20, "schedule": "cosine", "optimizer": ADAMW}
    drawn = batches(source[shown], target[shown], generator)
    return Prepared(Speller(), {"batches": drawn, "loss": spelling_loss, **options}, shown, held_out)


def run(seed: int, count: int) -> dict[str, Any]:
    """Exact match on held-out numbers along the way; at the end on those shown, and what the memory's rows decide."""
    model, options, shown, held_out = prepare(seed, count)
    source, target = pairs()
    exact: list[float] = []

    def measure(step: int) -> None:
        if step in MARKS:
            written = greedy(model, model.encode(source[held_out]))
            exact.append((written == target[held_out]).all(-1).float().mean().item())

    history = fit(model, callback=measure, **options)
    with torch.no_grad():
        some = shown[:1000]
        known = (greedy(model, model.encode(source[some])) == target[some]).all(-1)
    found = {
        "loss": tens(history),
        "exact": exact,
        "reads": reads(model, source[held_out], target[held_out]),
        "shown": known.float().mean().item(),
    }
    return found | ({"one_row": one_row(model, source[held_out])} if count == max(SHOWN) else {})


def main() -> None:
    start()
    runs = over_seeds(run, SEEDS, SHOWN, {"exact on held-out numbers": lambda found: found["exact"][-1]})
    save("transformer_numbers", {"seeds": SEEDS, "steps": STEPS, "marks": MARKS, "rate": RATE, "runs": runs})


if __name__ == "__main__":
    main()
