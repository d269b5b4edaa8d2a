"""Encoder and decoder: each equation against PyTorch's parts, padding, and decoding step by step."""

import pickle
from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from lib.seq2seq import IGNORED, Seq2Seq, greedy_decode, teacher_forcing_loss

VOCAB, EMBEDDING, HIDDEN = 13, 5, 7
LENGTHS = torch.tensor([6, 3, 1])


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=[True, False], ids=["attention", "one vector"])
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    return Seq2Seq(VOCAB, EMBEDDING, HIDDEN, attention=request.param)


def tokens(*shape: int) -> Tensor:
    return torch.randint(VOCAB, shape)


def assert_same(ours: tuple[Tensor, Tensor | None], expected: tuple[Tensor, Tensor | None]) -> None:
    torch.testing.assert_close(ours[0], expected[0])
    assert (ours[1] is None) == (expected[1] is None)
    if ours[1] is not None:
        torch.testing.assert_close(ours[1], expected[1])


def test_shapes(model: Seq2Seq):
    logits, alignments = model(tokens(3, 6), tokens(3, 4))
    assert logits.shape == (3, 4, VOCAB)
    assert (None if alignments is None else alignments.shape) == ((3, 4, 6) if model.attention else None)


def test_all_steps_at_once_are_the_equations_one_after_another():
    model = Seq2Seq(VOCAB, EMBEDDING, HIDDEN)
    source, target_in = tokens(2, 6), tokens(2, 4)
    logits, alignments = model(source, target_in)
    h, _ = model.encoder(model.embedding(source))
    state = torch.zeros(2, HIDDEN)
    assert model.attention is not None
    for t in range(4):
        context, weights = model.attention(state[:, None], h, h)  # the query is the state before the step
        state = model.decoder(torch.cat([model.embedding(target_in[:, t]), context[:, 0]], -1), state)
        torch.testing.assert_close(logits[:, t], model.output(torch.cat([state, context[:, 0]], -1)))
        torch.testing.assert_close(alignments[:, t], weights[:, 0])


def test_without_attention_each_step_gets_the_ends_of_both_directions():
    model = Seq2Seq(VOCAB, EMBEDDING, HIDDEN, attention=False)
    source, target_in = tokens(2, 6), tokens(2, 4)
    h, _ = model.encoder(model.embedding(source))
    ends = torch.cat([h[:, -1, :HIDDEN], h[:, 0, HIDDEN:]], -1)
    inputs = torch.cat([model.embedding(target_in), ends[:, None].expand(-1, 4, -1)], -1)
    decoder = nn.GRU(EMBEDDING + 2 * HIDDEN, HIDDEN, batch_first=True)
    names = {"weight_ih_l0": "weight_ih", "weight_hh_l0": "weight_hh", "bias_ih_l0": "bias_ih", "bias_hh_l0": "bias_hh"}
    decoder.load_state_dict({ours: model.decoder.state_dict()[theirs] for ours, theirs in names.items()})
    states, _ = decoder(inputs)
    expected = model.output(torch.cat([states, ends[:, None].expand(-1, 4, -1)], -1))
    torch.testing.assert_close(model(source, target_in)[0], expected)


def test_attention_adds_only_its_own_parameters():
    with_attention, without = (
        sum(parameter.numel() for parameter in Seq2Seq(11, 32, 64, attention).parameters())
        for attention in (True, False)
    )
    assert with_attention - without == 64 * 64 + 128 * 64 + 64
    assert without == 11 * 32 + 2 * (32 + 64 + 2) * 192 + (32 + 128 + 64 + 2) * 192 + 193 * 11


def test_alignments_are_weights():
    _, alignments = Seq2Seq(VOCAB, EMBEDDING, HIDDEN)(tokens(3, 6), tokens(3, 4), LENGTHS)
    assert (alignments >= 0).all()
    torch.testing.assert_close(alignments.sum(-1), torch.ones(3, 4))


