"""ViT, its masking and the encoder of Seq2Seq against Hugging Face's and PyTorch's."""

import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import ViTConfig as TheirConfig
from transformers import ViTForImageClassification, ViTMAEConfig, ViTMAEForPreTraining

from lib.seq2seq.recurrent import BidirectionalGRU
from lib.transformer import count_parameters
from lib.vit import ViT, ViTConfig, masked_pixels, patchify, unpatchify

NAMES = {
    "vit.embeddings.cls_token": "cls_token",
    "vit.embeddings.position_embeddings": "positions.weight",
    "vit.embeddings.patch_embeddings.projection": "patch_embed",
    "vit.layers": "encoder.blocks",
    "vit.layernorm": "encoder.norm",
    "o_proj": "out_proj",
    "layernorm_before": "attention_norm",
    "layernorm_after": "feed_forward_norm",
    "mlp.fc1": "feed_forward.up_proj",
    "mlp.fc2": "feed_forward.down_proj",
    "classifier": "head",
}


def renamed(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Hugging Face's tensors under our names and in our shapes."""
    ours = {re.sub("|".join(map(re.escape, NAMES)), lambda m: NAMES[m[0]], name): x for name, x in state.items()}
    ours["cls_token"], ours["positions.weight"] = ours["cls_token"].flatten(), ours["positions.weight"][0]
    ours["patch_embed.weight"] = ours["patch_embed.weight"].flatten(1)
    return ours


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize(("height", "width", "patch"), [(8, 8, 4), (8, 20, 4), (6, 9, 3)])
def test_vit_for_image_classification(dtype: torch.dtype, height: int, width: int, patch: int, agree: Any):
    config = TheirConfig(
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=96,
        image_size=(height, width),
        patch_size=patch,
        layer_norm_eps=1e-5,
        id2label=dict(enumerate("abcde")),
    )
    theirs: Any = ViTForImageClassification(config).eval()
    theirs.to(dtype).set_attn_implementation("sdpa")
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    sizes: dict[str, Any] = {
        "image_size": (height, width),
        "patch_size": patch,
        "channels": 3,
        "dim": 24,
        "layers": 3,
        "heads": 4,
    }
    ours = ViT(ViTConfig(**sizes, classes=5)).eval().to(dtype)
    ours.load_state_dict(renamed(theirs.state_dict()))  # strict: no name is missing or left over
    assert count_parameters(ours) == count_parameters(theirs)
    images = torch.randn(5, 3, height, width, dtype=dtype)
    tokens, weights = ours.encode(images, need_weights=True)
    tolerance, logits = 5e-6 if dtype == torch.float32 else 1e-13, theirs(images).logits
    agree(ours(images), logits, tolerance=tolerance, what="logits")
    agree(ours.classify(tokens), logits, tolerance=tolerance, what="logits with maps")
    theirs.set_attn_implementation("eager")  # which gives maps, always through a softmax in single precision
    maps = torch.stack(theirs(images, output_attentions=True).attentions, 1)
    agree(weights, maps, tolerance=1e-6, what="attention maps")


def test_the_mask_of_vit_mae_says_1_where_ours_says_true():
    sizes: dict[str, Any] = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    decoder: dict[str, Any] = {f"decoder_{name}": size for name, size in sizes.items()}
    theirs = ViTMAEForPreTraining(ViTMAEConfig(**sizes, **decoder, image_size=8, patch_size=2)).eval()
    output = theirs(torch.randn(3, 3, 8, 8), noise=torch.rand(3, 16))
    visible = (output.mask == 0).nonzero()[:, 1].view(3, 4)
    config = ViTConfig(image_size=8, patch_size=2, channels=3, dim=8, layers=1, heads=2, classes=2)
    assert torch.equal(patchify(masked_pixels(visible, config), 2)[..., 0], output.mask == 1)
    assert torch.equal(output.ids_restore.argsort(-1)[:, :4].sort(-1).values, visible)  # their ids_keep, in order


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize(("height", "width", "size"), [(224, 224, 16), (32, 48, 4), (6, 9, 3), (5, 7, 1)])
def test_patchify_and_a_matrix_are_a_strided_convolution(
    dtype: torch.dtype, height: int, width: int, size: int, agree: Any
):
    images = torch.randn(2, 3, height, width, dtype=dtype)
    convolution = nn.Conv2d(3, 10, size, stride=size, dtype=dtype)
    tokens = nn.functional.linear(patchify(images, size), convolution.weight.flatten(1), convolution.bias)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-13
    agree(tokens, convolution(images).flatten(2).mT, tolerance=tolerance, what="tokens")
    folded = nn.functional.fold(
        nn.functional.unfold(images, size, stride=size), (height, width), kernel_size=size, stride=size
    )
    agree(unpatchify(patchify(images, size), size, (height, width)), folded, tolerance=0, what="images")


def gru_pair(dtype: torch.dtype) -> tuple[BidirectionalGRU, nn.GRU]:
    ours, theirs = BidirectionalGRU(5, 7).to(dtype), nn.GRU(5, 7, batch_first=True, bidirectional=True, dtype=dtype)
    cells = {"": ours.rightward, "_reverse": ours.leftward}
    with torch.no_grad():
        for end, cell in cells.items():
            for name, parameter in cell.named_parameters():
                parameter.copy_(getattr(theirs, f"{name}_l0{end}"))
    return ours, theirs


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("lengths", [None, [6, 3, 1, 4]], ids=["full", "padded"])
@pytest.mark.parametrize("scanned", [False, True], ids=["fused", "scanned"])
def test_the_encoder_is_pytorchs_gru_with_and_without_padding(
    dtype: torch.dtype, lengths: list | None, scanned: bool, agree: Any, monkeypatch: pytest.MonkeyPatch
):
    ours, theirs = gru_pair(dtype)
    x = torch.randn(4, 6, 5, dtype=dtype)
    mask = None if lengths is None else torch.arange(6) < torch.tensor(lengths)[:, None]
    if scanned:
        monkeypatch.setattr("lib.seq2seq.recurrent.values_known", lambda: False)
    with torch.no_grad():
        states, ends = ours(x, mask)
        tolerance = 1e-6 if dtype == torch.float32 else 1e-14
        for row, length in enumerate(lengths or [6] * 4):
            expected, last = theirs(x[row, None, :length])
            agree(states[row, None, :length], expected, tolerance=tolerance, what="states")
            agree(ends[row], last.flatten(), tolerance=tolerance, what="ends")
            assert (states[row, length:] == 0).all()
