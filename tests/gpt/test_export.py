"""What the book's page runs: MiniGPT's logits, probabilities and attention maps as one graph, compiled and exported."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from lib.gpt import MiniGPT, keep_top_k, keep_top_p, next_token_probabilities, sample
from tests.gpt.models import gpt, some_tokens
from tests.onnx_run import OnnxRun, export

SETTINGS = [(1.0, 11, 1.0), (0.7, 4, 0.9), (0.0, 11, 1.0), (2.0, 1, 0.5), (1e-6, 100, 0.0)]


class NextToken(nn.Module):
    """Everything that a page shows of one step: logits, the next token's probabilities, and the attention maps."""

    def __init__(self, model: MiniGPT) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, t: Tensor, k: Tensor, p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits, weights = self.model.with_weights(tokens)
        return logits, next_token_probabilities(logits[:, -1], temperature=t, top_k=k, top_p=p), weights


def settings(t: float, k: int, p: float) -> list[Tensor]:
    return [torch.tensor(t), torch.tensor(k), torch.tensor(p)]


@pytest.mark.parametrize("kv_heads", [6, 2])
def test_the_model_compiles_to_one_graph(kv_heads: int):
    model, tokens = gpt(kv_heads=kv_heads), some_tokens(2, 7)
    for function in (model.forward, model.with_weights):
        expected = function(tokens)
        torch.testing.assert_close(torch.compile(function, fullgraph=True, backend="eager")(tokens), expected)


@pytest.mark.parametrize("kv_heads", [6, 2])
def test_the_model_exports_with_free_batch_and_time(kv_heads: int):
    model = gpt(kv_heads=kv_heads).eval()
    exported = export(model, [some_tokens(2, 5)], [{0: "batch", 1: Dim("time", max=9)}]).module()
    for shape in ((1, 2), (3, 9), (4, 6)):
        torch.testing.assert_close(exported(some_tokens(*shape)), model(some_tokens(*shape)))


@pytest.fixture(scope="module")
def step() -> tuple[NextToken, OnnxRun]:
    model = NextToken(gpt(kv_heads=2)).eval().requires_grad_(False)
    inputs = [some_tokens(1, 5), *settings(0.8, 3, 0.9)]
    return model, OnnxRun(model, inputs, [{0: "batch", 1: "time"}, None, None, None])


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (3, 6)])
def test_onnx_runtime_gives_torchs_numbers(
    step: tuple[NextToken, OnnxRun],
    shape: tuple[int, int],
    setting: tuple[float, int, float],
    record_property: Callable[[str, object], None],
):
    model, run = step
    inputs = [some_tokens(*shape), *settings(*setting)]
    for name, theirs, ours in zip(("logits", "probabilities", "weights"), run(*inputs), model(*inputs), strict=True):
        record_property(f"largest difference, {name}", (theirs - ours).abs().max().item())
        torch.testing.assert_close(theirs, ours, atol=2e-6, rtol=1e-5)


def test_its_axes_are_free(step: tuple[NextToken, OnnxRun]):
    assert step[1].input_shapes == [["batch", "time"], [], [], []]
    assert step[1].output_shapes[0] == ["batch", "time", 11]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_settings_as_tensors_are_those_as_numbers(setting: tuple[float, int, float]):
    logits = gpt()(some_tokens(4, 7)).detach()
    t, k, p = setting
    as_numbers = next_token_probabilities(logits, temperature=t, top_k=k, top_p=p)
    t, k, p = settings(*setting)
    torch.testing.assert_close(next_token_probabilities(logits, temperature=t, top_k=k, top_p=p), as_numbers)


@pytest.mark.parametrize(
    "function",
    [
        lambda logits: keep_top_k(logits, 3),
        lambda logits: keep_top_p(logits, 0.8),
        lambda logits: next_token_probabilities(logits, temperature=0.5, top_k=5, top_p=0.8),
        lambda logits: next_token_probabilities(logits, temperature=0),
        lambda logits: sample(logits, temperature=0),
        lambda logits: sample(logits, top_k=1),  # nothing left to chance
    ],
)
def test_the_samplers_compile_and_export(function: Callable[[Tensor], Any]):
    class Module(nn.Module):
        def forward(self, logits: Tensor) -> Tensor:
            return function(logits)

    logits = gpt()(some_tokens(2, 7)).detach()
    compiled = torch.compile(function, fullgraph=True, backend="eager")
    exported = export(Module(), [logits[:, :5].clone()], [{1: "time"}]).module()
    for run in (compiled, exported):
        torch.testing.assert_close(run(logits), function(logits))


def test_equal_logits_keep_their_order_in_onnx():
    class Two(nn.Module):
        def forward(self, logits: Tensor) -> Tensor:
            return keep_top_k(logits, 2)

    run = OnnxRun(Two(), [torch.randn(3, 5)], [{0: "rows"}])
    logits = torch.tensor([[1.0, 3.0, 2.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    assert torch.equal(run(logits)[0], keep_top_k(logits, 2))