def test_padding_changes_nothing(model: Seq2Seq):
    source, target_in = tokens(3, 6), tokens(3, 4)
    logits, alignments = model(source, target_in, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = model(source[row : row + 1, :length], target_in[row : row + 1])
        kept = None if alignments is None else alignments[row : row + 1, :, :length]
        assert_same((logits[row : row + 1], kept), alone)
        assert alignments is None or (alignments[row, :, length:] == 0).all()


@pytest.mark.parametrize("filler", [-100, 0, 12, 99])
def test_what_stands_on_padding_changes_no_bit_even_out_of_the_vocabulary(model: Seq2Seq, filler: int):
    source, target_in = tokens(3, 6), tokens(3, 4)
    padding = torch.arange(6) >= LENGTHS[:, None]
    before, _ = model(source, target_in, LENGTHS)
    after, _ = model(source.masked_fill(padding, filler), target_in, LENGTHS)
    assert torch.equal(before, after)


def test_padding_gives_no_gradient_to_its_token(model: Seq2Seq):
    source = torch.full((2, 5), 3)
    source[0, 2:] = 12
    model(source, torch.full((2, 4), 3), torch.tensor([2, 5]))[0].sum().backward()
    assert model.embedding.weight.grad is not None
    assert (model.embedding.weight.grad[12] == 0).all()
    assert (model.embedding.weight.grad[0] == 0).all()  # what stands in for padding inside
    assert (model.embedding.weight.grad[3] != 0).any()


def test_full_lengths_are_no_lengths(model: Seq2Seq):
    source, target_in = tokens(3, 6), tokens(3, 4)
    assert_same(model(source, target_in, torch.tensor([6, 6, 6])), model(source, target_in))


def test_an_empty_source_gives_zeros_and_finite_gradients(model: Seq2Seq):
    logits, alignments = model(tokens(2, 6), tokens(2, 4), torch.tensor([0, 6]))
    other, _ = model(tokens(2, 6), torch.zeros(2, 4, dtype=torch.long), torch.tensor([0, 6]))
    same, _ = model(tokens(2, 6), torch.zeros(2, 4, dtype=torch.long), torch.tensor([0, 6]))
    assert alignments is None or (alignments[0] == 0).all()
    assert torch.equal(other[0], same[0])
    memory = model.encode(tokens(2, 6), torch.tensor([0, 6]))
    assert (memory.states[0] == 0).all()
    assert (memory.summary[0] == 0).all()
    logits.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_the_future_of_the_target_is_not_seen(model: Seq2Seq):
    source, before = tokens(2, 6), tokens(2, 5)
    after = before.clone()
    after[:, 3:] = (after[:, 3:] + 1) % VOCAB
    assert torch.equal(model(source, before)[0][:, :3], model(source, after)[0][:, :3])
    assert not torch.equal(model(source, before)[0][:, 3], model(source, after)[0][:, 3])


def test_the_loss_is_the_mean_over_the_true_tokens(model: Seq2Seq):
    source, target_in, target = tokens(3, 6), tokens(3, 4), tokens(3, 4)
    target[0, 1:] = IGNORED
    surprise = -model(source, target_in, LENGTHS)[0].log_softmax(-1)
    counted = [surprise[row, t, target[row, t]] for row in range(3) for t in range(4 if row else 1)]
    loss = teacher_forcing_loss(model, source, target_in, target, LENGTHS)
    torch.testing.assert_close(loss, torch.stack(counted).mean())


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "padded"])
def test_greedy_decoding_is_teacher_forcing_on_ones_own_tokens(model: Seq2Seq, lengths: Tensor | None):
    source = tokens(3, 6)
    written, alignments = greedy_decode(model, source, 10, 5, lengths)
    prefix = torch.cat([torch.full((3, 1), 10), written[:, :-1]], 1)
    logits, expected = model(source, prefix, lengths)
    assert torch.equal(written, logits.argmax(-1))
    assert_same((written, alignments), (logits.argmax(-1), expected))


