"""Attention in tiles: equal to the whole matrix, forward and backward, without holding it."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from lib.attention import causal_mask, dot_product_attention, padding_mask, tiled_attention

PADDING = padding_mask([0, 4], 7)
PER_HEAD = torch.rand(2, 3, 5, 7, generator=torch.Generator().manual_seed(1)) > 0.5


def whole(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    return dot_product_attention(query, key, value, mask)[0]


def inputs(dtype: torch.dtype = torch.float64, value_dim: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype).requires_grad_()

    return draw(2, 3, 5, 4), draw(2, 3, 7, 4), draw(2, 3, 7, value_dim)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def gradients(output: Tensor, of: Sequence[Tensor]) -> list[Tensor]:
    upstream = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    return list(torch.autograd.grad(output, of, upstream))


@pytest.mark.parametrize("block_size", [1, 2, 3, 5, 7, 100])
def test_the_size_of_a_tile_changes_nothing(block_size: int):
    tensors = inputs()
    output = tiled_attention(*tensors, PER_HEAD, block_size=block_size)
    expected = whole(*tensors, PER_HEAD)
    torch.testing.assert_close(output, expected)
    for own, other in zip(gradients(output, tensors), gradients(expected, tensors), strict=True):
        torch.testing.assert_close(own, other)


@pytest.mark.parametrize("mask", [None, PADDING, PER_HEAD], ids=["none", "padding", "per head"])
def test_gradients_equal_finite_differences(mask: Tensor | None):
    assert torch.autograd.gradcheck(lambda q, k, v: tiled_attention(q, k, v, mask, block_size=3), inputs(value_dim=2))


@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (2, 7), (5, 2)])
def test_causal_needs_no_mask(queries: int, keys: int):
    query, key, value = inputs()
    tensors = query[..., :queries, :], key[..., :keys, :], value[..., :keys, :]
    output = tiled_attention(*tensors, block_size=2, causal=True)
    expected = whole(*tensors, causal_mask(queries, keys))
    torch.testing.assert_close(output, expected)
    for own, other in zip(gradients(output, tensors), gradients(expected, tensors), strict=True):
        torch.testing.assert_close(own, other)


def test_causal_and_a_mask_both_count():
    tensors = inputs()
    output = tiled_attention(*tensors, PADDING, block_size=2, causal=True)
    torch.testing.assert_close(output, whole(*tensors, PADDING & causal_mask(5, 7)))


def test_scores_beyond_the_range_of_exp_are_no_trouble():
    query, key, value = (100 * x.float() for x in inputs())
    torch.testing.assert_close(tiled_attention(query, key, value, block_size=3), whole(query, key, value))


class Largest(TorchDispatchMode):
    """Notes the most numbers that any tensor made meanwhile holds."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, Tensor):
            self.numbers = max(self.numbers, made.numel())
        return made


@pytest.mark.parametrize("causal", [False, True])
def test_memory_is_that_of_the_inputs_not_of_the_scores(causal: bool):
    x = torch.randn(128, 4, requires_grad=True)
    with Largest() as tiles:
        tiled_attention(x, x, x, block_size=8, causal=causal).sum().backward()
    with Largest() as matrix:
        whole(x, x, x).sum().backward()
    assert tiles.numbers == 128 * 4
    assert matrix.numbers == 128 * 128


def test_tiles_that_lie_in_the_future_cost_nothing():
    x = torch.randn(64, 4, requires_grad=True)
    with FlopCounterMode(display=False) as full:
        tiled_attention(x, x, x, block_size=4).sum().backward()
    with FlopCounterMode(display=False) as causal:
        tiled_attention(x, x, x, block_size=4, causal=True).sum().backward()
    assert causal.get_total_flops() / full.get_total_flops() == (16 + 1) / (2 * 16)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_halves_are_rounded_once_however_many_tiles(dtype: torch.dtype):
    query, key, value = (
        torch.randn(3, 5, 4).to(dtype),
        torch.randn(3, 700, 4).to(dtype),
        torch.rand(3, 700, 6).to(dtype),
    )
    exact = whole(query.double(), key.double(), value.double())
    error = (tiled_attention(query, key, value, block_size=2) - exact).abs()
    assert (error <= 0.51 * torch.finfo(dtype).eps * exact).all()


def test_a_second_derivative_is_refused():
    tensors = inputs()
    (first,) = torch.autograd.grad(
        tiled_attention(*tensors, block_size=3).square().sum(), tensors[:1], create_graph=True
    )
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


@pytest.mark.parametrize("block_size", [0, -2])
def test_a_tile_holds_at_least_one_token(block_size: int):
    with pytest.raises(ValueError, match=f"block_size must be at least 1, got {block_size}"):
        tiled_attention(*inputs(), block_size=block_size)
