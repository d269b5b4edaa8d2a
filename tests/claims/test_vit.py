"""What chapter 2.1.3 claims about the kernels of ViT: V1, V2, V4, and the parts of V3 and V6 that need no training."""

import math
from typing import Literal

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import ViTConfig as TheirConfig

from lib.attention import MultiHeadAttention
from lib.data import bright_block, digit_images
from lib.data.images import HELD_OUT
from lib.transformer import count_parameters
from lib.vit import ViT, ViTConfig, join_windows, patchify, random_masking, split_windows, unpatchify
from tests.claims.prose import stated

Pooling = Literal["cls", "mean"]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def quadrant_model(positions: Literal["random", "sinusoidal", "none"], pooling: Pooling = "cls") -> ViT:
    options = {"dim": 64, "layers": 2, "heads": 4, "classes": 4, "pooling": pooling, "positions": positions}
    return ViT(ViTConfig(image_size=32, patch_size=4, channels=3, **options)).eval()


def test_v1_224_by_16_is_196_tokens_of_768_numbers():
    assert patchify(torch.zeros(2, 3, 224, 224), 16).shape == (2, 14 * 14, 3 * 16 * 16) == (2, 196, 768)


@pytest.mark.parametrize(("height", "width", "size"), [(224, 224, 16), (32, 48, 4), (6, 9, 3)])
def test_v1_patchify_and_a_matrix_are_a_strided_convolution(height: int, width: int, size: int):
    images = torch.randn(2, 3, height, width, dtype=torch.float64)
    convolution = nn.Conv2d(3, 10, size, stride=size).double()
    tokens = F.linear(patchify(images, size), convolution.weight.flatten(1), convolution.bias)
    torch.testing.assert_close(tokens, convolution(images).flatten(2).mT)
    assert torch.equal(unpatchify(patchify(images, size), size, (height, width)), images)


def test_v1_a_strided_convolution_drops_what_does_not_fit_and_patchify_refuses():
    images = torch.zeros(1, 1, 30, 30)
    images[..., 28:, :] = 1
    assert (nn.Conv2d(1, 2, 4, stride=4, bias=False)(images) == 0).all()
    with pytest.raises(ValueError, match="patch_size = 4 and image 30 × 30"):
        patchify(images, 4)


@pytest.mark.parametrize(("pooling", "tokens"), [("cls", 65), ("mean", 64)])
def test_v2_cls_is_one_token_more_and_mean_pooling_does_without(pooling: Pooling, tokens: int):
    model = quadrant_model("random", pooling)
    encoded, weights = model.encode(torch.randn(3, 3, 32, 32), need_weights=True)
    assert encoded.shape == (3, tokens, 64)
    assert weights is not None
    assert weights.shape == (3, 2, 4, tokens, tokens)
    assert model.positions is not None
    assert model.positions.weight.shape == (tokens, 64)
    pooled = encoded[:, 0] if pooling == "cls" else encoded.mean(1)
    torch.testing.assert_close(model.classify(encoded), model.head(pooled))


def test_v2_vit_b_16_has_86_6_million_parameters_nearly_all_in_the_encoder():
    with torch.device("meta"):
        model = ViT(ViTConfig(image_size=224, patch_size=16, channels=3, dim=768, layers=12, heads=12, classes=1000))
    total, encoder = count_parameters(model), count_parameters(model.encoder)
    assert total == 86_567_656
    assert 12 * 12 * 768**2 < encoder < 12 * 12 * 768**2 * 1.01
    for part in (model.patch_embed, model.positions):
        assert part is not None
        assert count_parameters(part) < 0.01 * total


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize(("rows", "columns"), [(0, 16), (16, 0), (16, 16), (4, 8)])
def test_v3_without_positions_rolling_by_whole_patches_changes_nothing(pooling: Pooling, rows: int, columns: int):
    images, _ = bright_block(20, generator=torch.Generator().manual_seed(0))
    rolled = images.roll((rows, columns), (-2, -1))
    lost, located = quadrant_model("none", pooling), quadrant_model("sinusoidal", pooling)
    torch.testing.assert_close(lost(rolled), lost(images), atol=1e-5, rtol=1e-4)
    assert not torch.allclose(located(rolled), located(images), atol=1e-3)


def test_v3_without_positions_exactly_one_of_the_four_rolled_images_is_answered_right():
    images, labels = bright_block(60, generator=torch.Generator().manual_seed(0))
    lost, right = quadrant_model("none"), 0
    for rows, columns in ((0, 0), (0, 1), (1, 0), (1, 1)):
        answers = lost(images.roll((16 * rows, 16 * columns), (-2, -1))).argmax(-1)
        right += (answers == labels.bitwise_xor(torch.tensor(2 * rows + columns))).sum().item()
    assert right == 60