def test_a_step_of_decoding_reads_one_token_and_the_source_is_encoded_once(model: Seq2Seq):
    calls = {"encoder": 0, "decoder": 0}

    def count(name: str) -> None:
        getattr(model, name).register_forward_hook(lambda *_: calls.update({name: calls[name] + 1}))

    count("encoder")
    count("decoder")
    greedy_decode(model, tokens(2, 6), start=10, steps=9)
    assert calls == {"encoder": 1, "decoder": 9}


def test_decoding_leaves_no_graph_and_no_trace_in_the_model(model: Seq2Seq):
    before = {name: value.clone() for name, value in model.state_dict().items()}
    _, alignments = greedy_decode(model.train(), tokens(2, 6), start=10, steps=3)
    assert model.training
    assert alignments is None or not alignments.requires_grad
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("source", "target_in", "lengths", "message"),
    [
        ((2, 6), (3, 4), None, r"each source needs one target_in, got source \(2, 6\) and target_in \(3, 4\)"),
        ((1, 6), (3, 4), None, r"each source needs one target_in, got source \(1, 6\) and target_in \(3, 4\)"),
        ((2, 6), (2, 0), None, r"target_in must be \(batch, time\) integers, got \(2, 0\)"),
        ((2, 0), (2, 4), None, r"source must be \(batch, time\) integers, got \(2, 0\)"),
        ((2, 0), (2, 4), [0, 0], r"source must be \(batch, time\) integers, got \(2, 0\)"),
        ((6,), (2, 4), None, r"source .*\(6,\)"),
        ((2, 6, 3), (2, 4), None, r"source must be \(batch, time\) integers, got \(2, 6, 3\)"),
        ((2, 6, 3), (2, 4), [6, 6], r"source_lengths must be \(batch,\) .* source \(2, 6, 3\)"),
        ((2, 6), (2, 4), [[6], [6]], r"got \(2, 1\) and source \(2, 6\)"),
        ((2, 6), (2, 4), [6.0, 2.0], r"lengths must be \(batch,\) integers, got \(2,\) torch.float32"),
        ((2, 6), (2, 4), [True, False], r"lengths must be \(batch,\) integers, got \(2,\) torch.bool"),
        ((2, 6), (2, 4), [6], r"source_lengths must be \(batch,\) .* got \(1,\) and source \(2, 6\)"),
        ((2, 6), (2, 4), [7, 2], "lengths must lie in 0 … size = 6"),
        ((2, 6), (2, 4), [-1, 2], "lengths must lie in 0 … size = 6"),
    ],
)
def test_shapes_that_do_not_fit_are_named(source: tuple, target_in: tuple, lengths: list | None, message: str):
    model = Seq2Seq(VOCAB, EMBEDDING, HIDDEN)
    for some in (lengths, None if lengths is None else torch.tensor(lengths)):
        with pytest.raises(ValueError, match=message):
            model(tokens(*source), tokens(*target_in), some)


def test_lengths_may_be_a_list_and_of_any_integers(model: Seq2Seq):
    source, target_in = tokens(3, 6), tokens(3, 4)
    expected = model(source, target_in, LENGTHS)
    for lengths in (LENGTHS.tolist(), tuple(LENGTHS.tolist()), LENGTHS.to(torch.uint8), LENGTHS.int()):
        assert_same(model(source, target_in, lengths), expected)
        assert torch.equal(*(greedy_decode(model, source, 10, 4, some)[0] for some in (lengths, LENGTHS)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.uint8])
def test_tokens_that_are_no_integers_are_named(model: Seq2Seq, dtype: torch.dtype):
    right, wrong = torch.ones(2, 4, dtype=torch.long), torch.ones(2, 4, dtype=dtype)
    memory = model.encode(right)
    calls: dict[str, Callable[[], object]] = {
        "source": lambda: model(wrong, right),
        "target_in": lambda: model(right, wrong),
        "target": lambda: teacher_forcing_loss(model, right, right, wrong),
        "tokens": lambda: model.step(wrong[:, 0], model.start(memory), memory),
    }
    for name, call in calls.items():
        with pytest.raises(ValueError, match=f"{name} must be .* got .* {dtype}"):
            call()


