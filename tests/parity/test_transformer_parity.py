"""PyTorch's Transformer: layers, stacks and the whole encoder–decoder, in both norm orders, with masks and padding."""

from typing import Any, TypeVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.attention import causal_mask, padding_mask
from lib.transformer import Decoder, Encoder, TransformerBlock

M = TypeVar("M", bound=nn.Module)
DTYPES = {torch.float32: 2e-5, torch.float64: 1e-13}

pytestmark = [
    pytest.mark.parametrize("dtype", DTYPES, ids=str),
    pytest.mark.parametrize("norm_first", [True, False], ids=["Pre-LN", "Post-LN"]),
    pytest.mark.filterwarnings("ignore:enable_nested_tensor is True"),
]


def shaken(module: M) -> M:
    """Biases and norms get values of their own, so that one forgotten shows."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, mean=float(parameter.ndim == 1), std=0.3)
    return module


def inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x (3, 5, 12), memory (3, 7, 12), and which of their tokens are no padding."""
    x, memory = (torch.randn(3, time, 12, dtype=dtype, requires_grad=True) for time in (5, 7))
    return x, memory, padding_mask([5, 4, 2], 5), padding_mask([7, 3, 6], 7)


def gradients(output: Tensor, *wanted: Tensor) -> Tensor:
    upstream = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    return torch.cat([g.flatten() for g in torch.autograd.grad(output, wanted, upstream)])


def their_weights(layer: Any) -> list[Tensor]:
    return [layer.self_attn.out_proj.weight, layer.norm1.weight, layer.linear1.weight, layer.linear2.bias]


def our_weights(block: Any) -> list[Tensor]:
    ffn = block.feed_forward
    return [block.attention.out_proj.weight, block.attention_norm.weight, ffn.up_proj.weight, ffn.down_proj.bias]


@pytest.mark.parametrize("activation", ["relu", F.gelu, nn.SiLU()], ids=["relu", "gelu", "SiLU"])
def test_encoder_layer(agree, dtype: torch.dtype, norm_first: bool, activation: Any):
    options = {"norm_first": norm_first, "activation": activation, "layer_norm_eps": 0.01}
    theirs = shaken(nn.TransformerEncoderLayer(12, 3, 20, batch_first=True, dtype=dtype, **options)).eval()
    ours, (x, _, real, _) = TransformerBlock.from_torch(theirs), inputs(dtype)
    output = ours(x, causal_mask(5) & real).output
    expected = theirs(x, src_mask=~causal_mask(5), src_key_padding_mask=~real[:, 0, 0])
    agree(output, expected, tolerance=DTYPES[dtype])
    ours_grad, theirs_grad = gradients(output, x, *our_weights(ours)), gradients(expected, x, *their_weights(theirs))
    agree(ours_grad, theirs_grad, tolerance=10 * DTYPES[dtype], what="gradients")


def test_decoder_layer(agree, dtype: torch.dtype, norm_first: bool):
    theirs = shaken(nn.TransformerDecoderLayer(12, 3, 20, batch_first=True, norm_first=norm_first, dtype=dtype)).eval()
    ours, (x, memory, real, memory_real) = TransformerBlock.from_torch(theirs), inputs(dtype)
    output = ours(x, causal_mask(5) & real, memory=memory, memory_mask=memory_real).output
    expected = theirs(
        x,
        memory,
        tgt_mask=~causal_mask(5),
        tgt_key_padding_mask=~real[:, 0, 0],
        memory_key_padding_mask=~memory_real[:, 0, 0],
    )
    agree(output, expected, tolerance=DTYPES[dtype])
    ours_grad = gradients(output, x, memory, *our_weights(ours), ours.get_parameter("cross_norm.weight"))
    theirs_grad = gradients(expected, x, memory, *their_weights(theirs), theirs.norm2.weight)
    agree(ours_grad, theirs_grad, tolerance=10 * DTYPES[dtype], what="gradients")


@pytest.mark.parametrize("bias", [True, False], ids=["biases", "no biases"])
@pytest.mark.parametrize("last", [True, False], ids=["last norm", "no last norm"])
def test_encoder_stack(agree, dtype: torch.dtype, norm_first: bool, last: bool, bias: bool):
    options = {"norm_first": norm_first, "bias": bias, "batch_first": True, "dtype": dtype}
    norm = nn.LayerNorm(12, eps=0.1, dtype=dtype) if last else None
    theirs = shaken(nn.TransformerEncoder(nn.TransformerEncoderLayer(12, 3, 20, **options), 3, norm)).eval()
    x, _, real, _ = inputs(dtype)
    output, _ = Encoder.from_torch(theirs)(x, real)
    agree(output, theirs(x, src_key_padding_mask=~real[:, 0, 0]), tolerance=5 * DTYPES[dtype])


@pytest.mark.parametrize("last", [True, False], ids=["last norm", "no last norm"])
def test_decoder_stack(agree, dtype: torch.dtype, norm_first: bool, last: bool):
    layer = nn.TransformerDecoderLayer(12, 3, 20, norm_first=norm_first, batch_first=True, dtype=dtype)
    theirs = shaken(nn.TransformerDecoder(layer, 3, nn.LayerNorm(12, dtype=dtype) if last else None)).eval()
    x, memory, _, real = inputs(dtype)
    causal = nn.Transformer.generate_square_subsequent_mask(5, dtype=dtype)
    output = Decoder.from_torch(theirs)(x, memory, memory_mask=real).output
    expected = theirs(x, memory, tgt_mask=causal, tgt_is_causal=True, memory_key_padding_mask=~real[:, 0, 0])
    agree(output, expected, tolerance=10 * DTYPES[dtype])


def test_whole_transformer(agree, dtype: torch.dtype, norm_first: bool):
    theirs = shaken(nn.Transformer(12, 3, 2, 3, 20, norm_first=norm_first, batch_first=True, dtype=dtype)).eval()
    encoder, decoder = Encoder.from_torch(theirs.encoder), Decoder.from_torch(theirs.decoder)
    target, source, _, real = inputs(dtype)
    output = decoder(target, encoder(source, real)[0], memory_mask=real).output
    padding = ~real[:, 0, 0]
    expected = theirs(
        source, target, tgt_mask=~causal_mask(5), src_key_padding_mask=padding, memory_key_padding_mask=padding
    )
    agree(output, expected, tolerance=10 * DTYPES[dtype])
    agree(
        gradients(output, source, target),
        gradients(expected, source, target),
        tolerance=100 * DTYPES[dtype],
        what="gradients",
    )
