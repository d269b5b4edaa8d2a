"""Masked autoencoder: what the encoder may see, what the loss counts, and what is refused."""

import pytest
import torch
from torch import Generator

from lib.vit import (
    MaskedAutoencoder,
    ViTConfig,
    grid_positions,
    hidden_pixels,
    patchify,
    random_kept,
    reconstruction_loss,
)

CONFIG = ViTConfig(image_size=(8, 12), patch_size=2, channels=3, dim=16, layers=1, heads=2, classes=5)


@pytest.fixture
def model() -> MaskedAutoencoder:
    torch.manual_seed(0)
    return MaskedAutoencoder(CONFIG, dim=12, layers=1, heads=3)


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


@pytest.mark.parametrize(("ratio", "count"), [(0.75, 6), (0.5, 12), (0.9, 2), (0.05, 23)])
def test_the_share_to_hide_is_hidden_and_no_patch_is_kept_twice(ratio: float, count: int):
    kept = random_kept(50, 24, ratio, generator=seeded())
    assert kept.shape == (50, count)
    assert (kept.diff(dim=-1) > 0).all()
    assert kept.min() >= 0
    assert kept.max() <= 23


def test_each_patch_is_kept_as_often_as_any_other():
    kept = random_kept(8000, 24, generator=seeded())
    assert kept.flatten().bincount(minlength=24).div(8000).tolist() == pytest.approx([0.25] * 24, abs=0.03)


@pytest.mark.parametrize("ratio", [0.0, 1.0, 0.01, -0.5, 2.0])
def test_something_must_be_hidden_and_something_kept(ratio: float):
    with pytest.raises(ValueError, match=f"keep some, got {ratio} of 16"):
        random_kept(2, 16, ratio, generator=seeded())


def test_hidden_pixels_are_those_outside_the_kept_patches():
    kept = random_kept(5, 24, generator=seeded())
    mask = hidden_pixels(kept, CONFIG)
    assert mask.shape == (5, 1, 8, 12)
    by_patch = patchify(mask, 2)
    for image, places in zip(by_patch, kept, strict=True):
        assert not image[places].any()
        assert image.sum() == 4 * (24 - 6)


def test_what_is_hidden_changes_nothing_and_what_is_kept_does(model: MaskedAutoencoder):
    images, kept = torch.rand(5, 3, 8, 12), random_kept(5, 24, generator=seeded())
    hidden = hidden_pixels(kept, CONFIG)
    before = model(images, kept)
    torch.testing.assert_close(model(images.masked_fill(hidden, 1e3), kept), before)
    assert not torch.allclose(model(images.masked_fill(~hidden, 0.0), kept), before)


def test_the_encoder_reads_a_quarter_of_the_patches(model: MaskedAutoencoder):
    seen: list[torch.Size] = []
    model.encoder.encoder.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0].shape))
    model(torch.rand(5, 3, 8, 12), random_kept(5, 24, generator=seeded()))
    assert seen == [(5, 6 + 1, 16)]  # and [CLS]


def test_the_loss_counts_hidden_pixels_only(model: MaskedAutoencoder):
    images, kept = torch.rand(5, 3, 8, 12), random_kept(5, 24, generator=seeded())
    squared = patchify((model(images, kept) - images).square(), 2)  # (image, patch, numbers)
    hidden = [[patch for patch in range(24) if patch not in places] for places in kept.tolist()]
    expected = torch.stack([squared[image, places].mean() for image, places in enumerate(hidden)]).mean()
    torch.testing.assert_close(reconstruction_loss(model, images, kept), expected)


def test_the_decoders_positions_are_the_fixed_table(model: MaskedAutoencoder):
    assert torch.equal(model.positions, grid_positions(4, 6, 12))
    assert "positions" not in dict(model.named_parameters())


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_both_kinds_of_encoder_work_and_all_but_the_head_learn(pooling):
    config = ViTConfig(image_size=4, patch_size=2, channels=1, dim=8, layers=1, heads=2, classes=3, pooling=pooling)
    model = MaskedAutoencoder(config, dim=8, layers=1, heads=2)
    reconstruction_loss(model, torch.rand(6, 1, 4, 4), random_kept(6, 4, generator=seeded())).backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad is not None) == (not name.startswith("encoder.head")), name