def test_tokens_out_of_range_are_named(model: Seq2Seq):
    with pytest.raises(ValueError, match=r"source must lie in 0 … 12, got 0 … 13"):
        model(torch.tensor([[0, 13]]), tokens(1, 2))
    with pytest.raises(ValueError, match=r"target_in must lie in 0 … 12, got -100 … 1"):
        model(tokens(1, 2), torch.tensor([[1, -100]]))
    with pytest.raises(ValueError, match=r"target must lie in 0 … 12, got 0 … 13"):
        teacher_forcing_loss(model, tokens(1, 2), tokens(1, 3), torch.tensor([[0, 13, IGNORED]]))
    memory = model.encode(tokens(2, 3))
    with pytest.raises(ValueError, match=r"tokens must lie in 0 … 12, got 2 … 13"):
        model.step(torch.tensor([13, 2]), model.start(memory), memory)
    with pytest.raises(ValueError, match=r"tokens must be \(batch,\), got \(2, 1\)"):
        model.step(torch.tensor([[1], [2]]), model.start(memory), memory)


@pytest.mark.parametrize("shape", [(2, 3), (2, 5), (3, 4), (8,)])
def test_a_target_of_another_shape_is_named(model: Seq2Seq, shape: tuple[int, ...]):
    with pytest.raises(ValueError, match=r"one shape, got target .* and target_in \(2, 4\)"):
        teacher_forcing_loss(model, tokens(2, 6), tokens(2, 4), tokens(*shape))


def test_a_target_that_is_all_padding_has_no_loss(model: Seq2Seq):
    for batch in (2, 0):
        with pytest.raises(ValueError, match=rf"not IGNORED, got none in \({batch}, 4\)"):
            teacher_forcing_loss(model, tokens(batch, 6), tokens(batch, 4), torch.full((batch, 4), IGNORED))


@pytest.mark.parametrize("lengths", [None, torch.zeros(0, dtype=torch.long), []], ids=["full", "tensor", "list"])
def test_no_pair_gives_no_logits(model: Seq2Seq, lengths: Tensor | list | None):
    lengths = torch.tensor(lengths, dtype=torch.long) if isinstance(lengths, list) else lengths
    logits, alignments = model(tokens(0, 6), tokens(0, 4), lengths)
    assert logits.shape == (0, 4, VOCAB)
    assert alignments is None or alignments.shape == (0, 4, 6)
    assert greedy_decode(model, tokens(0, 6), 10, 3, lengths)[0].shape == (0, 3)


