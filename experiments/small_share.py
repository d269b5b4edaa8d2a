"""Can tokens with a small, fixed share decide the output, and what does a loud value have to do with it?

Claim: with all weights equal, touch keeps 4/216 of the weight, and the trained policy still lives by it. What makes up
for the small share are value vectors that training makes long. Loud readings (touch times 5 or 20) are learned sooner,
and more: with factor 1 the noise that the average takes in from all the other tokens limits what any rate can reach.

Controls: factors 1, 5 and 20, each at three rates; on each trained policy: touch cut, and the value vectors of touch
shrunk to the mean length of those of vision.

Seeds 0–4, for the weights at the start, the scenes and the test alike.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from experiments.store import save, spread, start
from experiments.tactile_share import ACTION, VISION, Policy, action_loss, examine, scenes, watch
from lib.data import TactileBatch
from lib.training import fit

SEEDS, FACTORS, RATES = range(5), (1, 5, 20), (3e-3, 1e-2, 3e-2)
MARKS = (0, 10, 20, 40, 80, 120, 160, 200, 300, 400)
TOUCH = slice(VISION, VISION + 4)


def loud_scenes(count: int, seed: int, factor: float) -> Iterator[TactileBatch]:
    """Vision and touch show classes in features of their own, those of touch `factor` times as large."""
    for vision, touch, action, label in scenes(count, seed, shared_features=False):
        yield TactileBatch(vision, factor * touch, action, label)


def flat_policy() -> Policy:
    """All scores are zero, so all weights are equal for ever."""
    policy = Policy(features=11)
    nn.init.zeros_(policy.attend.q_proj.weight).requires_grad_(False)
    return policy


@torch.no_grad()
def value_norms(policy: Policy, batch: TactileBatch) -> Tensor:
    """Length of what each token would add to the output at weight 1, averaged over scenes: ‖Σₕ vₕ W_Oₕ‖."""
    x = policy.embed(torch.cat(batch[:3], 1))
    return policy.attend.out_proj(policy.attend.v_proj(x)).norm(dim=-1).mean(0)  # (token,)


def with_touch_shrunk(policy: Policy, batch: TactileBatch, factor: float) -> float:
    """Accuracy with the value vectors of touch multiplied by `factor`."""
    scale = torch.ones(VISION + 4 + ACTION, 1)
    scale[TOUCH] = factor

    def shrink(_module: nn.Module, _inputs: Any, values: Tensor) -> Tensor:
        return values * scale

    with policy.attend.v_proj.register_forward_hook(shrink):
        return examine(policy, batch)[1]


def ceiling(factor: float) -> float:
    """Accuracy of taking the class that touch's features show most of, averaged evenly over all tokens."""
    *streams, label = next(loud_scenes(4000, 0, factor))
    return (torch.cat(streams, 1)[..., -4:].mean(1).argmax(-1) == label[:, 0]).float().mean().item()


def run(seed: int, factor: float, lr: float, steps: int = MARKS[-1]) -> dict[str, Any]:
    """Accuracy over training, whole and without touch; then how long the values are, and what their length does."""
    torch.manual_seed(seed)
    policy, test = flat_policy(), next(loud_scenes(128, 1000 + seed, factor))
    before = value_norms(policy, test)
    log, callback = watch(lambda: (*examine(policy, test), examine(policy, test, TOUCH)[1]), MARKS)
    fit(policy, loud_scenes(16, seed, factor), action_loss, steps=steps, lr=lr, callback=callback)
    share, accuracy, without_touch = zip(*log, strict=True)
    norms = value_norms(policy, test)
    ratio = (norms[TOUCH].mean() / norms[:VISION].mean()).item()
    return {
        "share": share[-1],
        "accuracy": accuracy,
        "without_touch": without_touch,
        "without_vision": examine(policy, test, slice(0, 4))[1],
        "value_ratio": [
            (before[TOUCH].mean() / before[:VISION].mean()).item(),
            ratio,
        ],  # touch to vision: before, after
        "weighted_share": (norms[TOUCH].sum() / norms.sum()).item(),  # Kobayashi et al. 2020: weight times length
        "shrunk": with_touch_shrunk(policy, test, 1 / ratio),
    }


def main() -> None:
    start()
    runs = {f: {lr: [run(seed, f, lr) for seed in SEEDS] for lr in RATES} for f in FACTORS}
    ceilings = {factor: ceiling(factor) for factor in FACTORS}
    save("small_share", {"seeds": SEEDS, "marks": MARKS, "ceilings": ceilings, "runs": runs})
    for factor, by_rate in runs.items():
        for lr, found in by_rate.items():
            steps = [spread([each["accuracy"][MARKS.index(mark)] for each in found]) for mark in (80, 200, 400)]
            print(f"×{factor} lr {lr}: accuracy at 80, 200, 400:", *steps, f"at most {ceilings[factor]:.2f}")
            print("   without touch", spread([each["without_touch"][-1] for each in found]), end=", ")
            print(*(f"{key} {spread([each[key] for each in found])}" for key in ("weighted_share", "shrunk")))


if __name__ == "__main__":
    main()
