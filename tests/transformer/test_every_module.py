"""What holds for every module of the package: types, modes, empty input, copies, compilation, and bad input."""

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lib.attention import MultiHeadAttention
from lib.transformer import (
    Decoder,
    Encoder,
    FeedForward,
    LearnedPositions,
    RotaryAttention,
    SwiGLU,
    TransformerBlock,
    alibi_bias,
)

BIASED = partial(MultiHeadAttention, bias=True)
GROUPED = partial(RotaryAttention, kv_heads=1, layout="half")


class Positioned(nn.Module):
    """Learned positions as they are used: added to tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = LearnedPositions(16, 12)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.positions(x.shape[-2])


class Biased(nn.Module):
    """An encoder with ALiBi."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder(12, 3, 2)

    def forward(self, x: Tensor, need_weights: bool = False) -> tuple[Tensor, Tensor | None]:
        return self.encoder(x, bias=alibi_bias(3, x.shape[-2]), need_weights=need_weights)


MODULES: dict[str, Callable[[], nn.Module]] = {
    "FeedForward": lambda: FeedForward(12, 20),
    "SwiGLU": lambda: SwiGLU(12),
    "LearnedPositions": Positioned,
    "RotaryAttention": lambda: RotaryAttention(12, 3),
    "RotaryAttention, grouped": lambda: GROUPED(12, 3),
    "block": lambda: TransformerBlock(12, 3),
    "block, Post-LN, RMSNorm": lambda: TransformerBlock(12, 3, norm="post", norm_layer=nn.RMSNorm),
    "Encoder": lambda: Encoder(12, 3, 2, attention=BIASED),
    "Encoder, ALiBi": Biased,
    "Encoder, Post-LN": lambda: Encoder(12, 3, 2, norm="post"),
    "Decoder": lambda: Decoder(12, 3, 2),
    "Decoder alone": lambda: Decoder(
        12, 3, 2, cross_attention=False, attention=GROUPED, feed_forward=SwiGLU, norm_layer=nn.RMSNorm
    ),
}
every_module = pytest.mark.parametrize("name", MODULES)
WITH_WEIGHTS = [name for name in MODULES if name not in ("FeedForward", "SwiGLU", "LearnedPositions")]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def inputs(name: str, batch: int = 2, time: int = 5) -> list[Tensor]:
    x, memory = torch.randn(batch, time, 12), torch.randn(batch, 7, 12)
    return [x, memory] if name == "Decoder" else [x]


def output(module: Callable[..., Any], *tensors: Tensor, **options: Any) -> Tensor:
    result = module(*tensors, **options)
    return result if isinstance(result, Tensor) else result[0]


def weights_or_not(name: str) -> list[dict[str, bool]]:
    return [{}, {"need_weights": True}] if name in WITH_WEIGHTS else [{}]


@every_module
def test_under_autocast_it_computes_in_bfloat16_and_learns(name: str):
    module, tensors = MODULES[name](), inputs(name)
    for options in weights_or_not(name):
        expected = output(module, *tensors, **options)
        with torch.autocast("cpu", torch.bfloat16):
            result = output(module, *tensors, **options)
        torch.testing.assert_close(result.float(), expected, atol=0.05, rtol=0.05)
        grads = torch.autograd.grad(result.float().square().sum(), list(module.parameters()))
        precise = torch.autograd.grad(expected.square().sum(), list(module.parameters()))
        for parameter, grad, wanted in zip(module.parameters(), grads, precise, strict=True):
            assert grad.dtype == parameter.dtype
            assert (grad - wanted).norm() <= 0.1 * wanted.norm() + 1e-2


@every_module
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_the_type_is_that_of_the_input_and_the_numbers_are_those_of_single_precision(name: str, dtype: torch.dtype):
    module, tensors = MODULES[name](), inputs(name)
    other, converted = copy.deepcopy(module).to(dtype), [x.to(dtype) for x in tensors]
    for options in weights_or_not(name):
        result = output(other, *converted, **options)
        assert result.dtype == dtype
        eps = torch.finfo(dtype).eps if dtype != torch.float64 else 1e-5
        torch.testing.assert_close(result.float(), output(module, *tensors, **options), atol=8 * eps, rtol=8 * eps)
        result.sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in other.parameters())


