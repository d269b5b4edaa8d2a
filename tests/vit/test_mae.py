"""Masked autoencoder: what the encoder may see, what the loss counts, and what is refused."""

import io
import pickle
from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator, Tensor

from lib.vit import (
    MaskedAutoencoder,
    ViT,
    ViTConfig,
    grid_positions,
    masked_pixels,
    patchify,
    random_masking,
    reconstruction_loss,
)

CONFIG = ViTConfig(image_size=(8, 12), patch_size=2, channels=3, dim=16, layers=1, heads=2, classes=5)


def autoencoder() -> MaskedAutoencoder:
    return MaskedAutoencoder(CONFIG, dim=12, layers=1, heads=3)


@pytest.fixture
def model() -> MaskedAutoencoder:
    torch.manual_seed(0)
    return autoencoder()


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


@pytest.mark.parametrize(("ratio", "count"), [(0.75, 6), (0.5, 12), (0.9, 2), (0.05, 23)])
def test_the_share_to_mask_is_masked(ratio: float, count: int):
    assert random_masking(50, 24, ratio, generator=seeded()).shape == (50, count)


@given(st.integers(0, 5), st.integers(2, 40), st.floats(0, 1), st.integers(0, 99))
def test_what_stays_visible_is_different_patches_in_order_and_the_seed_decides(n, patches, ratio, seed):
    masked = round(ratio * patches)
    if not 0 < masked < patches:
        with pytest.raises(ValueError, match="ratio must mask some"):
            random_masking(n, patches, ratio, generator=seeded(seed))
        return
    visible = random_masking(n, patches, ratio, generator=seeded(seed))
    assert visible.shape == (n, patches - masked)
    assert (visible.diff(dim=-1) > 0).all()
    assert ((visible >= 0) & (visible < patches)).all()
    assert torch.equal(visible, random_masking(n, patches, ratio, generator=seeded(seed)))


def test_each_patch_is_visible_as_often_as_any_other_and_so_is_each_pair():
    visible = random_masking(8000, 24, generator=seeded())
    seen = torch.zeros(8000, 24).scatter(1, visible, 1.0)
    assert seen.mean(0).tolist() == pytest.approx([6 / 24] * 24, abs=0.03)
    pairs = (seen.T @ seen / 8000)[~torch.eye(24, dtype=torch.bool)]
    assert pairs.tolist() == pytest.approx([6 * 5 / (24 * 23)] * (24 * 23), abs=0.02)


@pytest.mark.parametrize("ratio", [0.0, 1.0, 0.01, -0.5, 2.0, float("nan"), float("inf")])
def test_something_must_be_masked_and_something_visible(ratio: float):
    with pytest.raises(ValueError, match=f"keep some, got {ratio} of 16"):
        random_masking(2, 16, ratio, generator=seeded())


def test_a_negative_number_of_images_is_refused():
    with pytest.raises(ValueError, match="n must be at least 0, got -1"):
        random_masking(-1, 16, generator=seeded())


def test_masked_pixels_are_those_outside_the_visible_patches():
    visible = random_masking(5, 24, generator=seeded())
    mask = masked_pixels(visible, CONFIG)
    assert mask.shape == (5, 1, 8, 12)
    by_patch = patchify(mask, 2)
    for image, places in zip(by_patch, visible, strict=True):
        assert not image[places].any()
        assert image.sum() == 4 * (24 - 6)


def test_what_is_masked_changes_nothing_and_what_is_visible_does(model: MaskedAutoencoder):
    images, visible = torch.rand(5, 3, 8, 12), random_masking(5, 24, generator=seeded())
    masked = masked_pixels(visible, CONFIG)
    before = model(images, visible)
    torch.testing.assert_close(model(images.masked_fill(masked, 1e3), visible), before)
    assert not torch.allclose(model(images.masked_fill(~masked, 0.0), visible), before)


def test_the_order_of_the_visible_patches_changes_nothing(model: MaskedAutoencoder):
    images, visible = torch.rand(5, 3, 8, 12), random_masking(5, 24, generator=seeded())
    torch.testing.assert_close(model(images, visible.flip(-1)), model(images, visible))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_each_image_has_visible_patches_of_its_own(model: MaskedAutoencoder, dtype: torch.dtype):
    images, visible = torch.rand(5, 3, 8, 12), random_masking(5, 24, generator=seeded()).to(dtype)
    together = model(images, visible)
    for row in range(5):
        alone = model(images[row, None], visible[row, None])
        torch.testing.assert_close(together[row, None], alone)


