"""Small sets of images: a bright block to be found, drawn here; real digits and real photographs, from scikit-learn."""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from lib.checks import check_at_least

HELD_OUT = 0.4  # share of a photograph's width, from the left, that training does not see


def bright_block(
    n: int,
    *,
    generator: Generator,
    size: int = 32,
    block: int = 6,
    channels: int = 3,
    noise: float = 0.3,
    brightness: float = 2.0,
) -> tuple[Tensor, Tensor]:
    """Draw noisy square images with one bright square block; the label is the quadrant that holds it.

    Quadrants are counted as one reads: 0 and 1 above, 2 and 3 below. The block stands anywhere in its quadrant, in
    whole pixels, and never across two. All channels show it, each with normal noise of its own.

    Args:
        n: number of images.
        generator: source of the random draws.
        size: side of an image in pixels, even.
        block: side of the block in pixels, at most `size` / 2.
        channels: number of channels.
        noise: standard deviation of the noise.
        brightness: what the block adds to the noise.

    Returns:
        Images (n, channels, size, size) and labels (n,).

    Raises:
        ValueError: a number is below 1, `size` is odd, the block doesn't fit, or `noise` is negative.

    >>> images, labels = bright_block(2, generator=torch.Generator().manual_seed(0), noise=0.0, size=8, block=2)
    >>> images.shape, images.sum((1, 2, 3))  # 3 channels × 2 × 2 pixels × brightness 2
    (torch.Size([2, 3, 8, 8]), tensor([24., 24.]))
    """
    check_at_least(1, n=n, block=block, channels=channels)
    check_at_least(0, noise=noise)
    if size % 2 or block > size // 2:
        raise ValueError(f"size must be even and block within half of it, got size = {size}, block = {block}")
    label = torch.randint(4, (n,), generator=generator)
    quadrant = torch.stack([label // 2, label % 2])  # (row or column, n)
    corner = quadrant * (size // 2) + torch.randint(size // 2 - block + 1, (2, n), generator=generator)
    offset = torch.arange(size) - corner[..., None]  # (row or column, n, size): how far past the corner
    rows, columns = ((offset >= 0) & (offset < block)).float()
    images = noise * torch.randn(n, channels, size, size, generator=generator)
    images += brightness * (rows[:, :, None] * columns[:, None, :])[:, None]
    return images, label


def digit_images() -> tuple[Tensor, Tensor]:
    """Return scikit-learn's handwritten digits: 1797 real images of 8 × 8 grey pixels, in the order they are stored.

    Each pixel counts the ink in a square of 4 × 4 of a scan; 0 is paper and 1 full ink.

    Returns:
        Images (1797, 1, 8, 8) in 0 … 1 and labels (1797,), the digits 0 … 9.

    Raises:
        ImportError: scikit-learn, which brings the images along, is not installed.

    Source: Alpaydin & Kaynak 1998, Cascading Classifiers; UCI Machine Learning Repository, test part.

    >>> images, labels = digit_images()
    >>> images.shape, labels[:5]
    (torch.Size([1797, 1, 8, 8]), tensor([0, 1, 2, 3, 4]))
    """
    ink, labels = _scikit_learn("digit_images").load_digits(return_X_y=True)
    return torch.tensor(ink, dtype=torch.float32).view(-1, 1, 8, 8) / 16, torch.tensor(labels)


def photo_crops(n: int, *, generator: Generator, size: int = 32, held_out: bool = False) -> Tensor:
    """Cut random squares from scikit-learn's two photographs, of a tower in China and of a flower, at half their size.

    What is held out comes from the left 40 % of each photograph, the rest from the right 60 %: no pixel is in both.

    Args:
        n: number of images.
        generator: source of the random draws.
        size: side of a square in pixels.
        held_out: whether to cut from the left part.

    Returns:
        (n, 3, size, size), colours in 0 … 1.

    Raises:
        ValueError: `n` or `size` is below 1, or the squares don't fit.
        ImportError: scikit-learn, which brings the photographs along, is not installed.

    Source: photographs by danielbuechele and vultilion on Flickr, CC BY 2.0.

    >>> photo_crops(4, generator=torch.Generator().manual_seed(0)).shape
    torch.Size([4, 3, 32, 32])
    """
    photos = _half_size_photos()
    height, width = photos.shape[-2:]
    border = round(HELD_OUT * width)
    low, high = (0, border) if held_out else (border, width)
    check_at_least(1, n=n)
    if not 1 <= size <= min(height, high - low):
        raise ValueError(f"size must lie in 1 … {min(height, high - low)}, got {size}")
    which = torch.randint(len(photos), (n, 1, 1, 1), generator=generator)
    top = torch.randint(height - size + 1, (n, 1, 1, 1), generator=generator)
    left = torch.randint(low, high - size + 1, (n, 1, 1, 1), generator=generator)
    rows, columns = top + torch.arange(size)[:, None], left + torch.arange(size)
    return photos[which, torch.arange(3)[:, None, None], rows, columns]


@cache
def _half_size_photos() -> Tensor:
    """(photo, 3, height, width)"""
    photos = [torch.tensor(photo) for photo in _scikit_learn("photo_crops").load_sample_images().images]
    return F.avg_pool2d(torch.stack(photos).permute(0, 3, 1, 2) / 255, 2)


def _scikit_learn(caller: str) -> Any:
    try:
        from sklearn import datasets
    except ImportError as error:
        raise ImportError(f"{caller} needs scikit-learn: pip install scikit-learn") from error
    return datasets
