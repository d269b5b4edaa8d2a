"""Copying PyTorch's layers and stacks: every option is honoured or named, whatever it is set to."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.attention import causal_mask
from lib.transformer import Decoder, Encoder, TransformerBlock

KINDS = {"encoder": nn.TransformerEncoderLayer, "decoder": nn.TransformerDecoderLayer}
both = pytest.mark.parametrize("kind", KINDS)
any_norm = pytest.mark.parametrize("norm_first", [True, False], ids=["Pre-LN", "Post-LN"])


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def layer(kind: str, **options: Any) -> Any:
    """A layer in which no two numbers are the same, so that one taken for another shows."""
    options = {"batch_first": True, "dim_feedforward": 20} | options
    made = KINDS[kind](12, 3, **options)
    for parameter in made.parameters():
        nn.init.normal_(parameter, mean=float(parameter.ndim == 1), std=0.3)
    return made.eval()


def run(kind: str, theirs: Any, ours: TransformerBlock, batch: int = 2) -> tuple[Tensor, Tensor]:
    """Outputs of both on the same numbers, and with the same random draws."""
    dtype = theirs.linear1.weight.dtype
    x, memory = torch.randn(batch, 5, 12, dtype=dtype), torch.randn(batch, 7, 12, dtype=dtype)
    torch.manual_seed(1)
    expected = theirs(x) if kind == "encoder" else theirs(x, memory)
    torch.manual_seed(1)
    output = ours(x).output if kind == "encoder" else ours(x, memory=memory).output
    return output, expected


class Squared(nn.Module):
    """An activation with a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(0.3))

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x.square()


OPTIONS: dict[str, dict[str, Any]] = {
    "relu by name": {"activation": "relu"},
    "gelu by name": {"activation": "gelu"},
    "a function": {"activation": torch.tanh},
    "a module": {"activation": nn.GELU(approximate="tanh")},
    "a module with a parameter": {"activation": Squared()},
    "a large epsilon": {"layer_norm_eps": 0.5},
    "no biases": {"bias": False},
    "double precision": {"dtype": torch.float64},
    "dropout that sleeps": {"dropout": 0.4},
    "a narrow feed-forward": {"dim_feedforward": 1},
}


@both
@any_norm
@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_is_honoured(name: str, kind: str, norm_first: bool):
    theirs = layer(kind, norm_first=norm_first, **OPTIONS[name])
    ours = TransformerBlock.from_torch(theirs)
    output, expected = run(kind, theirs, ours)
    torch.testing.assert_close(output, expected)


@both
@any_norm
@pytest.mark.parametrize("dropout", [0.3, 1.0])
def test_dropout_falls_where_theirs_falls_while_training(kind: str, norm_first: bool, dropout: float):
    theirs = layer(kind, norm_first=norm_first, dropout=dropout).train()
    for name in ("self_attn", "multihead_attn"):
        if hasattr(theirs, name):
            getattr(theirs, name).dropout = 0.0
    ours = TransformerBlock.from_torch(theirs)
    assert ours.training
    output, expected = run(kind, theirs, ours, batch=1)  # with more, theirs draws in another order
    torch.testing.assert_close(output, expected)


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, f"norm{i}") for kind, norms in (("encoder", 2), ("decoder", 3)) for i in range(1, norms + 1)],
)
def test_a_norm_of_ones_own_is_honoured(kind: str, name: str):
    theirs = layer(kind)
    norm = nn.RMSNorm(12, eps=0.1)
    nn.init.normal_(norm.weight)
    setattr(theirs, name, norm)
    with torch.enable_grad():  # without gradients theirs may take a path that ignores it
        theirs.requires_grad_(True)
        output, expected = run(kind, theirs, TransformerBlock.from_torch(theirs))
    torch.testing.assert_close(output, expected)


@any_norm
def test_each_of_three_norms_goes_to_its_sub_layer(norm_first: bool):
    theirs = layer("decoder", norm_first=norm_first)
    ours = TransformerBlock.from_torch(theirs)
    norms = {"attention_norm": theirs.norm1, "cross_norm": theirs.norm2, "feed_forward_norm": theirs.norm3}
    for name, norm in norms.items():
        assert torch.equal(ours.get_parameter(f"{name}.weight"), norm.weight)
        assert torch.equal(ours.get_parameter(f"{name}.bias"), norm.bias)
    output, expected = run("decoder", theirs, ours)
    torch.testing.assert_close(output, expected)


def test_the_copy_is_a_copy():
    theirs = layer("decoder", activation=Squared())
    ours = TransformerBlock.from_torch(theirs)
    assert not {p.data_ptr() for p in ours.parameters()} & {p.data_ptr() for p in theirs.parameters()}
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())


@both
@pytest.mark.parametrize("training", [True, False])
def test_the_mode_is_theirs(kind: str, training: bool):
    ours = TransformerBlock.from_torch(layer(kind, dropout=0.0).train(training))
    assert all(module.training == training for module in ours.modules())


