"""A masked autoencoder's baselines, and one seed trained again."""

import pytest
import torch
from torch import Generator

from experiments.mae_reconstruction import COMMON, PHOTO, by_distance, fill_in, nearest_visible
from lib.data import results
from lib.vit import ViTConfig, masked_pixels, patchify, random_masking

STORED = results("mae_reconstruction")["photos"]


def test_trained_again_it_is_the_same():
    again, stored = fill_in(0), STORED[0]
    for name in ("mean image", "mean colour", "nearest patch", "by distance"):
        assert again[name] == pytest.approx(stored[name], rel=1e-3)
    assert again["mae"] == pytest.approx(stored["mae"], rel=0.15)


def test_for_each_of_five_seeds_it_is_better_than_copying_and_not_as_good_as_averaging_by_distance():
    assert len(STORED) == 5
    for run in STORED:
        assert run["by distance"] < run["mae"] < run["nearest patch"] < run["mean colour"] < run["mean image"]
        assert run["mae visible"] > 2 * run["mae"]  # the loss never asked for those


def test_the_baselines_leave_what_is_visible_and_find_a_constant_image():
    visible = random_masking(2, 64, generator=Generator().manual_seed(0))
    hidden = masked_pixels(visible, ViTConfig(**PHOTO, **COMMON))
    images, flat = torch.randn(2, 3, 32, 32), torch.full((2, 3, 32, 32), 0.7)
    seen = ~hidden.expand_as(images)
    assert torch.equal(nearest_visible(images, visible)[seen], images[seen])
    torch.testing.assert_close(by_distance(flat, hidden), flat)


def test_the_nearest_patch_is_a_visible_neighbour():
    images, visible = torch.randn(1, 3, 32, 32), torch.tensor([[9, 63]])
    copied, whole = patchify(nearest_visible(images, visible), 4), patchify(images, 4)
    assert torch.equal(copied[0, 0], whole[0, 9])
    assert torch.equal(copied[0, 62], whole[0, 63])
