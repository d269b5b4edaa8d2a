"""Images: where the bright block may stand, and what scikit-learn's digits are."""

import sys
from typing import Any

import pytest
import torch
from torch import Generator

from lib.data import bright_block, digit_images, photo_crops


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def test_the_block_is_a_square_within_the_labelled_quadrant():
    images, labels = bright_block(500, generator=seeded(), noise=0.0, size=20, block=3, channels=2, brightness=5.0)
    assert images.shape == (500, 2, 20, 20)
    for image, label in zip(images, labels.tolist(), strict=True):
        places = (image[0] == 5.0).nonzero()
        low, high = places.amin(0), places.amax(0)
        assert len(places) == 9
        assert (high - low).tolist() == [2, 2]
        assert (low // 10).tolist() == (high // 10).tolist() == [label // 2, label % 2]
        assert torch.equal(image[0], image[1])


def test_every_place_in_every_quadrant_is_drawn():
    images, _ = bright_block(4000, generator=seeded(), noise=0.0, size=8, block=2, channels=1)
    corners = {tuple(image[0].nonzero()[0].tolist()) for image in images}
    steps = (0, 1, 2, 4, 5, 6)
    assert corners == {(row, column) for row in steps for column in steps}


def test_noise_is_as_strong_as_asked_and_differs_between_channels():
    images, _ = bright_block(200, generator=seeded(), noise=0.3, brightness=0.0)
    assert images.std().item() == pytest.approx(0.3, abs=0.005)
    assert abs((images[:, 0] * images[:, 1]).mean().item()) < 0.001


def test_all_quadrants_come_up_alike():
    _, labels = bright_block(4000, generator=seeded(), size=4, block=1, channels=1)
    assert torch.bincount(labels).div(4000).tolist() == pytest.approx([0.25] * 4, abs=0.03)


def test_the_same_seed_gives_the_same_images_and_leaves_the_global_seed_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first, again, other = (bright_block(3, generator=seeded(seed))[0] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n must be at least 1, got 0"),
        ({"size": 31}, "got size = 31"),
        ({"size": 10, "block": 6}, "got size = 10, block = 6"),
        ({"size": 0}, "got size = 0"),
        ({"block": 0}, "block must be at least 1, got 0"),
        ({"channels": 0}, "channels must be at least 1, got 0"),
        ({"noise": -0.1}, "noise must be at least 0, got -0.1"),
        ({"noise": float("nan")}, "noise must be at least 0, got nan"),
    ],
)
def test_bad_numbers_are_refused(options: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        bright_block(**({"n": 2} | options), generator=seeded())


def test_digits_are_real_images_of_eight_by_eight():
    images, labels = digit_images()
    assert images.shape == (1797, 1, 8, 8)
    assert images.dtype == torch.float32
    assert (images.min(), images.max()) == (0, 1)
    assert torch.equal((16 * images).round(), 16 * images)  # 17 levels of ink
    assert labels.shape == (1797,)
    assert labels.unique().tolist() == list(range(10))
    assert labels.bincount().min() > 170


def test_a_one_is_upright_and_a_zero_is_hollow():
    images, labels = digit_images()
    mean = torch.stack([images[labels == digit].mean((0, 1)) for digit in range(10)])
    assert mean[0, 3:5, 3:5].max() < 0.3 < mean[0, 1].max()
    assert mean[1, :, 3:5].mean() > 2 * mean[1, :, [0, 1, 6, 7]].mean()


def test_without_scikit_learn_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ImportError, match="digit_images needs scikit-learn: pip install scikit-learn"):
        digit_images()


def test_crops_are_colour_pictures_cut_at_random():
    crops = photo_crops(300, generator=seeded(), size=20)
    assert crops.shape == (300, 3, 20, 20)
    assert crops.min() >= 0
    assert 0.9 < crops.max() <= 1
    assert len({crop.sum().item() for crop in crops}) > 290
    assert torch.equal(photo_crops(5, generator=seeded(3)), photo_crops(5, generator=seeded(3)))


def test_neighbouring_pixels_of_a_photograph_are_alike():
    crops = photo_crops(200, generator=seeded())
    shuffled = crops.flatten(2)[..., torch.randperm(32 * 32, generator=seeded())].view_as(crops)
    assert crops.diff(dim=-1).abs().mean() < 0.5 * shuffled.diff(dim=-1).abs().mean()


def test_held_out_crops_share_no_pixel_with_the_others(monkeypatch: pytest.MonkeyPatch):
    columns = torch.arange(320.0).expand(2, 3, 213, 320)  # each pixel tells its column
    monkeypatch.setattr("lib.data.images._half_size_photos", lambda: columns)
    seen, held_out = (photo_crops(4000, generator=seeded(), size=8, held_out=out) for out in (False, True))
    assert (seen.min(), seen.max(), held_out.min(), held_out.max()) == (128, 319, 0, 127)


@pytest.mark.parametrize(("size", "held_out", "most"), [(0, False, 192), (193, False, 192), (129, True, 128)])
def test_squares_that_do_not_fit_are_refused(size: int, held_out: bool, most: int):
    with pytest.raises(ValueError, match=f"size must lie in 1 … {most}, got {size}"):
        photo_crops(1, generator=seeded(), size=size, held_out=held_out)


def test_at_least_one_square_is_cut():
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        photo_crops(0, generator=seeded())
