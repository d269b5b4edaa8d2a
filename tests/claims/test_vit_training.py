"""What chapter 2.1.3 claims about trained models: V3, V5, V6, and where [CLS] looks."""

from collections.abc import Iterator
from typing import Literal

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from lib.data import bright_block, digit_images, photo_crops
from lib.training import fit
from lib.transformer import count_parameters
from lib.vit import MaskedAutoencoder, ViT, ViTConfig, masked_pixels, random_masking, reconstruction_loss


def seeded(seed: int) -> Generator:
    return Generator().manual_seed(seed)


def loss(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(model(images), labels)


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    return (model.eval()(images).argmax(-1) == labels).float().mean().item()


@pytest.mark.parametrize(
    ("positions", "steps", "low", "high"), [("sinusoidal", 200, 0.99, 1.0), ("none", 60, 0.15, 0.35)]
)
def test_v3_the_quadrant_is_learned_with_positions_and_guessed_without(
    positions: Literal["sinusoidal", "none"], steps: int, low: float, high: float
):
    torch.manual_seed(0)
    options = {"dim": 64, "layers": 2, "heads": 4, "classes": 4, "positions": positions}
    model, generator = ViT(ViTConfig(image_size=32, patch_size=4, channels=3, **options)), seeded(1)
    batches = (bright_block(16, generator=generator) for _ in range(steps))
    fit(model, batches, loss, steps=steps, lr=2e-3, warmup=30, schedule="cosine")
    assert low <= accuracy(model, *bright_block(1000, generator=seeded(99))) <= high


@pytest.fixture(scope="module")
def digits() -> tuple[Tensor, Tensor]:
    images, labels = digit_images()
    order = torch.randperm(len(images), generator=seeded(0))
    images = images[order]
    return (images - images[:1397].mean()) / images[:1397].std(), labels[order]


def digit_vit(pooling: Literal["cls", "mean"] = "mean") -> ViT:
    torch.manual_seed(0)
    options = {"dim": 32, "layers": 2, "heads": 4, "classes": 10, "pooling": pooling, "positions": "sinusoidal"}
    return ViT(ViTConfig(image_size=8, patch_size=2, channels=1, **options))


def digit_cnn() -> nn.Sequential:
    torch.manual_seed(0)
    first, second = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
    third = nn.Sequential(nn.Conv2d(32, 64, 3, padding=1), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(first, nn.GELU(), second, nn.GELU(), nn.MaxPool2d(2), third, nn.Linear(64, 10))


def train_on_digits(
    model: nn.Module, digits: tuple[Tensor, Tensor], n: int, *, steps: int, lr: float
) -> tuple[Tensor, Tensor]:
    """Train on the first n images; return the 400 held-out ones."""
    images, labels = digits

    def batches(generator: Generator) -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            chosen = torch.randint(n, (32,), generator=generator)
            yield images[chosen], labels[chosen]

    fit(model, batches(seeded(0)), loss, steps=steps, lr=lr, warmup=20, schedule="cosine")
    return images[1397:], labels[1397:]


def test_v5_both_models_are_of_like_size():
    assert (count_parameters(digit_vit()), count_parameters(digit_cnn())) == (26_474, 23_946)


def test_cutting_the_patches_that_cls_weighs_most_hurts_and_the_least_does_not(digits: tuple[Tensor, Tensor]):
    model = digit_vit("cls")
    images, labels = train_on_digits(model, digits, 1397, steps=240, lr=5e-3)

    @torch.no_grad()
    def score(visible: Tensor) -> float:
        return (model.classify(model.encode(images, visible=visible)[0]).argmax(-1) == labels).float().mean().item()

    whole, (_, weights) = accuracy(model, images, labels), model.encode(images, need_weights=True)
    assert weights is not None
    order = weights[:, :, :, 0, 1:].mean((1, 2)).argsort(-1, descending=True)
    assert whole > 0.8
    assert score(order[:, :-4]) > whole - 0.15
    assert score(order[:, 4:]) < 0.55


def test_v6_hidden_patches_are_reconstructed_better_than_by_the_colour_of_the_visible_ones():
    torch.manual_seed(0)
    options = {"dim": 48, "layers": 1, "heads": 4, "classes": 10, "pooling": "mean", "positions": "sinusoidal"}
    config = ViTConfig(image_size=32, patch_size=4, channels=3, **options)
    model, generator = MaskedAutoencoder(config, dim=48, layers=1, heads=4), seeded(1)

    def normed(n: int, generator: Generator, held_out: bool = False) -> Tensor:
        return (photo_crops(n, generator=generator, held_out=held_out) - 0.45) / 0.3

    batches = ((normed(16, generator), random_masking(16, 64, generator=generator)) for _ in range(300))
    fit(model, batches, reconstruction_loss, steps=300, lr=6e-3, warmup=20, schedule="cosine")
    images, visible = normed(200, seeded(9), held_out=True), random_masking(200, 64, generator=seeded(8))
    hidden = masked_pixels(visible, config)
    count = (~hidden).sum((2, 3), keepdim=True)
    colour = images.masked_fill(hidden, 0).sum((2, 3), keepdim=True) / count
    baseline = (colour - images).square()[hidden.expand_as(images)].mean()
    with torch.no_grad():
        squared = (model.eval()(images, visible) - images).square()
    hidden_error, visible_error = (squared[where.expand_as(images)].mean() for where in (hidden, ~hidden))
    assert hidden_error < 0.9 * baseline
    assert visible_error > 2 * hidden_error  # the loss never asked for those
