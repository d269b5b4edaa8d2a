"""Positions of a ViT on the quadrant task: how large they start against what structure they start with.

Claim: in 200 steps of 16 images what decides is the scale of the start. The sinusoidal table (root mean square 0.71) is
learned from; shrunk to 0.02 it is not, and a random table as large as the sinusoidal one does nearly as well.
Both small starts are also given 600 steps.
Control: without positions the same model stays at chance.

Also: how alike the positions of a quadrant become. What training adds to the table is compared with the table it
started from, for a start with structure and one without; and, as a control, with labels that are drawn at random, so
that there is no quadrant to learn.

Seeds 0–4, for weights and images; all kinds see the same images. Measured on 500 unseen images.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy, normalize

from experiments.store import save, start
from experiments.training import ADAMW, over_seeds
from lib.data import bright_block
from lib.training import fit
from lib.vit import ViT, ViTConfig, grid_positions

SEEDS, EVERY = range(5), 50
SHORT, LONG = (200, 16), (600, 16)  # steps, images a step
LARGE, SMALL = 0.71, 0.02  # root mean square of the table
RECIPES: dict[str, tuple[str, float, tuple[int, int]]] = {  # structure, scale, training
    "random small": ("random", SMALL, SHORT),
    "random large": ("random", LARGE, SHORT),
    "sinusoidal small": ("sinusoidal", SMALL, SHORT),
    "sinusoidal large": ("sinusoidal", LARGE, SHORT),
    "none": ("none", 0.0, SHORT),
    "random small long": ("random", SMALL, LONG),
    "sinusoidal small long": ("sinusoidal", SMALL, LONG),
}
KINDS = {  # structure of the start, whether labels tell the quadrant; all start at LARGE and train SHORT
    "sinusoidal": ("sinusoidal", True),
    "random": ("random", True),
    "sinusoidal, labels drawn": ("sinusoidal", False),
    "random, labels drawn": ("random", False),
}
OPTIONS: Any = {"lr": 2e-3, "warmup": 30, "schedule": "cosine", "optimizer": ADAMW}


def quadrant_model(structure: str, scale: float, seed: int) -> ViT:
    torch.manual_seed(seed)
    options: Any = {"positions": "none" if structure == "none" else "random"}
    model = ViT(ViTConfig(image_size=32, patch_size=8, channels=3, dim=64, layers=2, heads=4, classes=4, **options))
    if model.positions is not None:
        table = grid_positions(4, 4, 64) if structure == "sinusoidal" else torch.randn(16, 64)
        with torch.no_grad():
            model.positions.weight[1:] = scale * table / table.square().mean().sqrt()
    return model


def image_batches(seed: int, count: int) -> Iterator[tuple[Tensor, Tensor]]:
    generator = Generator().manual_seed(seed)
    while True:
        yield bright_block(count, generator=generator)


def loss(model: ViT, images: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(model(images), labels)


@torch.no_grad()
def accuracy(model: ViT, images: Tensor, labels: Tensor) -> float:
    return (model(images).argmax(-1) == labels).float().mean().item()


def run(seed: int, recipe: str) -> dict[str, Any]:
    """Accuracy on 100 unseen images every 50 steps; and on 500 at the end."""
    structure, scale, (steps, count) = RECIPES[recipe]
    model, unseen = quadrant_model(structure, scale, seed), bright_block(500, generator=Generator().manual_seed(99))
    few, curve = (unseen[0][:100], unseen[1][:100]), []

    def measure(step: int) -> None:
        if step % EVERY == 0:
            curve.append(accuracy(model, *few))

    fit(model, image_batches(seed, count), loss, steps=steps, callback=measure, **OPTIONS)
    return {"curve": curve, "test": accuracy(model.eval(), *unseen)}


def alike(vectors: Tensor) -> list[float]:
    """Mean cosine of two places in the same quadrant of the 4 × 4 grid, and in different ones; 16 vectors, centred."""
    quadrant = torch.tensor([2 * (place // 8) + place % 4 // 2 for place in range(16)])
    same, other = quadrant[:, None] == quadrant, ~torch.eye(16, dtype=torch.bool)
    vectors = normalize(vectors - vectors.mean(0), dim=-1)
    cosine = vectors @ vectors.T
    return [cosine[same & other].mean().item(), cosine[~same].mean().item()]


def change(seed: int, kind: str) -> dict[str, Any]:
    """How alike positions are within and across quadrants: at the start, after training, in what training added."""
    structure, told = KINDS[kind]
    model = quadrant_model(structure, LARGE, seed)
    assert model.positions is not None
    start_table = model.positions.weight[1:].detach().clone()
    drawn = Generator().manual_seed(1000 + seed)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        for images, labels in image_batches(seed, SHORT[1]):
            yield images, labels if told else torch.randint(4, labels.shape, generator=drawn)

    fit(model, batches(), loss, steps=SHORT[0], **OPTIONS)
    end_table = model.positions.weight[1:].detach()
    tables = {"start": start_table, "end": end_table, "change": end_table - start_table}
    size = (end_table - start_table).square().mean().sqrt().item()
    return {**{name: alike(table) for name, table in tables.items()}, "size": size}


def main() -> None:
    start()
    runs = over_seeds(run, SEEDS, RECIPES, {"unseen images": lambda found: found["test"]})
    changes = over_seeds(change, SEEDS, KINDS, {"within a quadrant": lambda found: found["change"][0]})
    save("vit_positions", {"seeds": SEEDS, "every": EVERY, "runs": runs, "changes": changes})


if __name__ == "__main__":
    main()