@pytest.mark.parametrize("norm_layer", [nn.LayerNorm, partial(nn.RMSNorm, eps=1e-6)], ids=["LayerNorm", "RMSNorm"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_norms_of_large_halves_do_not_overflow(norm_layer: Any, dtype: torch.dtype):
    encoder = Encoder(12, 3, 2, norm_layer=norm_layer)
    x = 1000 * torch.randn(2, 5, 12)  # squares beyond float16
    result = output(copy.deepcopy(encoder).to(dtype), x.to(dtype))
    torch.testing.assert_close(result.float(), output(encoder, x), atol=0.1, rtol=0.1)


@every_module
@pytest.mark.parametrize(("batch", "time"), [(0, 5), (2, 0), (0, 0), (1, 1)])
def test_empty_input_gives_empty_output(name: str, batch: int, time: int):
    module = MODULES[name]()
    for options in weights_or_not(name):
        result = output(module, *inputs(name, batch, time), **options)
        assert result.shape == (batch, time, 12)
        assert result.isfinite().all()
        result.sum().backward()


def test_an_empty_memory_adds_nothing():
    decoder, x = Decoder(12, 3, 1), torch.randn(2, 5, 12)
    for options in ({}, {"need_weights": True}):
        result = decoder(x, torch.zeros(2, 0, 12), **options).output
        block = decoder.blocks[0]
        block.cross_norm = nn.Identity()
        zero = decoder(x, torch.zeros(2, 1, 12), **options).output  # no biases: a memory of zeros adds zeros
        torch.testing.assert_close(result, zero)


@every_module
def test_copies_compute_the_same(name: str):
    module, tensors = MODULES[name](), inputs(name)
    expected = output(module, *tensors)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(output(other, *tensors), expected)


@every_module
def test_made_on_the_meta_device_and_loaded_it_computes_the_same(name: str):
    module, tensors = MODULES[name](), inputs(name)
    with torch.device("meta"):
        other = MODULES[name]()
        shaped = output(other, *[x.to("meta") for x in tensors])
    assert shaped.shape == tensors[0].shape
    other.to_empty(device="cpu").load_state_dict(module.state_dict())
    assert torch.equal(output(other, *tensors), output(module, *tensors))


@every_module
def test_it_compiles_without_a_break(name: str):
    module, tensors = MODULES[name](), inputs(name)
    torch.compiler.reset()
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    for options in weights_or_not(name)[-1:]:
        torch.testing.assert_close(output(compiled, *tensors, **options), output(module, *tensors, **options))


@every_module
def test_without_dropout_the_mode_changes_nothing(name: str):
    module, tensors = MODULES[name](), inputs(name)
    assert torch.equal(output(module.train(), *tensors), output(module.eval(), *tensors))


@pytest.mark.parametrize("make", [partial(Encoder, 12, 3, 2), partial(Decoder, 12, 3, 2)])
@pytest.mark.parametrize("where", ["block", "feed-forward"])
def test_dropout_is_at_work_while_training_only(make: Any, where: str):
    options = {"dropout": 0.5} if where == "block" else {"feed_forward": partial(FeedForward, dropout=0.5)}
    module = make(**options)
    tensors = inputs(type(module).__name__)
    plain = make()
    plain.load_state_dict(module.state_dict())
    assert torch.equal(output(module.eval(), *tensors), output(plain, *tensors))
    assert not torch.equal(output(module.train(), *tensors), output(module, *tensors))


BAD = {
    "width": (torch.zeros(2, 5, 11), r"12\), real numbers, got \(2, 5, 11\) torch.float32"),
    "integers": (torch.zeros(2, 5, 12, dtype=torch.long), r"real numbers, got \(2, 5, 12\) torch.int64"),
    "booleans": (torch.zeros(2, 5, 12, dtype=torch.bool), r"real numbers, got \(2, 5, 12\) torch.bool"),
    "a number": (torch.zeros(()), r"real numbers, got \(\)"),
}


@pytest.mark.parametrize("name", ["FeedForward", "SwiGLU", "block", "Encoder", "Decoder", "Decoder alone"])
@pytest.mark.parametrize("fault", BAD)
def test_bad_input_is_named(name: str, fault: str):
    x, message = BAD[fault]
    with pytest.raises(ValueError, match=message):
        MODULES[name]()(x, *inputs(name)[1:])


@pytest.mark.parametrize("name", ["block", "Decoder", "Decoder alone"])
def test_a_token_without_a_time_axis_is_named(name: str):
    with pytest.raises(ValueError, match=r"x must be \(..., time, 12\), real numbers, got \(12,\)"):
        MODULES[name]()(torch.zeros(12), *inputs(name)[1:])


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_memory_is_named(fault: str):
    x, message = BAD[fault]
    with pytest.raises(ValueError, match=f"memory must be .*{message}"):
        Decoder(12, 3, 2)(torch.zeros(2, 5, 12), x)


def test_a_memory_of_another_batch_is_named():
    with pytest.raises(ValueError, match="must broadcast"):
        Decoder(12, 3, 2)(torch.zeros(2, 5, 12), torch.zeros(3, 7, 12))
