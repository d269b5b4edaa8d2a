"""Images as rows of patches, grids of tokens as windows, and back: rearrangements, in which no number changes."""

import math

from torch import Tensor


def patch_grid(
    height: int, width: int, patch_size: int, *, name: str = "patch_size", whole: str = "image"
) -> tuple[int, int]:
    """Return how many square pieces there are down and across; `name` and `whole` are what an error calls them.

    Raises:
        ValueError: `patch_size` doesn't divide both sides.

    >>> patch_grid(224, 320, 16)
    (14, 20)
    """
    if patch_size < 1 or min(height, width) < 1 or height % patch_size or width % patch_size:
        raise ValueError(f"{name} must divide the {whole}, got {name} = {patch_size} and {whole} {height} × {width}")
    return height // patch_size, width // patch_size


def patchify(images: Tensor, patch_size: int) -> Tensor:
    """Cut images into square patches and lay each out as a row of numbers.

    Patches are in reading order: from left to right, then downwards. The numbers of a patch go channel by channel,
    within a channel row by row, as in the weights of a convolution: so for the weights W of `nn.Conv2d(channels,
    dim, P, stride=P)`

        Conv2d(x) at patch n  =  W.flatten(1) patchify(x, P)ₙ + bias

    Args:
        images: (batch, channels, height, width).
        patch_size: P, side of a patch in pixels; divides height and width.

    Returns:
        (batch, patches, channels · P²), patches = height / P · width / P.

    Raises:
        ValueError: `patch_size` doesn't divide the image, or `images` has other axes.

    Source: Dosovitskiy et al. 2021, §3.1.

    >>> import torch
    >>> image = torch.arange(16.0).view(1, 1, 4, 4)
    >>> patchify(image, 2)[0, 1]  # the second patch: top right
    tensor([2., 3., 6., 7.])
    >>> patchify(torch.zeros(8, 3, 224, 224), 16).shape
    torch.Size([8, 196, 768])
    """
    if images.ndim != 4:
        raise ValueError(f"images must be (batch, channels, height, width), got {tuple(images.shape)}")
    _, channels, height, width = images.shape
    rows, columns = patch_grid(height, width, patch_size)
    x = images.unflatten(3, (columns, patch_size)).unflatten(2, (rows, patch_size))
    x = x.permute(0, 2, 4, 1, 3, 5)  # (batch, row, column, channel, row in patch, column in patch)
    return x.reshape(len(images), rows * columns, channels * patch_size**2)


def unpatchify(patches: Tensor, patch_size: int, image_size: tuple[int, int] | None = None) -> Tensor:
    """Put patches together to images: the inverse of `patchify`.

    Args:
        patches: (batch, patches, channels · P²), in the order of `patchify`.
        patch_size: P, side of a patch in pixels.
        image_size: (height, width) in pixels; square when left out.

    Returns:
        (batch, channels, height, width).

    Raises:
        ValueError: `patch_size` doesn't divide the image, or the patches don't fill it.

    >>> import torch
    >>> images = torch.arange(2 * 3 * 4 * 6.0).view(2, 3, 4, 6)
    >>> torch.equal(unpatchify(patchify(images, 2), 2, (4, 6)), images)
    True
    """
    if patches.ndim != 3 or patch_size < 1 or patches.shape[-1] % patch_size**2:
        wanted = f"(batch, patches, channels · patch_size²) with patch_size = {patch_size}"
        raise ValueError(f"patches must be {wanted}, got {tuple(patches.shape)}")
    count = patches.shape[1]
    height, width = (math.isqrt(count) * patch_size,) * 2 if image_size is None else image_size
    rows, columns = patch_grid(height, width, patch_size)
    if rows * columns != count:
        raise ValueError(f"patches must fill {rows} × {columns} places, got {count}; is image_size missing?")
    channels = patches.shape[-1] // patch_size**2
    x = patches.reshape(-1, rows, columns, channels, patch_size, patch_size)
    return x.permute(0, 3, 1, 4, 2, 5).reshape(-1, channels, height, width)


def split_windows(tokens: Tensor, grid: tuple[int, int], window: int) -> Tensor:
    """Cut a grid of tokens into square windows, each a short sequence of its own; attention then stays inside.

    With N tokens, windows of M × M make N · M² pairs instead of N².

    Args:
        tokens: (batch, rows · columns, dim), in reading order.
        grid: (rows, columns).
        window: M, side of a window in tokens; divides rows and columns.

    Returns:
        (batch · windows, M², dim), windows and the tokens in them in reading order.

    Raises:
        ValueError: `window` doesn't divide the grid, or the tokens don't fill it.

    Source: Liu et al. 2021, §3.2.

    >>> import torch
    >>> tokens = torch.arange(16.0).view(1, 16, 1)
    >>> split_windows(tokens, (4, 4), 2)[1].flatten()
    tensor([2., 3., 6., 7.])
    """
    rows, columns = grid
    if tokens.ndim != 3 or tokens.shape[1] != rows * columns:
        raise ValueError(f"tokens must be (batch, {rows} · {columns}, dim), got {tuple(tokens.shape)}")
    down, across = patch_grid(rows, columns, window, name="window", whole="grid")
    x = tokens.reshape(-1, down, window, across, window, tokens.shape[2]).transpose(2, 3)
    return x.reshape(-1, window**2, tokens.shape[2])


def join_windows(windows: Tensor, grid: tuple[int, int], window: int) -> Tensor:
    """Put windows together to grids of tokens: the inverse of `split_windows`.

    Args:
        windows: (batch · windows, M², dim).
        grid: (rows, columns).
        window: M.

    Returns:
        (batch, rows · columns, dim).

    Raises:
        ValueError: `window` doesn't divide the grid, or the windows don't fill a whole number of grids.

    >>> import torch
    >>> tokens = torch.arange(2 * 24 * 3.0).view(2, 24, 3)
    >>> torch.equal(join_windows(split_windows(tokens, (4, 6), 2), (4, 6), 2), tokens)
    True
    """
    rows, columns = grid
    down, across = patch_grid(rows, columns, window, name="window", whole="grid")
    if windows.ndim != 3 or windows.shape[1] != window**2 or len(windows) % (down * across):
        wanted = f"(batch · {down * across}, {window**2}, dim)"
        raise ValueError(f"windows must be {wanted}, got {tuple(windows.shape)}")
    x = windows.reshape(-1, down, across, window, window, windows.shape[2]).transpose(2, 3)
    return x.reshape(-1, rows * columns, windows.shape[2])
