"""The tiny decoder that runs through the book: it reads 一岁一枯 and knows what comes next.

Claim: with one causal head of width 4 and no positions, the two 一 of 「一岁一枯荣。」 get different answers, 岁 and
枯, since the second one reads 岁; all weights have one decimal, so that the way from character to probability can be
followed by hand.

Controls, each trained in the same way:
- without attention both 一 get the same answer, and the loss can't fall below 2 ln 2 / 5;
- with equal weights over what the mask shows instead of learned ones the sentence is learned as well: here the mask
  tells the two 一 apart; the learned weights only say that they do it by reading 岁.

Seeds: one, chosen among 0–27 for its readable weights: it illustrates, and proves nothing about other seeds.
How clearly the heads of those seeds read 岁 is stored as `reads`: the weight from the second 一 to 岁.
"""

import math
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy
from torch.optim import Adam

from experiments.store import save, spread, start
from lib.attention import causal_mask, masked_softmax

WORDS = ["一", "岁", "枯", "荣", "。"]
TOKENS, TARGETS = torch.tensor([0, 1, 0, 2, 3]), torch.tensor([1, 0, 2, 3, 4])  # 一岁一枯荣 → 岁一枯荣。
SHAPES = {"embedding": (5, 4), "w_q": (4, 4), "w_k": (4, 4), "w_v": (4, 4), "w_1": (4, 8), "w_2": (8, 4)}
SEED, SEEDS, KINDS = 24, range(28), ("learned", "equal", "none")


def decode(weights: dict[str, Tensor], attention: str = "learned") -> tuple[Tensor, Tensor]:
    """Logits and attention weights of a block: attention and feed-forward network, each added to what it read."""
    x = weights["embedding"][TOKENS]  # (time, dim)
    query, key, value = (x @ weights[name] for name in ("w_q", "w_k", "w_v"))
    scores = query @ key.T / math.sqrt(4) * (attention == "learned")
    seen = masked_softmax(scores, causal_mask(5))  # (query, key)
    if attention != "none":
        x = x + seen @ value
    x = x + (x @ weights["w_1"]).relu() @ weights["w_2"]
    return x @ weights["embedding"].T, seen  # the unembedding is the embedding


def one_decimal(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Round, and let the gradient through as if nothing had been rounded."""
    return {name: w + ((10 * w).round() / 10 - w).detach() for name, w in weights.items()}


def train(seed: int, attention: str = "learned", decay: float = 0.02) -> tuple[dict[str, Tensor], float]:
    """Weights of one decimal, and the loss with them; the decay keeps them small, and the answers below certainty."""
    generator = Generator().manual_seed(seed)
    weights = {name: (0.7 * torch.randn(shape, generator=generator)) for name, shape in SHAPES.items()}
    adam = Adam([w.requires_grad_() for w in weights.values()], lr=0.03)
    for _ in range(800):
        loss = cross_entropy(decode(one_decimal(weights), attention)[0], TARGETS)
        adam.zero_grad()
        (loss + decay * sum(w.square().sum() for w in weights.values())).backward()
        adam.step()
    rounded = {name: w.detach() for name, w in one_decimal(weights).items()}
    return rounded, cross_entropy(decode(rounded, attention)[0], TARGETS).item()


def run(seed: int) -> dict[str, Any]:
    """The weights, what they answer, and how well the controls do."""
    weights, loss = train(seed)
    logits, seen = decode(weights)
    controls = {kind: train(seed, kind, decay=1e-3) for kind in KINDS}  # hardly held back: how far can they get?
    return {
        "weights": weights,
        "probabilities": logits.softmax(-1),
        "attention": seen,
        "loss": loss,
        "control_losses": {kind: control[1] for kind, control in controls.items()},
        "control_answers": {kind: decode(w, kind)[0].softmax(-1) for kind, (w, _) in controls.items()},
    }


def main() -> None:
    start()
    reads = [decode(train(seed)[0])[1][2, 1].item() for seed in SEEDS]
    results = {"words": WORDS, "tokens": TOKENS, "targets": TARGETS, "seed": SEED, "reads": reads} | run(SEED)
    save("running_example", results)
    right = results["probabilities"][range(5), TARGETS].tolist()
    print("right answers:", " ".join(f"{p:.2f}" for p in right))
    print(f"the second 一 reads 岁: {results['attention'][2, 1]:.2f}; over seeds {spread(reads)}")
    print("losses:", results["control_losses"], "bound without attention:", 2 * math.log(2) / 5)


if __name__ == "__main__":
    main()
