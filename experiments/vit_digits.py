"""A ViT and a convolutional network of like size on scikit-learn's digits, over the number of training images.

Both are tuned alike: for each model and number of images the same four learning rates are tried with the first two
seeds, and the one that is best on 200 validation images, on average, is trained with all seeds. Test images are 400
others. Steps and batches are the same.
On 100 images, where the convolutional network chose the largest rate, a still larger one is tried with both models and
all seeds.
Also: the same ViT at three sizes of patch, tuned in the same way; how much is lost when digits are moved by a pixel;
and what is lost when patches are left out: those [CLS] weighs most or least, random ones, those with most ink.

Seeds 0–4, for the split into training, validation and test, for weights and batches.
"""

from collections.abc import Iterator
from statistics import mean
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from experiments.store import save, spread, start
from experiments.training import ADAMW
from lib.data import digit_images
from lib.training import fit
from lib.vit import ViT, ViTConfig, patchify

SEEDS, TUNING, STEPS, IMAGES = range(5), range(2), 500, 32
RATES, AMOUNTS, SIZES = (2e-3, 6e-3, 2e-2, 6e-2), (100, 1197), (2, 4, 8)
LARGER = 2e-1  # learning rate tried beyond RATES on the fewest images
MOVES = ((0, 1), (2, 1), (1, 0), (1, 2))


class Split:
    """Digits in an order of their own: first for training, then 200 for validation, then 400 for test."""

    def __init__(self, seed: int) -> None:
        raw, labels = digit_images()
        order = torch.randperm(len(raw), generator=Generator().manual_seed(seed))
        self.raw, self.labels = raw[order], labels[order]
        self.images = (self.raw - self.raw[:1197].mean()) / self.raw[:1197].std()
        self.validation, self.test = slice(1197, 1397), slice(1397, 1797)

    def batches(self, count: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        generator = Generator().manual_seed(seed)
        while True:
            chosen = torch.randint(count, (IMAGES,), generator=generator)
            yield self.images[chosen], self.labels[chosen]


def vit(seed: int, patch_size: int = 2) -> ViT:
    torch.manual_seed(seed)
    options: Any = {"channels": 1, "dim": 32, "layers": 2, "heads": 4, "classes": 10, "positions": "sinusoidal"}
    return ViT(ViTConfig(image_size=8, patch_size=patch_size, **options))


def cnn(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    first = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.GELU(), nn.Conv2d(16, 32, 3, padding=1), nn.GELU())
    second = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.GELU())
    return nn.Sequential(first, second, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def make(name: str, seed: int) -> nn.Module:
    return cnn(seed) if name == "cnn" else vit(seed, int(name.removeprefix("vit ")))


def loss(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(model(images), labels)


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    return (model.eval()(images).argmax(-1) == labels).float().mean().item()


def moved(model: nn.Module, split: Split) -> float:
    """Accuracy on the test images moved by one pixel, up, down, left and right."""
    wide = F.pad(split.images[split.test], (1, 1, 1, 1), value=split.images.min().item())
    shifted = [wide[:, :, top : top + 8, left : left + 8] for top, left in MOVES]
    return sum(accuracy(model, images, split.labels[split.test]) for images in shifted) / len(MOVES)


@torch.no_grad()
def without_four(model: ViT, split: Split) -> dict[str, float]:
    """Accuracy when four of sixteen patches are left out."""
    images, labels = split.images[split.test], split.labels[split.test]
    _, weights = model.encode(images, need_weights=True)
    assert weights is not None
    scores = {
        "most weight": weights[:, :, :, 0, 1:].mean((1, 2)),
        "least weight": -weights[:, :, :, 0, 1:].mean((1, 2)),
        "random": torch.rand(len(images), 16, generator=Generator().manual_seed(0)),
        "most ink": patchify(split.raw[split.test], 2).mean(-1),
    }
    found: dict[str, float] = {}
    for name, score in scores.items():
        rest = score.sort(-1, descending=True).indices[:, 4:]
        tokens, _ = model.encode(images, visible=rest)
        found[name] = (model.classify(tokens).argmax(-1) == labels).float().mean().item()
    return found


def run(seed: int, name: str, amount: int, rate: float) -> dict[str, Any]:
    split, model = Split(seed), make(name, seed)
    options: Any = {"steps": STEPS, "lr": rate, "warmup": 20, "schedule": "cosine", "optimizer": ADAMW}
    losses = fit(model, split.batches(amount, seed), loss, **options)
    found: dict[str, Any] = {
        part: accuracy(model, split.images[where], split.labels[where])
        for part, where in (("validation", split.validation), ("test", split.test))
    }
    found["loss"] = mean(losses[-50:])
    if amount == AMOUNTS[-1]:
        found["moved"] = moved(model, split)
        if name == "vit 2" and isinstance(model, ViT):
            found["without four"] = without_four(model, split)
    return found


def tuned(name: str, amount: int) -> dict[str, Any]:
    """All seeds at the rate that is best on validation images for the first two."""
    tried = {rate: [run(seed, name, amount, rate) for seed in TUNING] for rate in RATES}
    validation = {rate: mean(each["validation"] for each in runs) for rate, runs in tried.items()}
    best = max(RATES, key=lambda rate: validation[rate])
    runs = tried[best] + [run(seed, name, amount, best) for seed in SEEDS[len(TUNING) :]]
    print(name, amount, f"rate {best}: test", spread([each["test"] for each in runs]), flush=True)
    return {"rate": best, "validation": list(validation.values()), "runs": runs}


def main() -> None:
    start()
    kinds = [(name, amount) for name in ("cnn", "vit 2") for amount in AMOUNTS]
    kinds += [(f"vit {size}", AMOUNTS[-1]) for size in SIZES[1:]]
    found: dict[str, dict[str, Any]] = {}
    for name, amount in kinds:
        found.setdefault(name, {})[str(amount)] = tuned(name, amount)
    larger = {name: [run(seed, name, AMOUNTS[0], LARGER) for seed in SEEDS] for name in ("cnn", "vit 2")}
    settings = {"seeds": SEEDS, "steps": STEPS, "images": IMAGES, "rates": RATES, "larger": LARGER}
    save("vit_digits", {**settings, "models": found, "at the larger rate": larger})


if __name__ == "__main__":
    main()
