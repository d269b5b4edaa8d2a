"""ViT: its parts by hand, its parameter counts, positions, pooling, and what is refused."""

import pickle
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, replace
from typing import Literal

import pytest
import torch
from torch import nn

from lib.transformer import count_parameters
from lib.vit import MaskedAutoencoder, ViT, ViTConfig, grid_positions, patchify, reconstruction_loss

SMALL = ViTConfig(image_size=(8, 12), patch_size=4, channels=3, dim=16, layers=2, heads=4, classes=5)
B16 = ViTConfig(image_size=224, patch_size=16, channels=3, dim=768, layers=12, heads=12, classes=1000)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def images(n: int = 7) -> torch.Tensor:
    return torch.randn(n, 3, 8, 12)


@pytest.mark.parametrize(("pooling", "tokens"), [("cls", 7), ("mean", 6)])
def test_shapes(pooling, tokens: int):
    model = ViT(replace(SMALL, pooling=pooling))
    assert (model.config.grid, model.config.patches, model.config.tokens) == ((2, 3), 6, tokens)
    assert model(images()).shape == (7, 5)
    encoded, weights = model.encode(images(), need_weights=True)
    assert encoded.shape == (7, tokens, 16)
    assert weights is not None
    assert weights.shape == (7, 2, 4, tokens, tokens)


def test_the_model_is_equation_1_to_4():
    model, x = ViT(SMALL), images()
    assert model.cls_token is not None
    assert model.positions is not None
    patches = model.patch_embed(patchify(x, 4))
    z = torch.cat([model.cls_token.expand(7, 1, 16), patches], 1) + model.positions.weight
    z, _ = model.encoder(z)
    torch.testing.assert_close(model(x), model.head(z[:, 0]))


def test_mean_pooling_reads_all_patches():
    model, x = ViT(replace(SMALL, pooling="mean")), images()
    assert model.positions is not None
    z, _ = model.encoder(model.patch_embed(patchify(x, 4)) + model.positions.weight)
    torch.testing.assert_close(model(x), model.head(z.mean(1)))


def test_asking_for_weights_changes_no_token_and_rows_sum_to_one():
    model, x = ViT(SMALL), images()
    plain, none = model.encode(x)
    tokens, weights = model.encode(x, need_weights=True)
    assert none is None
    assert weights is not None
    torch.testing.assert_close(plain, tokens)
    torch.testing.assert_close(weights.sum(-1), torch.ones(7, 2, 4, 7))


def test_no_state_is_left_behind_by_a_look_at_the_weights():
    model = ViT(SMALL)
    before = set(vars(model)) | set(dict(model.named_buffers()))
    model.encode(images(), need_weights=True)
    assert set(vars(model)) | set(dict(model.named_buffers())) == before


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ({}, 7_589),
        ({"pooling": "mean"}, 7_589 - 16 - 16),  # no [CLS], and no position for it
        ({"positions": "none"}, 7_589 - 7 * 16),
        ({"positions": "sinusoidal"}, 7_589),  # a start, and learned all the same
        ({"layers": 3}, 7_589 + 3_280),
    ],
)
def test_parameter_counts(change, count: int):
    # patches 48 · 16 + 16, [CLS] 16, positions 7 · 16, last norm 32, head 16 · 5 + 5, two layers of 12 d² + 13 d
    assert 784 + 16 + 112 + 32 + 85 + 2 * 3_280 == 7_589
    assert count_parameters(ViT(replace(SMALL, **change))) == count


def test_vit_b_16_has_the_published_size():
    with torch.device("meta"):
        model = ViT(B16)
    assert count_parameters(model) == 86_567_656
    assert model.config.tokens == 197


def test_patches_that_are_left_out_have_no_part_in_the_result():
    model, x = ViT(SMALL), images()
    visible = torch.tensor([0, 2, 5]).expand(7, 3)
    tokens, _ = model.encode(x, visible=visible)
    assert tokens.shape == (7, 4, 16)
    changed = x.clone()
    changed[:, :, :4, 4:8] = 1e6  # patch 1
    torch.testing.assert_close(model.encode(changed, visible=visible)[0], tokens)


