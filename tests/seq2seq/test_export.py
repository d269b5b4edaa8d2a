"""Encoder and step in one graph: compiled, exported for any batch and length, and run in ONNX Runtime."""

from typing import Any

import pytest
import torch
from torch import Tensor

from lib.seq2seq import Memory, Seq2Seq, greedy_decode, teacher_forcing_loss
from tests.onnx_run import Call, OnnxRun, export

# What PyTorch's compiler imports on the way warns about itself.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")

SOURCE = {0: "batch", 1: "source"}
BATCH = {0: "batch"}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
    torch.compiler.reset()


@pytest.fixture(params=[True, False], ids=["attention", "one vector"])
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    return Seq2Seq(13, 5, 7, attention=request.param).eval()


def tokens(*shape: int) -> Tensor:
    return torch.randint(13, shape)


def compiled(function: Any) -> Any:
    return torch.compile(function, fullgraph=True, backend="eager")


@pytest.mark.parametrize(
    ("attention", "lengths"),
    [(True, None), (True, torch.tensor([5, 1, 0])), (False, torch.tensor([5, 1, 0]))],
    ids=["full", "padded", "one vector"],
)
def test_the_loss_compiles_in_one_graph_and_learns_the_same(attention: bool, lengths: Tensor | None):
    model = Seq2Seq(13, 5, 7, attention=attention)
    source, target_in, target = tokens(3, 5), tokens(3, 2), tokens(3, 2)
    parameters, losses, gradients = list(model.parameters()), [], []
    for function in (compiled(teacher_forcing_loss), teacher_forcing_loss):
        losses.append(function(model, source, target_in, target, lengths))
        gradients.append(torch.autograd.grad(losses[-1], parameters))
    torch.testing.assert_close(*losses)
    for ours, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, expected, atol=1e-6, rtol=1e-4)


def test_decoding_compiles_in_one_graph(model: Seq2Seq):
    source, lengths = tokens(3, 6), torch.tensor([6, 1, 0])
    written, alignments = compiled(greedy_decode)(model, source, 10, 2, lengths)
    expected, weights = greedy_decode(model, source, 10, 2, lengths)
    assert torch.equal(written, expected)
    assert (alignments is None) == (weights is None)
    if alignments is not None:
        torch.testing.assert_close(alignments, weights)


def encoder(model: Seq2Seq) -> Call:
    return Call(
        model, lambda source, lengths: tuple(part for part in model.encode(source, lengths) if part is not None)
    )


def decoder(model: Seq2Seq) -> Call:
    def step(tokens: Tensor, state: Tensor, *memory: Tensor) -> tuple[Tensor, ...]:
        logits, state, weights = model.step(tokens, state, as_memory(memory))
        return (logits, state) if weights is None else (logits, state, weights)

    return Call(model, step)


def as_memory(parts: tuple[Tensor, ...] | list[Tensor]) -> Memory:
    """Without attention there are no keys."""
    states, summary, *keys, mask = parts
    return Memory(states, summary, keys[0] if keys else None, mask)


def step_axes(model: Seq2Seq) -> list[dict[int, str]]:
    keys = [] if model.attention is None else [SOURCE]
    return [BATCH, BATCH, SOURCE, BATCH, *keys, SOURCE]


def padded(batch: int, size: int) -> tuple[Tensor, Tensor]:
    lengths = torch.randint(size + 1, (batch,))
    lengths[0] = size - 1  # something is padded, so that there is a mask
    return tokens(batch, size), lengths


def test_encoder_and_step_are_exported_for_any_batch_and_length(model: Seq2Seq):
    example = padded(3, 6)
    memory = encoder(model)(*example)
    encode = export(encoder(model), example, [SOURCE, BATCH]).module()
    step = export(decoder(model), (tokens(3), torch.randn(3, 7), *memory), step_axes(model)).module()
    for batch, size in ((2, 9), (5, 4)):
        source, lengths = padded(batch, size)
        read = encode(source, lengths)
        torch.testing.assert_close(read, encoder(model)(source, lengths))
        inputs = (tokens(batch), torch.randn(batch, 7), *read)
        torch.testing.assert_close(step(*inputs), decoder(model)(*inputs))


def test_a_source_without_lengths_is_exported_too():
    model = Seq2Seq(13, 5, 7).eval()
    encode = Call(model, lambda source: model.encode(source).states)
    exported = export(encode, (tokens(3, 6),), [SOURCE]).module()
    source = tokens(2, 9)
    torch.testing.assert_close(exported(source), model.encode(source).states)


def test_encoder_and_step_in_onnx_write_what_torch_writes():
    model = Seq2Seq(13, 5, 7).eval()
    example = padded(3, 6)
    memory = encoder(model)(*example)
    encode = OnnxRun(encoder(model), example, [SOURCE, BATCH])
    step = OnnxRun(decoder(model), (tokens(3), torch.randn(3, 7), *memory), step_axes(model))
    assert encode.input_shapes == [["batch", "source"], ["batch"]]
    assert encode.output_shapes[:2] == [["batch", "source", 14], ["batch", 14]]
    assert encode.output_shapes[-1] == ["batch", "source"]
    assert step.output_shapes == [["batch", 13], ["batch", 7], ["batch", "source"]]
    for batch, size in ((2, 9), (5, 4), (1, 2)):
        source, lengths = padded(batch, size)
        read = encode(source, lengths)
        for ours, expected in zip(read, encoder(model)(source, lengths), strict=True):
            torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-4)
        written, alignments = greedy_decode(model, source, 10, 4, lengths)
        assert alignments is not None
        last, state = torch.full((batch,), 10), torch.zeros(batch, 7)
        for t in range(4):
            logits, state, weights = step(last, state, *read)
            last = logits.argmax(-1)
            assert torch.equal(last, written[:, t])
            torch.testing.assert_close(weights, alignments[:, t], atol=1e-5, rtol=1e-4)