def assert_about(loss: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    eps = max(torch.finfo(dtype).eps, torch.finfo(expected.dtype).eps)
    torch.testing.assert_close(loss.double(), expected.double(), rtol=2 * eps, atol=0)


@pytest.mark.parametrize("lengths", [None, LENGTHS, torch.tensor([6, 0, 2])], ids=["full", "padded", "empty"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_every_precision_trains_and_decodes(model: Seq2Seq, dtype: torch.dtype, lengths: Tensor | None):
    source, target_in, target = tokens(3, 6), tokens(3, 4), tokens(3, 4)
    expected = teacher_forcing_loss(model, source, target_in, target, lengths)
    model = model.to(dtype)
    loss = teacher_forcing_loss(model, source, target_in, target, lengths)
    assert loss.dtype == torch.promote_types(dtype, torch.float32)
    assert_about(loss, expected, dtype)
    loss.backward()
    assert all(p.grad is not None and p.grad.dtype == dtype and p.grad.isfinite().all() for p in model.parameters())
    _, alignments = greedy_decode(model, source, 10, 3, lengths)
    assert alignments is None or alignments.dtype == dtype


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "padded"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_mixed_precision_gives_about_the_same_loss_and_gradients(
    model: Seq2Seq, dtype: torch.dtype, lengths: Tensor | None
):
    batch = (tokens(3, 6), tokens(3, 4), tokens(3, 4), lengths)
    plain = teacher_forcing_loss(model, *batch)
    expected = torch.autograd.grad(plain, list(model.parameters()))
    with torch.autocast("cpu", dtype):
        mixed = teacher_forcing_loss(model, *batch)
        greedy_decode(model, batch[0], 10, 3, lengths)
    mixed.backward()
    assert_about(mixed, plain, torch.bfloat16)
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, gradient, rtol=0.1, atol=0.02)


@given(st.lists(st.integers(0, 7), min_size=1, max_size=5), st.integers(0, 4), st.integers(-100, 99), st.booleans())
def test_a_sequence_alone_is_as_in_any_batch_whatever_stands_on_padding(lengths, extra, filler, attention):
    model = Seq2Seq(VOCAB, EMBEDDING, HIDDEN, attention=attention)
    size = max(*lengths, 1) + extra
    source, target_in = tokens(len(lengths), size), tokens(len(lengths), 3)
    padding = torch.arange(size) >= torch.tensor(lengths)[:, None]
    logits, alignments = model(source.masked_fill(padding, filler), target_in, lengths)
    for row, length in enumerate(lengths):
        read = source[row, None, : max(length, 1)]
        alone, weights = model(read, target_in[row, None], None if length else [0])
        torch.testing.assert_close(logits[row, None], alone)
        if alignments is not None and weights is not None:
            torch.testing.assert_close(alignments[row, None, :, : max(length, 1)], weights)
            assert (alignments[row, :, length:] == 0).all()


@pytest.mark.parametrize("attention", [True, False])
@pytest.mark.parametrize("lengths", [None, [3, 1]])
def test_the_gradient_of_the_loss_is_that_of_finite_differences(attention: bool, lengths: list | None):
    model = Seq2Seq(5, 2, 3, attention=attention).double()
    source, target_in, target = (torch.randint(5, (2, size)) for size in (3, 2, 2))
    target[0, 1] = IGNORED
    names = [name for name, _ in model.named_parameters()]

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self) -> Tensor:
            return teacher_forcing_loss(self.model, source, target_in, target, lengths)

    def loss(*values: Tensor) -> Tensor:
        state = {f"model.{name}": value for name, value in zip(names, values, strict=True)}
        return torch.func.functional_call(Loss(), state, ())

    assert torch.autograd.gradcheck(loss, [p.detach().requires_grad_() for p in model.parameters()])


def rebuilt(model: Seq2Seq) -> Seq2Seq:
    with torch.device("meta"):
        other = Seq2Seq(VOCAB, EMBEDDING, HIDDEN, attention=model.attention is not None)
    other = other.to_empty(device="cpu")
    other.load_state_dict(model.state_dict())
    return other


@pytest.mark.parametrize("copy", [deepcopy, rebuilt, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_of_the_model_computes_the_same(model: Seq2Seq, copy: Callable[[Seq2Seq], Seq2Seq]):
    source, target_in = tokens(3, 6), tokens(3, 4)
    assert torch.equal(copy(model)(source, target_in, LENGTHS)[0], model(source, target_in, LENGTHS)[0])


@pytest.mark.parametrize(("start", "steps", "message"), [(13, 2, "got 13"), (-1, 2, "got -1"), (10, 0, "got 0")])
def test_bad_starts_and_steps_are_named(start: int, steps: int, message: str):
    with pytest.raises(ValueError, match=message):
        greedy_decode(Seq2Seq(VOCAB, EMBEDDING, HIDDEN), tokens(2, 3), start, steps)


@pytest.mark.parametrize(
    ("sizes", "name"), [((0, 4, 4), "vocab_size"), ((4, 0, 4), "embedding_dim"), ((4, 4, 0), "hidden_dim")]
)
def test_sizes_below_one_are_named(sizes: tuple[int, int, int], name: str):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        Seq2Seq(*sizes)
