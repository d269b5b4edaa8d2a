"""Kernels of attention compile in one piece, and export with time axes of any length."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from lib.attention import (
    AdditiveAttention,
    causal_mask,
    dot_product_attention,
    fused_attention,
    hopfield_update,
    kernel_regression,
    masked_softmax,
    padding_mask,
    tiled_attention,
)


def causally(attend: Callable[..., Any]) -> Callable[..., Any]:
    return lambda q, k, v: attend(q, k, v, causal_mask(q.shape[-2], k.shape[-2], device=q.device))


torch.manual_seed(0)
QUERIES, KEYS = Dim("queries", min=2, max=64), Dim("keys", min=2, max=64)
QKV = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 4), torch.randn(2, 3, 7, 6)
LONGER = torch.randn(2, 3, 9, 4), torch.randn(2, 3, 13, 4), torch.randn(2, 3, 13, 6)
BIAS, MASK = torch.randn(5, 7), padding_mask([7, 2], 7) & causal_mask(5, 7)
LONG_BIAS, LONG_MASK = torch.randn(9, 13), padding_mask([13, 2], 13) & causal_mask(9, 13)
T_QKV = {2: QUERIES}, {2: KEYS}, {2: KEYS}
ADDITIVE = AdditiveAttention(4, 4, 5).requires_grad_(False)

# function, inputs, longer inputs, which axes may change
CASES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...], tuple[Tensor, ...], tuple[Any, ...]]] = {
    "masked_softmax": (masked_softmax, (BIAS, MASK[0, 0]), (LONG_BIAS, LONG_MASK[0, 0]), ({0: QUERIES, 1: KEYS},) * 2),
    "dot_product_attention": (dot_product_attention, QKV, LONGER, T_QKV),
    "dot_product_attention, mask": (
        dot_product_attention,
        (*QKV, MASK),
        (*LONGER, LONG_MASK),
        (*T_QKV, {2: QUERIES, 3: KEYS}),
    ),
    "dot_product_attention, causal": (causally(dot_product_attention), QKV, LONGER, T_QKV),
    "fused_attention": (fused_attention, QKV, LONGER, T_QKV),
    "fused_attention, causal": (causally(fused_attention), QKV, LONGER, T_QKV),
    "fused_attention, mask and bias": (
        lambda q, k, v, mask, bias: fused_attention(q, k, v, mask, bias=bias),
        (*QKV, MASK, BIAS),
        (*LONGER, LONG_MASK, LONG_BIAS),
        (*T_QKV, {2: QUERIES, 3: KEYS}, {0: QUERIES, 1: KEYS}),
    ),
    "additive": (lambda q, k, v: ADDITIVE(q, k, v), QKV, LONGER, T_QKV),
    "padding_mask": (
        lambda lengths, x: padding_mask(lengths, x.shape[-1]),
        (torch.tensor([3, 0]), torch.zeros(7)),
        (torch.tensor([3, 9]), torch.zeros(13)),
        (None, {0: KEYS}),
    ),
    "kernel_regression": (
        kernel_regression,
        (torch.randn(5), torch.randn(7), torch.randn(7), torch.tensor(0.3)),
        (torch.randn(9), torch.randn(13), torch.randn(13), torch.tensor(2.0)),
        ({0: QUERIES}, {0: KEYS}, {0: KEYS}, None),
    ),
    "hopfield_update": (
        hopfield_update,
        (torch.randn(5, 4), torch.randn(7, 4), torch.tensor(0.3)),
        (torch.randn(9, 4), torch.randn(13, 4), torch.tensor(2.0)),
        ({0: QUERIES}, {0: KEYS}, None),
    ),
    "tiled_attention": (lambda q, k, v: tiled_attention(q, k, v, block_size=3), QKV, LONGER, ()),
}


class Module(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # the tracer's own
def test_compiles_in_one_piece(name: str):
    function, inputs, _, _ = CASES[name]
    torch.compiler.reset()
    compiled = torch.compile(function, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(*inputs), function(*inputs))


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[3]])
def test_exports_with_time_axes_of_any_length(name: str):
    function, inputs, longer, dynamic = CASES[name]
    exported = torch.export.export(Module(function), inputs, dynamic_shapes=(dynamic,)).module()
    for args in (inputs, longer):
        torch.testing.assert_close(exported(*args), function(*args))


@pytest.mark.filterwarnings("ignore")  # the exporter's own
def test_onnx_runtime_computes_the_same(tmp_path: Path):
    function, inputs, longer, dynamic = CASES["dot_product_attention, mask"]
    path = tmp_path / "attention.onnx"
    torch.onnx.export(Module(function), inputs, path, dynamo=True, dynamic_shapes=(dynamic,), verbose=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for args in (inputs, longer):
        found = session.run(None, {i.name: x.numpy() for i, x in zip(session.get_inputs(), args, strict=True)})
        for ours, theirs in zip(found, function(*args), strict=True):
            torch.testing.assert_close(torch.from_numpy(ours), theirs, rtol=1e-5, atol=1e-6)