def test_the_encoder_reads_a_quarter_of_the_patches(model: MaskedAutoencoder):
    seen: list[torch.Size] = []
    model.encoder.encoder.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0].shape))
    model(torch.rand(5, 3, 8, 12), random_masking(5, 24, generator=seeded()))
    assert seen == [(5, 6 + 1, 16)]  # and [CLS]


def test_the_loss_counts_masked_pixels_only(model: MaskedAutoencoder):
    images, visible = torch.rand(5, 3, 8, 12), random_masking(5, 24, generator=seeded())
    squared = patchify((model(images, visible) - images).square(), 2)  # (image, patch, numbers)
    masked = [[patch for patch in range(24) if patch not in places] for places in visible.tolist()]
    expected = torch.stack([squared[image, places].mean() for image, places in enumerate(masked)]).mean()
    torch.testing.assert_close(reconstruction_loss(model, images, visible), expected)


def test_a_prediction_that_overflows_where_the_loss_does_not_look_leaves_it_finite(model: MaskedAutoencoder):
    images, visible = torch.rand(2, 3, 8, 12), random_masking(2, 24, generator=seeded())
    predicted = torch.rand(2, 3, 8, 12).masked_fill(~masked_pixels(visible, CONFIG), torch.inf).requires_grad_()
    model.register_forward_hook(lambda *_: predicted)
    loss = reconstruction_loss(model, images, visible)
    (gradient,) = torch.autograd.grad(loss, predicted)
    assert loss.isfinite()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_loss_is_computed_in_single_precision_or_better(dtype: torch.dtype):
    torch.manual_seed(0)
    model = autoencoder().to(dtype)
    images, visible = torch.rand(2, 3, 8, 12, dtype=dtype), random_masking(2, 24, generator=seeded())
    prediction = model(images, visible)
    loss = reconstruction_loss(model, images, visible)
    assert prediction.dtype == dtype
    assert loss.dtype == torch.promote_types(dtype, torch.float32)
    squared = (prediction.double() - images.double()).square()
    expected = squared[masked_pixels(visible, CONFIG).expand_as(squared)].mean()
    torch.testing.assert_close(loss.double(), expected, rtol=1e-6, atol=0)
    reconstruction_loss(model, images * 0 + 300, visible).backward()  # 300² is more than float16 holds
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_mixed_precision_gives_about_the_same_loss_and_gradients(dtype: torch.dtype, pooling):
    torch.manual_seed(0)
    config = ViTConfig(
        image_size=(4, 6), patch_size=2, channels=1, dim=8, layers=1, heads=2, classes=3, pooling=pooling
    )
    model = MaskedAutoencoder(config, dim=8, layers=1, heads=2)
    images, visible = torch.rand(3, 1, 4, 6), random_masking(3, 6, generator=seeded())
    plain = reconstruction_loss(model, images, visible)
    plain.backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    with torch.autocast("cpu", dtype):
        mixed = reconstruction_loss(model, images, visible)
        assert model.encoder(images).shape == (3, 3)
    mixed.backward()
    torch.testing.assert_close(mixed, plain, rtol=0.02, atol=0)
    for name, parameter in model.named_parameters():
        assert (parameter.grad is None) == (name not in expected), name
        if parameter.grad is not None:
            torch.testing.assert_close(parameter.grad, expected[name], rtol=0.1, atol=0.02, msg=name)


def test_the_decoders_positions_are_the_fixed_table(model: MaskedAutoencoder):
    assert torch.equal(model.decoder_positions, grid_positions(4, 6, 12))
    assert "decoder_positions" not in dict(model.named_parameters())


def on_meta(model: MaskedAutoencoder) -> MaskedAutoencoder:
    with torch.device("meta"):
        other = autoencoder()
    other = other.to_empty(device="cpu")
    for tensor in (*other.parameters(), *other.buffers()):
        tensor.data.fill_(torch.nan)  # what is left over in memory may be anything
    other.load_state_dict(model.state_dict())
    return other