def test_keeping_all_patches_in_another_order_gives_cls_the_same():
    model, x = ViT(SMALL), images()
    order = torch.stack([torch.randperm(6) for _ in range(7)])
    torch.testing.assert_close(model.encode(x, visible=order)[0][:, 0], model.encode(x)[0][:, 0])


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_without_positions_shuffled_patches_give_the_same_logits_and_with_them_others(pooling):
    order = [3, 0, 5, 1, 4, 2]
    for positions, alike in (("none", True), ("random", False), ("sinusoidal", False)):
        model, x = ViT(replace(SMALL, pooling=pooling, positions=positions)), images()
        plain = model.encode(x)[0]
        tokens = model.patch_embed(patchify(x, 4)[:, order])
        if model.positions is not None:
            tokens = tokens + model.positions.weight[-6:]
        if model.cls_token is not None:
            first = model.cls_token if model.positions is None else model.cls_token + model.positions.weight[0]
            tokens = torch.cat([first.expand(7, 1, -1), tokens], 1)
        shuffled = model.encoder(tokens)[0]
        assert torch.allclose(model.classify(shuffled), model.classify(plain), atol=1e-5) == alike


def test_grid_positions_tell_row_and_column():
    table = grid_positions(3, 5, 12).view(3, 5, 12)
    assert torch.equal(table[1, :, :6], table[1, :1, :6].expand(5, 6))
    assert torch.equal(table[:, 2, 6:], table[:1, 2, 6:].expand(3, 6))
    assert torch.cdist(table.flatten(0, 1), table.flatten(0, 1)).add(torch.eye(15)).min() > 0.5  # all differ


def test_a_sinusoidal_start_is_that_table_and_cls_stays_small():
    positions = ViT(replace(SMALL, positions="sinusoidal")).positions
    assert positions is not None
    assert torch.equal(positions.weight[1:], grid_positions(2, 3, 16))
    assert positions.weight[0].abs().max() < 0.1
    assert positions.weight.requires_grad


def test_dropout_works_in_training_only():
    model, x = ViT(replace(SMALL, dropout=0.5)), images()
    assert not torch.equal(model(x), model(x))
    model.eval()
    assert torch.equal(model(x), model(x))


def test_all_parameters_learn():
    model = ViT(SMALL)
    nn.functional.cross_entropy(model(images()), torch.arange(7) % 5).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        # a bias on keys shifts a row of scores, which softmax ignores
        assert (parameter.grad != 0).any() or name.endswith("k_proj.bias"), name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"patch_size": 5}, "patch_size must divide the image, got patch_size = 5 and image 8 × 12"),
        ({"image_size": 30}, "patch_size = 4 and image 30 × 30"),
        ({"channels": 0}, "channels must be at least 1, got 0"),
        ({"layers": 0}, "layers must be at least 1, got 0"),
        ({"classes": 0}, "classes must be at least 1, got 0"),
        ({"heads": 3}, "heads must divide dim, got dim = 16 and heads = 3"),
        ({"dim": 18}, "heads must divide dim, got dim = 18 and heads = 4"),
        ({"image_size": 8.0}, "sizes must be integers"),
        ({"image_size": (8, 12, 16)}, "sizes must be integers, image_size one or .height, width."),
        ({"image_size": [8, 12]}, "sizes must be integers"),
        ({"dim": 16.0}, "sizes must be integers"),
        ({"image_size": 0}, "image 0 × 0"),
        ({"dropout": 1.5}, "dropout must lie in 0 … 1, got 1.5"),
        ({"dropout": float("nan")}, "dropout must lie in 0 … 1, got nan"),
        ({"pooling": "max"}, "pooling must be .* got 'max'"),
        ({"positions": "learned"}, "positions must be .* got 'learned'"),
    ],
)
def test_bad_configurations_are_refused(change, message: str):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **change)


@pytest.mark.parametrize(
    ("change", "grid", "tokens"),
    [
        ({"image_size": 16}, (4, 4), 17),
        ({"image_size": (4, 20)}, (1, 5), 6),
        ({"patch_size": 2}, (4, 6), 25),
        ({"pooling": "mean"}, (2, 3), 6),
    ],
)
def test_a_changed_configuration_is_the_one_asked_for(change: dict, grid: tuple[int, int], tokens: int):
    changed = replace(SMALL, **change)
    assert changed == ViTConfig(**(asdict(SMALL) | change))
    assert (changed.grid, changed.tokens) == (grid, tokens)
    model = ViT(changed)
    assert model.positions is not None
    assert model.positions.weight.shape == (tokens, 16)
    assert model(torch.zeros(2, 3, *changed.shape)).shape == (2, 5)


