"""Patches and windows: which number goes where, the way back, and what is refused."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from lib.vit import join_windows, patch_grid, patchify, split_windows, unpatchify


def counted(*shape: int) -> torch.Tensor:
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).view(shape)


def test_a_patch_holds_the_pixels_of_its_square_channel_by_channel_in_reading_order():
    images = counted(2, 3, 8, 12)
    patches = patchify(images, 4)
    assert patches.shape == (2, 6, 48)
    for n in range(6):
        row, column = divmod(n, 3)
        square = images[:, :, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
        assert torch.equal(patches[:, n], square.flatten(1))


DTYPES = st.sampled_from([torch.float32, torch.float16, torch.float64, torch.uint8, torch.bool, torch.int64])
few, some = st.integers(0, 3), st.integers(1, 4)


@given(few, some, some, some, some, DTYPES)
def test_unpatchify_is_the_inverse(batch, channels, rows, columns, size, dtype):
    images = counted(batch, channels, rows * size, columns * size).to(dtype)
    patches = patchify(images, size)
    assert patches.shape == (batch, rows * columns, channels * size**2)
    back = unpatchify(patches, size, (rows * size, columns * size))
    assert back.dtype == dtype
    assert torch.equal(back, images)


@given(few, some, some, some, some)
def test_patchify_is_the_inverse_of_unpatchify(batch, channels, rows, columns, size):
    patches = counted(batch, rows * columns, channels * size**2)
    images = unpatchify(patches, size, (rows * size, columns * size))
    assert images.shape == (batch, channels, rows * size, columns * size)
    assert torch.equal(patchify(images, size), patches)


@given(few, some, some, some, some, DTYPES)
def test_windows_are_joined_as_they_were_split(batch, dim, down, across, window, dtype):
    grid = (down * window, across * window)
    tokens = counted(batch, grid[0] * grid[1], dim).to(dtype)
    windows = split_windows(tokens, grid, window)
    assert windows.shape == (batch * down * across, window**2, dim)
    assert torch.equal(join_windows(windows, grid, window), tokens)


def test_images_need_not_be_contiguous():
    images = counted(2, 8, 12, 3).permute(0, 3, 1, 2)
    assert torch.equal(patchify(images, 4), patchify(images.contiguous(), 4))
    patches = patchify(images, 4)
    assert torch.equal(unpatchify(patches.mT.contiguous().mT, 4, (8, 12)), images)


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: patchify(x, 2), (1, 2, 4, 6)),
        (lambda x: unpatchify(x, 2, (4, 6)), (1, 6, 8)),
        (lambda x: split_windows(x, (4, 6), 2), (1, 24, 2)),
        (lambda x: join_windows(x, (4, 6), 2), (6, 4, 2)),
    ],
    ids=["patchify", "unpatchify", "split_windows", "join_windows"],
)
def test_gradients_are_those_of_finite_differences(function, shape: tuple[int, ...]):
    assert torch.autograd.gradcheck(function, torch.randn(shape, dtype=torch.float64, requires_grad=True))


def test_without_an_image_size_the_image_is_square():
    images = counted(2, 3, 6, 6)
    assert torch.equal(unpatchify(patchify(images, 2), 2), images)


def test_patches_are_the_columns_of_unfold():
    images = counted(2, 3, 6, 9)
    assert torch.equal(patchify(images, 3), F.unfold(images, kernel_size=3, stride=3).transpose(1, 2))


def test_patch_grid_counts_down_and_across():
    assert patch_grid(224, 320, 16) == (14, 20)


@pytest.mark.parametrize(("height", "width"), [(30, 32), (32, 30)])
def test_a_patch_size_that_does_not_divide_is_refused_with_both_numbers(height: int, width: int):
    with pytest.raises(
        ValueError, match=f"patch_size must divide the image, got patch_size = 4 and image {height} × {width}"
    ):
        patchify(torch.zeros(1, 3, height, width), 4)


@pytest.mark.parametrize("size", [0, -2])
def test_a_patch_has_at_least_one_pixel(size: int):
    with pytest.raises(ValueError, match=f"patch_size = {size}"):
        patchify(torch.zeros(1, 3, 4, 4), size)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: patchify(torch.zeros(3, 8, 8), 4),
            r"images must be \(batch, channels, height, width\), got \(3, 8, 8\)",
        ),
        (lambda: unpatchify(torch.zeros(1, 4, 10), 2), "patch_size = 2, got .1, 4, 10."),
        (lambda: unpatchify(torch.zeros(1, 6, 4), 2), "fill 2 × 2 places, got 6; is image_size missing"),
        (lambda: unpatchify(torch.zeros(1, 6, 4), 2, (4, 4)), "fill 2 × 2 places, got 6"),
        (lambda: unpatchify(torch.zeros(1, 6, 4), 2, (5, 6)), "patch_size = 2 and image 5 × 6"),
        (lambda: split_windows(torch.zeros(1, 24, 3), (4, 6), 4), "window = 4 and grid 4 × 6"),
        (lambda: split_windows(torch.zeros(1, 25, 3), (4, 6), 2), "tokens must be .batch, 4 · 6, dim., got .1, 25, 3."),
        (lambda: join_windows(torch.zeros(5, 4, 3), (4, 6), 2), "windows must be .batch · 6, 4, dim., got .5, 4, 3."),
    ],
)
def test_what_does_not_fit_is_refused(call, message: str):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_window_holds_the_tokens_of_its_square_in_reading_order():
    tokens = counted(2, 4 * 6, 5)
    windows = split_windows(tokens, (4, 6), 2)
    assert windows.shape == (2 * 6, 4, 5)
    grid = tokens.view(2, 4, 6, 5)
    for n in range(6):
        row, column = divmod(n, 3)
        square = grid[:, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2].flatten(1, 2)
        assert torch.equal(windows.view(2, 6, 4, 5)[:, n], square)


def test_windows_of_tokens_are_patches_of_an_image_of_tokens():
    tokens = counted(2, 4 * 6, 5)
    image = tokens.view(2, 4, 6, 5).permute(0, 3, 1, 2)
    patches = patchify(image, 2).unflatten(-1, (5, 4)).transpose(-2, -1)
    assert torch.equal(split_windows(tokens, (4, 6), 2), patches.flatten(0, 1))