def attention(**options: Any) -> Callable[[str], Any]:
    def change(name: str) -> Callable[[Any], None]:
        return lambda theirs: setattr(theirs, name, nn.MultiheadAttention(12, 3, batch_first=True, **options))

    return change


class Other(nn.MultiheadAttention):
    """Attention that may do anything."""


ATTENTIONS: dict[str, tuple[Callable[[str], Callable[[Any], None]], str]] = {
    "keys of another width": (attention(kdim=8), "kdim or vdim"),
    "values of another width": (attention(vdim=8), "kdim or vdim"),
    "an extra key": (attention(add_bias_kv=True), "add_bias_kv=True"),
    "a key of zeros": (attention(add_zero_attn=True), "add_zero_attn=True"),
    "another class": (lambda name: lambda theirs: setattr(theirs, name, Other(12, 3, batch_first=True)), "a Other"),
    "dropout of weights": (
        lambda name: lambda theirs: setattr(theirs.train(), "dropout", theirs.dropout),
        "dropout=0.1 while training",
    ),
}


@pytest.mark.parametrize(
    ("kind", "name"), [("encoder", "self_attn"), ("decoder", "self_attn"), ("decoder", "multihead_attn")]
)
@pytest.mark.parametrize("fault", ATTENTIONS)
def test_an_option_of_attention_without_a_counterpart_is_named(fault: str, kind: str, name: str):
    theirs, (change, message) = layer(kind), ATTENTIONS[fault]
    change(name)(theirs)
    with pytest.raises(ValueError, match=f"other must be without .*{name}.{message}"):
        TransformerBlock.from_torch(theirs)


@both
def test_every_option_without_a_counterpart_is_named_at_once(kind: str):
    theirs = layer(kind, batch_first=False)
    theirs.dropout1.p = 0.7
    with pytest.raises(ValueError, match=r"self_attn.batch_first=False, .*'dropout1': 0.7, 'dropout2': 0.1") as raised:
        TransformerBlock.from_torch(theirs)
    assert ("multihead_attn.batch_first" in str(raised.value)) == (kind == "decoder")


@both
@pytest.mark.parametrize("name", ["dropout", "dropout2"])
def test_a_dropout_that_was_replaced_is_named(kind: str, name: str):
    theirs = layer(kind)
    setattr(theirs, name, nn.Identity())
    with pytest.raises(ValueError, match=f"dropouts that differ: .*'{name}': None"):
        TransformerBlock.from_torch(theirs)


def test_another_layer_is_named():
    class Mine(nn.TransformerEncoderLayer):
        pass

    for other in (Mine(12, 3, batch_first=True), nn.Linear(3, 3)):
        with pytest.raises(ValueError, match=f"other must be an nn.Transformer.*, got {type(other).__name__}"):
            TransformerBlock.from_torch(other)  # pyright: ignore[reportArgumentType]


STACKS: dict[str, tuple[Any, Any]] = {
    "encoder": (Encoder, lambda layer, norm: nn.TransformerEncoder(layer, 3, norm, enable_nested_tensor=False)),
    "decoder": (Decoder, lambda layer, norm: nn.TransformerDecoder(layer, 3, norm)),
}


@both
@any_norm
@pytest.mark.parametrize("norm", [None, nn.RMSNorm(12, eps=0.3), nn.LayerNorm(12, eps=0.3)], ids=["none", "RMS", "LN"])
def test_a_stack_keeps_its_last_norm_and_its_layers_apart(norm: nn.Module | None, kind: str, norm_first: bool):
    make, wrap = STACKS[kind]
    theirs = wrap(layer(kind, norm_first=norm_first), norm).eval()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, mean=float(parameter.ndim == 1), std=0.3)
    x, memory, future = torch.randn(2, 5, 12), torch.randn(2, 7, 12), ~causal_mask(5)
    ours = make.from_torch(theirs)
    assert not ours.training
    output, expected = (ours(x)[0], theirs(x)) if kind == "encoder" else (ours(x, memory)[0], theirs(x, memory, future))
    torch.testing.assert_close(output, expected, atol=1e-4, rtol=1e-4)


def test_a_stack_names_what_it_cannot_copy():
    make, wrap = STACKS["encoder"]
    with pytest.raises(ValueError, match="batch_first=False"):
        make.from_torch(wrap(layer("encoder", batch_first=False), None))
    for other in (STACKS["decoder"][1](layer("decoder"), None), nn.Linear(2, 2)):
        with pytest.raises(ValueError, match=f"other must be an nn.TransformerEncoder, got {type(other).__name__}"):
            make.from_torch(other)


def test_gelu_is_not_taken_for_relu():
    theirs = layer("encoder", activation=F.gelu)
    ours = TransformerBlock.from_torch(layer("encoder", activation=F.relu))
    ours.load_state_dict(TransformerBlock.from_torch(theirs).state_dict())
    output, expected = run("encoder", theirs, ours)
    assert not torch.allclose(output, expected, atol=0.01)
