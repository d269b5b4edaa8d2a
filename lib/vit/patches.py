"""Images as rows of patches, grids of tokens as windows, and back: rearrangements, in which no number changes."""

import math

from torch import Tensor


def patch_grid(
    height: int, width: int, patch_size: int, *, name: str = "patch_size", whole: str = "image"
) -> tuple[int, int]:
    """Return how many squares there are down and across; ValueError, with these names, if `patch_size` doesn't divide.

    >>> patch_grid(224, 320, 16)
    (14, 20)
    """
    if patch_size < 1 or min(height, width) < 1 or height % patch_size or width % patch_size:
        raise ValueError(f"{name} must divide the {whole}, got {name} = {patch_size} and {whole} {height} × {width}")
    return height // patch_size, width // patch_size


def patchify(images: Tensor, patch_size: int) -> Tensor:
    """Cut images into square patches, in reading order, and lay each out as a row: channel by channel, row by row.

        nn.Conv2d(channels, dim, P, stride=P)(x) at patch n  =  W.flatten(1) patchify(x, P)ₙ + bias

    Args:
        images: (batch, channels, height, width).
        patch_size: P, side of a patch in pixels; divides height and width.

    Returns:
        (batch, patches, channels · P²), patches = height / P · width / P.

    Raises:
        ValueError: `patch_size` doesn't divide the image, or `images` has other axes.

    Source: Dosovitskiy et al. 2021, §3.1.

    >>> import torch
    >>> patchify(torch.arange(16.0).view(1, 1, 4, 4), 2)[0, 1]  # the second patch: top right
    tensor([2., 3., 6., 7.])
    """
    if images.ndim != 4:
        raise ValueError(f"images must be (batch, channels, height, width), got {tuple(images.shape)}")
    batch, channels, height, width = images.shape
    p = patch_size
    rows, columns = patch_grid(height, width, p)
    x = images.reshape(batch, channels, rows, p, columns, p)
    x = x.permute(0, 2, 4, 1, 3, 5)  # (batch, rows, columns, channels, P, P)
    return x.reshape(batch, rows * columns, channels * p**2)  # (batch, patches, channels · P²)


def unpatchify(patches: Tensor, patch_size: int, image_size: tuple[int, int] | None = None) -> Tensor:
    """Put patches (batch, patches, channels · P²) together to images: the inverse of `patchify`.

    `image_size` is (height, width) in pixels, square when left out. Raises ValueError where the patches don't fill it.

    >>> import torch
    >>> unpatchify(torch.zeros(2, 6, 12), 2, (4, 6)).shape
    torch.Size([2, 3, 4, 6])
    """
    p = patch_size
    if patches.ndim != 3 or p < 1 or patches.shape[-1] % p**2:
        wanted = f"(batch, patches, channels · patch_size²) with patch_size = {p}"
        raise ValueError(f"patches must be {wanted}, got {tuple(patches.shape)}")
    batch, count, numbers = patches.shape
    height, width = (math.isqrt(count) * p,) * 2 if image_size is None else image_size
    rows, columns = patch_grid(height, width, p)
    if rows * columns != count:
        raise ValueError(f"patches must fill {rows} × {columns} places, got {count}; is image_size missing?")
    channels = numbers // p**2
    x = patches.reshape(batch, rows, columns, channels, p, p)
    x = x.permute(0, 3, 1, 4, 2, 5)  # (batch, channels, rows, P, columns, P)
    return x.reshape(batch, channels, height, width)


def split_windows(tokens: Tensor, grid: tuple[int, int], window: int) -> Tensor:
    """Cut a grid of tokens into square windows; attention within them compares N · M² pairs instead of N².

    Args:
        tokens: (batch, N, dim), N = rows · columns, in reading order.
        grid: (rows, columns).
        window: M, side of a window in tokens; divides rows and columns.

    Returns:
        (batch · windows, M², dim), windows and the tokens in them in reading order.

    Raises:
        ValueError: `window` doesn't divide the grid, or the tokens don't fill it.

    Source: Liu et al. 2021, §3.2.

    >>> import torch
    >>> split_windows(torch.arange(16.0).view(1, 16, 1), (4, 4), 2)[1].flatten()
    tensor([2., 3., 6., 7.])
    """
    rows, columns = grid
    if tokens.ndim != 3 or tokens.shape[1] != rows * columns:
        raise ValueError(f"tokens must be (batch, {rows} · {columns}, dim), got {tuple(tokens.shape)}")
    down, across = patch_grid(rows, columns, window, name="window", whole="grid")
    batch, _, dim = tokens.shape
    x = tokens.reshape(batch, down, window, across, window, dim)
    x = x.transpose(2, 3)  # (batch, down, across, M, M, dim)
    return x.reshape(batch * down * across, window**2, dim)


def join_windows(windows: Tensor, grid: tuple[int, int], window: int) -> Tensor:
    """Put windows (batch · windows, M², dim) together to grids of tokens: the inverse of `split_windows`.

    Raises ValueError where `window` doesn't divide the grid, or the windows don't fill whole grids.

    >>> import torch
    >>> join_windows(torch.zeros(12, 4, 3), (4, 6), 2).shape
    torch.Size([2, 24, 3])
    """
    rows, columns = grid
    down, across = patch_grid(rows, columns, window, name="window", whole="grid")
    if windows.ndim != 3 or windows.shape[1] != window**2 or windows.shape[0] % (down * across):
        wanted = f"(batch · {down * across}, {window**2}, dim)"
        raise ValueError(f"windows must be {wanted}, got {tuple(windows.shape)}")
    batch, dim = windows.shape[0] // (down * across), windows.shape[2]
    x = windows.reshape(batch, down, across, window, window, dim)
    x = x.transpose(2, 3)  # (batch, down, M, across, M, dim)
    return x.reshape(batch, rows * columns, dim)
