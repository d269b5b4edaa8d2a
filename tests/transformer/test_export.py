"""Export with free batch and time axes: `torch.export` and ONNX, which builds on it, give what the module gives."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from lib.attention import causal_mask, padding_mask
from lib.transformer import (
    Decoder,
    Encoder,
    LearnedPositions,
    RotaryAttention,
    SwiGLU,
    alibi_bias,
    sinusoidal_positions,
)
from tests.onnx_run import Call, OnnxRun, export

LLAMA = partial(
    Decoder,
    cross_attention=False,
    attention=partial(RotaryAttention, kv_heads=1, layout="half"),
    feed_forward=SwiGLU,
    norm_layer=nn.RMSNorm,
)
X, MEMORY, MASK = {0: "batch", 1: "time"}, {0: "batch", 1: "memory"}, {0: "batch", 3: "memory"}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def memory_masked(decoder: Decoder) -> Call:
    return Call(decoder, lambda x, memory, mask: decoder(x, memory, memory_mask=mask, need_weights=True))


def with_alibi(encoder: Encoder) -> Call:
    return Call(encoder, lambda x: encoder(x, bias=alibi_bias(4, x.shape[1]))[0])


def with_positions(encoder: Encoder) -> Call:
    return Call(encoder, lambda x: encoder(x + sinusoidal_positions(x.shape[1], 16))[0])


def x_only(batch: int, time: int) -> list[Tensor]:
    return [torch.randn(batch, time, 16)]


def x_and_padding(batch: int, time: int) -> list[Tensor]:
    return [torch.randn(batch, time, 16), padding_mask([time, *[time - 2] * (batch - 1)], time)]


def x_and_memory(batch: int, time: int) -> list[Tensor]:
    return [torch.randn(batch, time, 16), torch.randn(batch, time + 3, 16)]


def x_memory_and_padding(batch: int, time: int) -> list[Tensor]:
    return [*x_and_memory(batch, time), padding_mask([time + 3, *[time] * (batch - 1)], time + 3)]


MODELS: dict[str, tuple[Any, Any, list[Any]]] = {
    "encoder": (lambda: Encoder(16, 4, 1), x_only, [X]),
    "encoder, Post-LN, padding": (lambda: Encoder(16, 4, 1, norm="post"), x_and_padding, [X, {0: "batch", 3: "time"}]),
    "encoder, weights": (
        lambda: (lambda model: Call(model, lambda x: model(x, need_weights=True)))(Encoder(16, 4, 1)),
        x_only,
        [X],
    ),
    "encoder, ALiBi": (lambda: with_alibi(Encoder(16, 4, 1)), x_only, [X]),
    "encoder, added positions": (lambda: with_positions(Encoder(16, 4, 1)), x_only, [X]),
    "decoder": (lambda: Decoder(16, 4, 1), x_and_memory, [X, MEMORY]),
    "decoder, padding, weights": (
        lambda: memory_masked(Decoder(16, 4, 1)),
        x_memory_and_padding,
        [X, MEMORY, MASK],
    ),
    "decoder alone": (lambda: Decoder(16, 4, 1, cross_attention=False), x_only, [X]),
    "decoder alone, as LLaMA": (lambda: LLAMA(16, 4, 1), x_only, [X]),
}
IN_ONNX = ["encoder, Post-LN, padding", "encoder, ALiBi", "decoder, padding, weights", "decoder alone, as LLaMA"]


def tensors(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else [x for x in result if x is not None]


def compare(results: list[Tensor], expected: list[Tensor]) -> float:
    assert len(results) == len(expected)
    for ours, theirs in zip(results, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)
    return max((ours - theirs).abs().max().item() for ours, theirs in zip(results, expected, strict=True))


@pytest.mark.parametrize("name", [name for name in MODELS if name not in IN_ONNX])
def test_torch_export_with_free_axes(name: str):
    make, inputs, axes = MODELS[name]
    model = make().eval()
    exported = export(model, inputs(3, 5), axes).module()
    for sizes in ((3, 5), (2, 9), (4, 17)):
        example = inputs(*sizes)
        compare(tensors(exported(*example)), tensors(model(*example)))


@pytest.mark.parametrize("name", IN_ONNX)
def test_onnx_with_free_axes(name: str, record_property):
    make, inputs, axes = MODELS[name]
    model = make().eval()
    run = OnnxRun(model, inputs(3, 5), axes)
    assert run.input_shapes[0] == ["batch", "time", 16]
    for sizes in ((3, 5), (2, 9), (4, 17)):
        example = inputs(*sizes)
        record_property(f"largest difference of ONNX at {sizes}", compare(run(*example), tensors(model(*example))))


def test_learned_positions_export_up_to_the_end_of_their_table():
    positions = LearnedPositions(16, 8)
    added = Call(positions, lambda x: x + positions(x.shape[1]))
    shapes = (({1: Dim("time", max=16)},),)
    exported = torch.export.export(added, (torch.zeros(2, 5, 8),), dynamic_shapes=shapes).module()
    for time in (2, 16):
        torch.testing.assert_close(exported(torch.zeros(2, time, 8))[0], positions(time))


def test_queries_after_a_cache_export_too():
    attend = RotaryAttention(16, 4, kv_heads=2).eval()
    step = Call(attend, lambda x, context: attend(x, context, causal_mask(x.shape[1], context.shape[1]))[0])
    exported = export(step, [torch.randn(2, 3, 16), torch.randn(2, 7, 16)], [{1: "time"}, {1: "keys"}]).module()
    x = torch.randn(2, 11, 16)
    torch.testing.assert_close(exported(x[:, 6:], x), attend(x, mask=causal_mask(11))[0][:, 6:])