def through_a_file(model: MaskedAutoencoder) -> MaskedAutoencoder:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def assigned(model: MaskedAutoencoder) -> MaskedAutoencoder:
    with torch.device("meta"):
        other = autoencoder()
    other.load_state_dict(model.state_dict(), assign=True)
    return other


def copied(model: MaskedAutoencoder) -> MaskedAutoencoder:
    return deepcopy(model)


def pickled(model: MaskedAutoencoder) -> MaskedAutoencoder:
    return pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("copy", [on_meta, assigned, through_a_file, copied, pickled])
def test_a_copy_of_the_model_computes_the_same(model: MaskedAutoencoder, copy: Callable):
    images, visible = torch.rand(2, 3, 8, 12), random_masking(2, 24, generator=seeded())
    assert torch.equal(copy(model)(images, visible), model(images, visible))


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_both_kinds_of_encoder_work_and_all_but_the_head_learn(pooling):
    config = ViTConfig(image_size=4, patch_size=2, channels=1, dim=8, layers=1, heads=2, classes=3, pooling=pooling)
    model = MaskedAutoencoder(config, dim=8, layers=1, heads=2)
    reconstruction_loss(model, torch.rand(6, 1, 4, 4), random_masking(6, 4, generator=seeded())).backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad is not None) == (not name.startswith("encoder.head")), name


def test_no_image_gives_no_prediction_and_has_no_loss(model: MaskedAutoencoder):
    images, visible = torch.zeros(0, 3, 8, 12), random_masking(0, 24, generator=seeded())
    assert model(images, visible).shape == (0, 3, 8, 12)
    assert masked_pixels(visible, CONFIG).shape == (0, 1, 8, 12)
    with pytest.raises(ValueError, match=r"some patch of some image masked, got \(0, 6\)"):
        reconstruction_loss(model, images, visible)


def test_a_loss_over_nothing_masked_is_refused(model: MaskedAutoencoder):
    with pytest.raises(ValueError, match=r"some patch of some image masked, got \(2, 24\)"):
        reconstruction_loss(model, torch.zeros(2, 3, 8, 12), torch.arange(24).expand(2, -1))


@pytest.mark.parametrize(
    ("visible", "message"),
    [
        (torch.tensor([[0, 1]]), r"\(2, k\) integers, k ≥ 1, got \(1, 2\) torch.int64"),
        (torch.tensor([[0, 1]] * 3), r"got \(3, 2\)"),
        (torch.tensor([0, 1]), r"got \(2,\)"),
        (torch.tensor([[[0, 1]], [[0, 1]]]), r"got \(2, 1, 2\)"),
        (torch.zeros(2, 0, dtype=torch.long), r"k ≥ 1, got \(2, 0\)"),
        (torch.tensor([[0.0, 1.0]] * 2), "got .2, 2. torch.float32"),
        (torch.tensor([[False, True]] * 2), "got .2, 2. torch.bool"),
        (torch.tensor([[0, 1]] * 2, dtype=torch.uint8), "got .2, 2. torch.uint8"),
        (torch.tensor([[0, 1], [5, 24]]), r"different indices in 0 … 23 for each image, got \[5, 24\]"),
        (torch.tensor([[0, 1], [-1, 3]]), r"got \[-1, 3\]"),
        (torch.tensor([[2, 7, 2], [0, 1, 2]]), r"got \[2, 7, 2\]"),
        (torch.arange(25).expand(2, -1), r"got \[0, 1, 2"),
    ],
)
def test_indices_that_are_no_choice_of_patches_for_each_image_are_named(visible: Tensor, message: str):
    model, images = autoencoder(), torch.zeros(2, 3, 8, 12)
    calls: list[Callable] = [
        lambda: model(images, visible),
        lambda: model.encoder.encode(images, visible=visible),
        lambda: ViT(CONFIG).encode(images, visible=visible),
        lambda: reconstruction_loss(model, images, visible),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize(
    "visible",
    [
        torch.tensor([0, 1]),
        torch.tensor([[0.0]]),
        torch.tensor([[24]]),
        torch.tensor([[-1]]),
        torch.tensor([[3, 3]]),
        torch.zeros(2, 0, dtype=torch.long),
    ],
)
def test_masked_pixels_refuses_the_same(visible: Tensor):
    with pytest.raises(ValueError, match="visible must be"):
        masked_pixels(visible, CONFIG)
