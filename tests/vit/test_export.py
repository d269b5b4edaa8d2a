"""ViT and the masked autoencoder in one graph: compiled, exported with a free batch, and run in ONNX Runtime."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn

from lib.vit import MaskedAutoencoder, ViT, ViTConfig, random_masking, reconstruction_loss
from tests.onnx_run import Call, OnnxRun, export

CONFIG = ViTConfig(image_size=(4, 6), patch_size=2, channels=3, dim=8, layers=1, heads=2, classes=5, dropout=0.1)
BATCH = {0: "batch"}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
    torch.compiler.reset()


def inputs(batch: int, k: int = 2) -> tuple[Tensor, Tensor]:
    visible = random_masking(batch, 6, 1 - k / 6, generator=Generator().manual_seed(batch))
    return torch.randn(batch, 3, 4, 6), visible


def compiled(function: Any) -> Any:
    return torch.compile(function, fullgraph=True, backend="eager")


@pytest.mark.parametrize(("pooling", "positions"), [("cls", "random"), ("mean", "none")])
def test_a_vit_compiles_in_one_graph_and_learns_the_same(pooling, positions):
    model = ViT(replace(CONFIG, pooling=pooling, positions=positions)).eval()
    in_one_graph = compiled(model)
    for batch in (3, 7):
        images, _ = inputs(batch)
        torch.testing.assert_close(in_one_graph(images), model(images))
    parameters = list(model.parameters())
    gradients = (torch.autograd.grad(run(images).sum(), parameters) for run in (in_one_graph, model))
    for ours, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-4)


def test_a_look_at_some_patches_compiles_with_weights():
    model = ViT(CONFIG).eval()
    look = compiled(lambda images, visible: model.encode(images, visible=visible, need_weights=True))
    for batch, k in ((3, 2), (2, 4)):
        images, visible = inputs(batch, k)
        torch.testing.assert_close(look(images, visible), model.encode(images, visible=visible, need_weights=True))


def test_the_autoencoder_compiles_with_its_loss():
    model = MaskedAutoencoder(CONFIG, dim=8, layers=1, heads=2).eval()
    loss = compiled(reconstruction_loss)
    for batch, k in ((3, 2), (4, 3)):
        images, visible = inputs(batch, k)
        torch.testing.assert_close(loss(model, images, visible), reconstruction_loss(model, images, visible))


def with_maps(model: ViT) -> nn.Module:
    def look(images: Tensor) -> tuple[Tensor, Tensor]:
        tokens, weights = model.encode(images, need_weights=True)
        assert weights is not None
        return model.classify(tokens), weights

    return Call(model, look)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_an_exported_vit_takes_any_number_of_images(pooling):
    model = with_maps(ViT(replace(CONFIG, pooling=pooling)))
    program = export(model, inputs(2)[:1], [BATCH]).module()
    for batch in (1, 5):
        images, _ = inputs(batch)
        torch.testing.assert_close(program(images), model(images))


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_a_vit_in_onnx_gives_the_same_logits_and_maps(pooling):
    model = with_maps(ViT(replace(CONFIG, pooling=pooling)))
    run = OnnxRun(model, inputs(2)[:1], [BATCH])
    tokens = 7 if pooling == "cls" else 6
    assert run.input_shapes == [["batch", 3, 4, 6]]
    assert run.output_shapes == [["batch", 5], ["batch", 1, 2, tokens, tokens]]  # not the example's 2
    for batch in (1, 2, 5):
        images, _ = inputs(batch)
        for ours, expected in zip(run(images), model(images), strict=True):
            torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-4)


def test_the_autoencoder_is_exported_with_free_batch_and_number_of_visible_patches():
    model = MaskedAutoencoder(CONFIG, dim=8, layers=1, heads=2)
    axes = [BATCH, {0: "batch", 1: "visible"}]
    program, run = export(model, inputs(3), axes).module(), OnnxRun(model, inputs(3), axes)
    assert run.input_shapes == [["batch", 3, 4, 6], ["batch", "visible"]]
    assert run.output_shapes == [["batch", 3, 4, 6]]
    for batch, k in ((1, 2), (5, 4)):
        images, visible = inputs(batch, k)
        torch.testing.assert_close(program(images, visible), model(images, visible))
        torch.testing.assert_close(run(images, visible)[0], model(images, visible), atol=1e-5, rtol=1e-4)
