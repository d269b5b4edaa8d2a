"""What holds for any shapes, masks and types, and derivatives against finite differences."""

import math
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from lib.attention import (
    AdditiveAttention,
    block_causal_mask,
    causal_mask,
    dot_product_attention,
    fused_attention,
    hopfield_update,
    kernel_regression,
    masked_softmax,
    padding_mask,
    tiled_attention,
)

TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


class Drawn(NamedTuple):
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None


@st.composite
def attentions(draw: st.DrawFn, dtype: torch.dtype | None = None) -> Drawn:
    """Queries, keys and values of up to two leading axes, and a mask that broadcasts to their scores."""
    leading = draw(st.lists(st.integers(1, 3), max_size=2))
    queries, keys, dim, value_dim = (draw(st.integers(1, 8)) for _ in range(4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    dtype = dtype or draw(st.sampled_from(TYPES))
    shapes = (queries, dim), (keys, dim), (keys, value_dim)
    query, key, value = (torch.randn(*leading, *s, generator=generator).to(dtype) for s in shapes)
    axes = draw(st.sampled_from([0, 1, 2, 2 + len(leading)]))
    shape = [draw(st.sampled_from([1, n])) for n in [*leading, queries, keys][2 + len(leading) - axes :]]
    kept = draw(st.sampled_from([0.2, 0.5, 0.9]))
    mask = torch.rand(shape, generator=generator) < kept if axes else None
    return Drawn(query, key, value, mask)


@given(attentions())
def test_rows_of_weights_sum_to_one_or_are_zero_and_blocked_weights_are_exactly_zero(drawn: Drawn):
    output, weights = dot_product_attention(*drawn)
    allowed = torch.ones_like(weights, dtype=torch.bool) if drawn.mask is None else drawn.mask.expand(weights.shape)
    assert (weights[~allowed] == 0).all()
    assert (weights >= 0).all()
    expected = allowed.any(-1).to(weights.dtype)
    torch.testing.assert_close(weights.sum(-1), expected, rtol=0, atol=8 * torch.finfo(weights.dtype).eps)
    assert (output[~allowed.any(-1)] == 0).all()
    assert weights.dtype == output.dtype == drawn.query.dtype


@given(attentions())
def test_the_fused_kernel_agrees(drawn: Drawn):
    expected, _ = dot_product_attention(*drawn)
    eps = torch.finfo(expected.dtype).eps
    torch.testing.assert_close(fused_attention(*drawn), expected, rtol=8 * eps, atol=16 * eps)


@settings(max_examples=40)
@given(attentions(torch.float64), st.integers(1, 9), st.booleans())
def test_tiles_of_any_size_agree_in_values_and_gradients(drawn: Drawn, block_size: int, causal: bool):
    query, key, value, mask = drawn
    inputs = query.requires_grad_(), key.requires_grad_(), value.requires_grad_()
    future = causal_mask(query.shape[-2], key.shape[-2])
    seen = (future if mask is None else mask & future) if causal else mask
    expected, _ = dot_product_attention(query, key, value, seen)
    output = tiled_attention(query, key, value, mask, block_size=block_size, causal=causal)
    torch.testing.assert_close(output, expected)
    upstream = torch.linspace(-1, 2, output.numel()).to(output).view_as(output)
    found, wanted = (torch.autograd.grad(x, inputs, upstream) for x in (output, expected))
    for own, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(own, other)


@given(attentions(torch.float64), st.floats(-1e30, 1e30))
def test_blocked_numbers_change_nothing(drawn: Drawn, junk: float):
    """One query at a time, so that what is hidden from it is hidden from all."""
    query, key, value, mask = drawn
    if mask is None:
        return
    shape = (*query.shape[:-1], key.shape[-2])
    for t in range(shape[-2]):
        row = mask.expand(shape)[..., t : t + 1, :]
        hidden, one = ~row.mT, query[..., t : t + 1, :]
        for attend in (lambda *x: dot_product_attention(*x)[0], fused_attention):
            clean = attend(one, key, value, row)
            assert torch.equal(attend(one, key.masked_fill(hidden, junk), value.masked_fill(hidden, junk), row), clean)


@given(attentions(torch.float64), st.randoms(use_true_random=False))
def test_keys_and_values_are_a_set(drawn: Drawn, random):
    query, key, value, mask = drawn
    order = list(range(key.shape[-2]))
    random.shuffle(order)
    reordered = mask if mask is None or mask.shape[-1] == 1 else mask[..., order]
    output, _ = dot_product_attention(query, key[..., order, :], value[..., order, :], reordered)
    torch.testing.assert_close(output, dot_product_attention(query, key, value, mask)[0])


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 5))
def test_causal_masks_of_the_steps_behind_a_cache_are_the_rows_of_the_whole(steps: list[int], past: int):
    total = past + sum(steps)
    rows, length = [], past
    for step in steps:
        length += step
        row = torch.zeros(step, total, dtype=torch.bool)
        row[:, :length] = causal_mask(step, length)
        rows.append(row)
    assert torch.equal(torch.cat(rows), causal_mask(total)[past:])


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5))
def test_block_causal_is_causal_over_blocks(sizes: list[int]):
    block = [i for i, size in enumerate(sizes) for _ in range(size)]
    assert block_causal_mask(sizes).tolist() == [[s <= t for s in block] for t in block]


