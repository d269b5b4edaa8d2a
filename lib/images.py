"""Small sets of images: a bright block to be found, drawn here, and real handwritten digits, from scikit-learn."""

import torch
from torch import Generator, Tensor


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
    if min(n, channels, block) < 1 or size % 2 or block > size // 2 or noise < 0:
        got = f"n = {n}, channels = {channels}, size = {size}, block = {block}, noise = {noise}"
        raise ValueError(
            f"counts must be at least 1, size even, block within half of it, noise not negative, got {got}"
        )
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
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError("digit_images needs scikit-learn: pip install scikit-learn") from error
    ink, labels = load_digits(return_X_y=True)
    return torch.tensor(ink, dtype=torch.float32).view(-1, 1, 8, 8) / 16, torch.tensor(labels)
