"""How much weight actions learn to give to touch, when only touch tells what to do.

Claim: before training touch gets about as much weight as its number of tokens says; with training its share grows, and
so does the accuracy; the fewer tokens, the later. Cutting touch from the trained policy takes the answer away.

Controls: cutting four vision tokens instead; cross and joint wiring; 1, 4, 16 and 64 tactile tokens.

Seeds 0–4, for the weights at the start, the scenes and the test alike.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy

from experiments.store import save, spread, start
from lib.attention import MultiHeadAttention
from lib.data import TactileBatch, tactile_batches
from lib.training import fit

SEEDS, COUNTS, WIRINGS = range(5), (1, 4, 16, 64), ("cross", "joint")
MARKS = (0, 4, 8, 16, 24, 32, 48, 64, 80, 120, 160, 200, 240, 280, 320)
VISION, ACTION = 196, 16


class Policy(nn.Module):
    """An embedding, a layer of attention, a linear answer; only the rows of the actions are computed."""

    def __init__(self, features: int = 7, dim: int = 32, heads: int = 4, joint: bool = True) -> None:
        super().__init__()
        self.embed, self.answer = nn.Linear(features, dim), nn.Linear(dim, 4)
        self.attend, self.joint = MultiHeadAttention(dim, heads), joint

    def forward(
        self, vision: Tensor, touch: Tensor, action: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        x = self.embed(torch.cat([vision, touch, action], 1))
        query = x[:, -action.shape[1] :]
        context = x if self.joint else x[:, : -action.shape[1]]
        update, weights = self.attend(query, context, mask, need_weights=True)
        return self.answer(update), weights


def action_loss(model: Policy, vision: Tensor, touch: Tensor, action: Tensor, label: Tensor) -> Tensor:
    return cross_entropy(model(vision, touch, action)[0].flatten(0, 1), label.flatten())


@torch.no_grad()
def examine(model: Policy, batch: TactileBatch, cut: slice = slice(0)) -> tuple[float, float]:
    """The weight that actions give to touch, and the accuracy, without the tokens `cut`."""
    vision, touch, action, label = batch
    touched = slice(VISION, VISION + touch.shape[1])
    kept = torch.ones(touched.stop + model.joint * ACTION, dtype=torch.bool)
    kept[cut] = False
    logits, weights = model(vision, touch, action, kept)
    return weights[..., touched].sum(-1).mean().item(), (logits.argmax(-1) == label).float().mean().item()


def scenes(count: int, seed: int, touches: int = 4, **options: Any) -> Iterator[TactileBatch]:
    generator = Generator().manual_seed(seed)
    return tactile_batches(count, generator=generator, tokens=(VISION, touches, ACTION), **options)


def watch(look: Callable[[], Any], marks: tuple[int, ...]) -> tuple[list[Any], Callable[[int], None]]:
    """A log, and a callback that adds to it at some steps."""
    log: list[Any] = []
    return log, lambda step: log.append(look()) if step in marks else None


def run(seed: int, touches: int = 4, wiring: str = "joint", steps: int = MARKS[-1]) -> dict[str, Any]:
    """Share and accuracy over training; then the accuracy without touch, and without four vision tokens."""
    torch.manual_seed(seed)
    policy, test = Policy(joint=wiring == "joint"), next(scenes(128, 1000 + seed, touches))
    log, callback = watch(lambda: examine(policy, test), MARKS)
    fit(policy, scenes(16, seed, touches), action_loss, steps=steps, lr=1e-2, callback=callback)
    share, accuracy = zip(*log, strict=True)
    return {
        "share": share,
        "accuracy": accuracy,
        "without_touch": examine(policy, test, slice(VISION, VISION + touches))[1],
        "without_vision": examine(policy, test, slice(0, 4))[1],
    }


def main() -> None:
    start()
    results: dict[str, Any] = {"seeds": SEEDS, "marks": MARKS, "runs": {}}
    for wiring in WIRINGS:
        for touches in COUNTS:
            runs = [run(seed, touches, wiring) for seed in SEEDS]
            results["runs"].setdefault(wiring, {})[touches] = runs
            learned = [next((m for m, a in zip(MARKS, r["accuracy"], strict=True) if a > 0.9), 999) for r in runs]
            row = [spread([each[key][-1] for each in runs]) for key in ("share", "accuracy")]
            row += [spread([each[key] for each in runs]) for key in ("without_touch", "without_vision")]
            print(wiring, touches, "tokens: share, accuracy, without touch, without vision", *row, "0.9 at", learned)
    save("tactile_share", results)


if __name__ == "__main__":
    main()