@given(st.lists(st.integers(0, 6), max_size=5), st.integers(6, 9))
def test_padding_masks_count_tokens(lengths: list[int], size: int):
    mask = padding_mask(lengths, size)
    assert mask.shape == (len(lengths), 1, 1, size)
    assert mask.sum(-1).flatten().tolist() == lengths


@given(st.floats(-50, 50), st.sampled_from(TYPES[:2]))
def test_two_scores_give_a_sigmoid(gap: float, dtype: torch.dtype):
    scores = torch.tensor([gap, 0.0], dtype=dtype)
    torch.testing.assert_close(masked_softmax(scores), torch.stack([scores[0].sigmoid(), (-scores[0]).sigmoid()]))


@given(st.integers(1, 9), st.floats(0.1, 5.0))
def test_a_query_at_rest_averages_the_values(keys: int, size: float):
    value = size * torch.arange(keys, dtype=torch.float64)[:, None]
    zero = torch.zeros(keys, 3, dtype=torch.float64)
    for mask, expected in (
        (None, [size * (keys - 1) / 2] * keys),
        (causal_mask(keys), [size * t / 2 for t in range(keys)]),
    ):
        for output in (dot_product_attention(zero, zero, value, mask)[0], fused_attention(zero, zero, value, mask)):
            assert output.flatten().tolist() == pytest.approx(expected)


def double(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


torch.manual_seed(0)
Q, K, V = double(2, 3, 4), double(2, 5, 4), double(2, 5, 2)
GAPS = torch.tensor([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
SIGMA, BETA = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (0.7, 0.4))
INFINITE = torch.zeros(3, 5, dtype=torch.float64).index_fill(0, torch.tensor([2]), -math.inf)
ADDITIVE = AdditiveAttention(4, 4, 3).double()
DIFFERENTIABLE: dict[str, tuple[Callable[..., Tensor | tuple[Tensor, Tensor]], tuple[Tensor, ...]]] = {
    "masked_softmax": (masked_softmax, (double(3, 5),)),
    "masked_softmax, mask": (lambda scores: masked_softmax(scores, GAPS), (double(3, 5),)),
    "dot_product_attention": (dot_product_attention, (Q, K, V)),
    "dot_product_attention, mask": (lambda q, k, v: dot_product_attention(q, k, v, GAPS), (Q, K, V)),
    "dot_product_attention, bias": (
        lambda q, k, v, b: dot_product_attention(q, k, v, GAPS, bias=b),
        (Q, K, V, double(3, 5)),
    ),
    "dot_product_attention, −inf": (lambda q, k, v: dot_product_attention(q, k, v, bias=INFINITE), (Q, K, V)),
    "fused_attention": (fused_attention, (Q, K, V)),
    "fused_attention, mask": (lambda q, k, v: fused_attention(q, k, v, GAPS), (Q, K, V)),
    "fused_attention, bias": (lambda q, k, v, b: fused_attention(q, k, v, GAPS, bias=b), (Q, K, V, double(3, 5))),
    "fused_attention, −inf": (lambda q, k, v: fused_attention(q, k, v, bias=INFINITE), (Q, K, V)),
    "tiled_attention": (lambda q, k, v: tiled_attention(q, k, v, GAPS, block_size=2), (Q, K, V)),
    "additive": (ADDITIVE, (Q, K, V)),
    "additive, mask": (lambda q, k, v: ADDITIVE(q, k, v, GAPS), (Q, K, V)),
    "kernel_regression": (kernel_regression, (double(3), double(5), double(5), SIGMA)),
    "hopfield_update": (hopfield_update, (double(3, 4), double(5, 4), BETA)),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_equal_finite_differences(name: str):
    function, inputs = DIFFERENTIABLE[name]
    assert gradcheck(function, inputs)


@pytest.mark.parametrize("name", [name for name in DIFFERENTIABLE if "fused" not in name and "tiled" not in name])
def test_second_derivatives_equal_finite_differences(name: str):
    function, inputs = DIFFERENTIABLE[name]
    assert gradgradcheck(function, inputs)