def test_v3_within_a_patch_a_shift_is_noticed_without_positions():
    images, _ = bright_block(20, generator=torch.Generator().manual_seed(0))
    lost = quadrant_model("none")
    assert not torch.allclose(lost(images.roll(1, -1)), lost(images), atol=1e-3)


@pytest.mark.parametrize("r", [2, 3, 5])
def test_v4_a_side_r_times_as_long_makes_r_squared_tokens_and_r_to_the_fourth_pairs(r: int):
    small, large = (patchify(torch.zeros(1, 1, side, side), 4).shape[1] for side in (28, 28 * r))
    assert large == r**2 * small
    assert large**2 == r**4 * small**2
    windows = [split_windows(torch.zeros(1, (7 * k) ** 2, 1), (7 * k, 7 * k), 7) for k in (1, r)]
    pairs = [len(window) * window.shape[1] ** 2 for window in windows]
    assert pairs[1] == r**2 * pairs[0]


def test_v4_attention_in_windows_is_masked_attention_and_its_work_is_linear_in_tokens():
    attend = MultiHeadAttention(16, 2)
    x = torch.randn(2, 8 * 12, 16)
    index = torch.arange(96)
    window = 3 * (index // 12 // 4) + index % 12 // 4
    windowed = join_windows(attend(split_windows(x, (8, 12), 4))[0], (8, 12), 4)
    torch.testing.assert_close(windowed, attend(x, mask=window[:, None] == window)[0])

    def flops(tokens: torch.Tensor) -> int:
        with FlopCounterMode(display=False) as counter:
            attend(tokens, need_weights=True)
        return counter.get_total_flops()

    n, d, m = 96, 16, 4
    assert flops(x[:1]) == 8 * n * d**2 + 4 * n**2 * d
    assert flops(split_windows(x[:1], (8, 12), m)) == 8 * n * d**2 + 4 * n * m**2 * d


def test_v4_windows_exchange_nothing_unless_they_are_shifted():
    attend = MultiHeadAttention(16, 2)

    def layer(y: torch.Tensor, shift: int) -> torch.Tensor:
        y = y.unflatten(1, (8, 8)).roll((-shift, -shift), (1, 2)).flatten(1, 2)
        y = join_windows(attend(split_windows(y, (8, 8), 4))[0], (8, 8), 4)
        return y.unflatten(1, (8, 8)).roll((shift, shift), (1, 2)).flatten(1, 2)

    for shift, reached in ((0, 16), (2, 64)):
        x = torch.randn(1, 64, 16, requires_grad=True)
        (gradient,) = torch.autograd.grad(layer(layer(x, 0), shift)[0, 3 * 8 + 3].sum(), x)
        assert (gradient[0].abs().sum(-1) > 0).sum() == reached


def test_v5_convolution_commutes_with_a_shift_and_patchify_with_shifts_by_whole_patches_only():
    images = digit_images()[0][:20]
    convolution = nn.Conv2d(1, 4, 3, padding=1, padding_mode="circular")
    torch.testing.assert_close(convolution(images.roll(1, -1)), convolution(images).roll(1, -1))
    grid = patchify(images, 2).unflatten(1, (4, 4))
    by_two, by_one = (patchify(images.roll(k, -1), 2).unflatten(1, (4, 4)) for k in (2, 1))
    assert torch.equal(by_two, grid.roll(1, 2))
    assert not any(torch.equal(by_one, grid.roll(k, 2)) for k in range(4))


def test_v6_75_percent_hidden_leaves_a_quarter_of_the_tokens_and_a_sixteenth_of_the_pairs():
    visible = random_masking(4, 64, 0.75, generator=torch.Generator().manual_seed(0)).shape[1]
    assert (visible / 64, visible**2 / 64**2) == (1 / 4, 1 / 16)


def test_numbers_of_patches_that_the_prose_states():
    patches = patchify(torch.zeros(1, 3, 224, 224), 16)
    assert (
        patches.shape[1]
        == stated("vit", r"五万个像素变成 (\d+) 个图像块")
        == stated("vit", r"14\\times14 = (\d+) 个图像块")
    )
    assert patches.shape[2] == stated("vit", r"每个图像块 3\\times16\\times16 = (\d+) 个数")
    assert 50_000 < 224**2 < 51_000  # 五万多个像素
    assert round(224**4 / 1e8) == 25  # 二十五亿对
    assert patches.shape[1] ** 2 < 40_000  # 不到四万对
    larger = patchify(torch.zeros(1, 3, 384, 384), 16).shape[1]
    assert patches.shape[1] == stated("vit", r"的图，图像块从 (\d+) 个变成")
    assert larger == stated("vit", r"图像块从 196 个变成 (\d+) 个")
    assert round((larger - patches.shape[1]) * 768 / 1e4) == stated("vit", r"约 (\d+) 万")


def test_numbers_of_parameters_that_the_prose_states():
    layers, dim = (int(stated("vit", pattern)) for pattern in (r"「B」是 (\d+) 层", r"「B」是 \d+ 层、宽 (\d+)"))
    with torch.device("meta"):
        model = ViT(
            ViTConfig(image_size=224, patch_size=16, channels=3, dim=dim, layers=layers, heads=12, classes=1000)
        )
    assert round(count_parameters(model.encoder) / 1e6) == stated("vit", r"12 层是 (\d+) M")
    block, d = model.encoder.blocks[0], dim
    assert count_parameters(block) == 4 * (d**2 + d) + 8 * d**2 + 5 * d + 4 * d  # 练习 1
    eps = {"torch": nn.LayerNorm(3).eps, "theirs": TheirConfig().layer_norm_eps}
    assert math.log10(eps["torch"]) == pytest.approx(stated("vit", r"PyTorch 的 10\^\{(-\d+)\}"))
    assert math.log10(eps["theirs"]) == pytest.approx(stated("vit", r"默认 10\^\{(-\d+)\}"))


def test_numbers_of_images_that_the_prose_states():
    images, _ = digit_images()
    assert len(images) == stated("vit", r"带着 (\d+) 张真实的手写数字")
    assert (images * 16).unique().numel() == stated("vit", r"灰度有 (\d+) 级")
    parts = (r"分成三份：(\d+) 张训练", r"，(\d+) 张用来选参数（验证）", r"（验证），(\d+) 张测试")
    assert len(images) == sum(stated("vit", part) for part in parts)
    share = stated("vit", r"随机遮住 (\d+)% 的图像块")
    assert random_masking(1, 100, generator=torch.Generator()).shape[1] == 100 - share
    assert HELD_OUT == 0.4  # 测试用左边四成


def test_ratios_that_the_prose_states():
    assert stated("vit", r"就是 (\d+/\d+) 倍，大约") == (672 // 32) ** 4 / (224 // 16) ** 4
    window, d, n = 7, 96, 3136
    assert window**2 / (2 * d) == stated("vit", r"M\^2/2d = (\d+/\d+)")
    assert round(n / (2 * d)) == stated("vit", r"比值 N/2d，约 (\d+) 倍")
    products, projections = 4 * n**2 * d, 8 * n * d**2
    share = products / (products + 3 * projections)  # the feed-forward network is twice the projections
    assert round(100 * share) == stated("vit", r"仍占这一层的约 (\d+)%")


def test_pairs_that_the_prose_states():
    for side, whole, part in ((224, r"全局从 ([\d,]+) 对变成", r"窗口从 ([\d,]+) 对变成"),):
        tokens = (side // 16) ** 2
        assert tokens**2 == stated("vit", whole)
        assert tokens * 49 == stated("vit", part)
    tokens = (448 // 16) ** 2
    assert tokens**2 == stated("vit", r"全局从 [\d,]+ 对变成 ([\d,]+) 对，是 16 倍")
    assert tokens * 49 == stated("vit", r"窗口从 [\d,]+ 对变成 ([\d,]+) 对，是 4 倍")
    assert stated("vit", r"84\\times84 = (\d+)") == (1344 // 16) ** 2


def test_v4_a_shifted_window_needs_a_mask_and_the_mask_lets_through_what_adjoins_in_the_image():
    """Two tokens in a shifted window may exchange exactly if no wrapped edge lies between them."""
    place = torch.arange(64).view(8, 8)
    band = torch.tensor([0] * 4 + [1] * 2 + [2] * 2)
    region = (3 * band[:, None] + band).view(1, 64, 1)
    number = split_windows(region, (8, 8), 4)[..., 0]
    where = split_windows(place.roll((-2, -2), (0, 1)).reshape(1, 64, 1), (8, 8), 4)[..., 0]
    row, column = where // 8, where % 8
    near = ((row[:, :, None] - row[:, None]).abs() < 4) & ((column[:, :, None] - column[:, None]).abs() < 4)
    assert torch.equal(number[:, :, None] == number[:, None], near)
    assert near.sum((1, 2)).tolist() == [256, 128, 128, 64]