def test_a_sinusoidal_start_needs_an_even_dim():
    with pytest.raises(ValueError, match="dim must be even"):
        grid_positions(2, 3, 7)


@pytest.mark.parametrize("shape", [(7, 3, 12, 8), (7, 1, 8, 12), (3, 8, 12), (7, 3, 16, 24), (8,), ()])
def test_images_of_another_size_are_refused(shape: tuple[int, ...]):
    with pytest.raises(ValueError, match=r"images must be \(batch, 3, 8, 12\) floating-point numbers, got"):
        ViT(SMALL)(torch.zeros(shape))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bool])
def test_images_of_integers_are_refused_since_their_scale_is_unknown(dtype: torch.dtype):
    with pytest.raises(ValueError, match=rf"floating-point numbers, got \(2, 3, 8, 12\) {dtype}"):
        ViT(SMALL)(torch.zeros(2, 3, 8, 12, dtype=dtype))


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_no_image_gives_no_logits(pooling: Literal["cls", "mean"]):
    model = ViT(replace(SMALL, pooling=pooling))
    assert model(images(0)).shape == (0, 5)
    _, weights = model.encode(images(0), need_weights=True)
    assert weights is not None
    assert weights.shape[0] == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_every_precision_gives_about_the_same_logits_and_learns(dtype: torch.dtype, pooling):
    model, x = ViT(replace(SMALL, pooling=pooling, positions="sinusoidal")), images(3)
    expected = model(x)
    logits = model.to(dtype)(x.to(dtype))
    assert logits.dtype == dtype
    eps = max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)
    torch.testing.assert_close(logits.float(), expected, atol=10 * eps, rtol=10 * eps)
    logits.float().square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_mixed_precision_gives_about_the_same_logits_maps_and_tokens(dtype: torch.dtype):
    model, x = ViT(SMALL), images(3)
    visible = torch.tensor([[0, 2], [5, 1], [3, 4]])
    expected, (tokens, maps) = model(x), model.encode(x, visible=visible, need_weights=True)
    with torch.autocast("cpu", dtype):
        mixed = model(x)
        some, weights = model.encode(x, visible=visible, need_weights=True)
    mixed.float().square().sum().backward()
    for ours, plain in ((mixed, expected), (some, tokens), (weights, maps)):
        assert ours is not None
        torch.testing.assert_close(ours.float(), plain, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_gradients_of_logits_and_of_the_reconstruction_loss_are_those_of_finite_differences(pooling):
    sizes = {"image_size": (2, 4), "patch_size": 2, "channels": 1, "dim": 4, "layers": 1, "heads": 2, "classes": 2}
    config = ViTConfig(**sizes, pooling=pooling)
    model = MaskedAutoencoder(config, dim=2, layers=1, heads=1).double()
    x, visible = torch.randn(2, 1, 2, 4, dtype=torch.float64, requires_grad=True), torch.tensor([[1], [0]])
    assert torch.autograd.gradcheck(model.encoder, x)
    assert torch.autograd.gradcheck(lambda x: reconstruction_loss(model, x, visible), x)
    for run in (lambda: model.encoder(x).square().sum(), lambda: reconstruction_loss(model, x, visible)):
        for name, parameter in model.named_parameters():
            (slope,) = torch.autograd.grad(run(), parameter, allow_unused=True)
            step, old = 1e-6 * torch.randn_like(parameter), parameter.detach().clone()
            ends = []
            for sign in (1, -1):
                parameter.data = old + sign * step
                ends.append(run().item())
            parameter.data = old
            along = 0.0 if slope is None else (slope * step).sum().item()
            assert (ends[0] - ends[1]) / 2 == pytest.approx(along, rel=1e-4, abs=1e-13), name


def rebuilt(model: ViT) -> ViT:
    with torch.device("meta"):
        other = ViT(model.config)
    other = other.to_empty(device="cpu")
    for tensor in (*other.parameters(), *other.buffers()):
        tensor.data.fill_(torch.nan)
    other.load_state_dict(model.state_dict())
    return other


@pytest.mark.parametrize("positions", ["random", "sinusoidal", "none"])
@pytest.mark.parametrize("copy", [deepcopy, rebuilt, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_of_the_model_computes_the_same(positions, copy: Callable[[ViT], ViT]):
    model, x = ViT(replace(SMALL, positions=positions)), images()
    assert torch.equal(copy(model)(x), model(x))
