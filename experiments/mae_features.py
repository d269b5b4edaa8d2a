"""What the encoder of a masked autoencoder has learned, asked by a linear classifier on scikit-learn's digits.

An encoder trained without labels on 1197 digits is frozen, and a linear classifier (least squares on 0 and 1) reads the
tokens of all patches. Controls: the same encoder as it was drawn, and the pixels themselves. The classifier's penalty
is chosen for each on 200 validation images; 400 others are the test. With 50, 200 and 1197 labels.

Seeds 0–4, for the split, weights, images and masks.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Generator, Tensor

from experiments.store import save, spread, start
from experiments.training import ADAMW
from experiments.vit_digits import Split
from lib.training import fit
from lib.vit import MaskedAutoencoder, ViTConfig, random_masking, reconstruction_loss

SEEDS, STEPS, LABELS = range(5), 600, (50, 200, 1197)
PENALTIES = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)
DIGIT: Any = {"image_size": 8, "patch_size": 2, "channels": 1, "dim": 32, "layers": 2, "heads": 4, "classes": 10}


@torch.no_grad()
def tokens(model: MaskedAutoencoder, images: Tensor) -> Tensor:
    return model.encoder.eval().encode(images)[0].flatten(1)


def classifier(x: Tensor, labels: Tensor, penalty: float) -> tuple[Tensor, Tensor]:
    """Weights and bias that fit 0 and 1 in the smallest squares, with a penalty on the weights; x has mean 0."""
    y = torch.eye(10, dtype=x.dtype)[labels]
    weight = x.T @ torch.linalg.solve(x @ x.T + penalty * torch.eye(len(x), dtype=x.dtype), y - y.mean(0))
    return weight, y.mean(0)


def probe(features: Tensor, split: Split, count: int) -> dict[str, float]:
    """Test accuracy of a linear classifier that has seen `count` labels, and the penalty that validation chose."""
    known = features[:count]
    scaled = ((features - known.mean(0)) / (known.std(0) + 1e-3)).double()
    found: list[dict[str, float]] = []
    for penalty in PENALTIES:
        weight, bias = classifier(scaled[:count], split.labels[:count], penalty)
        right = ((scaled @ weight + bias).argmax(-1) == split.labels).double()
        parts = {"validation": right[split.validation].mean().item(), "test": right[split.test].mean().item()}
        found.append({"penalty": penalty, **parts})
    return max(found, key=lambda each: each["validation"])


def run(seed: int) -> dict[str, list[dict[str, float]]]:
    """What the probe finds with each number of labels: in the trained encoder, in it as drawn, in the pixels."""
    torch.manual_seed(seed)
    config = ViTConfig(**DIGIT, pooling="mean", positions="sinusoidal")
    split, model = Split(seed), MaskedAutoencoder(config, dim=32, layers=1, heads=4)
    generator, drawn = Generator().manual_seed(seed), tokens(model, split.images)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            chosen = torch.randint(1197, (32,), generator=generator)
            yield split.images[chosen], random_masking(32, 16, generator=generator)

    options: Any = {"steps": STEPS, "lr": 3e-3, "warmup": 50, "schedule": "cosine", "optimizer": ADAMW}
    fit(model.train(), batches(), reconstruction_loss, **options)
    kinds = {"mae": tokens(model, split.images), "drawn": drawn, "pixels": split.images.flatten(1)}
    return {name: [probe(each, split, count) for count in LABELS] for name, each in kinds.items()}


def main() -> None:
    start()
    runs: list[dict[str, list[dict[str, float]]]] = []
    for seed in SEEDS:
        runs.append(run(seed))
        save("mae_features", {"seeds": SEEDS, "labels": LABELS, "penalties": PENALTIES, "runs": runs})
    for name in runs[0]:
        for place, count in enumerate(LABELS):
            print(f"{name}, {count} labels:", spread([each[name][place]["test"] for each in runs]), flush=True)


if __name__ == "__main__":
    main()
