"""Where numbers, types and shapes end: halves, large numbers, −inf in a bias, autocast, empty and unfit input."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

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

HALVES = [torch.float16, torch.bfloat16]
Attend = Callable[..., Any]


def whole(*args: Any, **options: Any) -> Tensor:
    return dot_product_attention(*args, **options)[0]


def tiled(*args: Any, **options: Any) -> Tensor:
    return tiled_attention(*args, **options, block_size=2)


def hopfield(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return hopfield_update(query, key, query.shape[-1] ** -0.5)


every_path = pytest.mark.parametrize("attend", [whole, fused_attention, tiled])
with_bias = pytest.mark.parametrize("attend", [whole, fused_attention])


def tensors(dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = (2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)
    return [torch.randn(s, generator=generator).to(dtype).requires_grad_() for s in shapes]


def gradients(output: Tensor, of: list[Tensor]) -> list[Tensor]:
    return list(torch.autograd.grad(output, of, torch.linspace(-1, 1, output.numel()).to(output).view_as(output)))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("size", [40.0, 200.0, 3e4])
@pytest.mark.parametrize("attend", [whole, fused_attention, tiled, hopfield])
def test_no_half_overflows_on_the_way(attend: Attend, size: float, dtype: torch.dtype):
    x = torch.full((2, 64), size, dtype=dtype).requires_grad_()
    output = attend(x, x, x)
    assert torch.equal(output, x)
    assert gradients(output, [x])[0].isfinite().all()


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("far", [300.0, 6e4])
def test_no_distance_of_halves_overflows(far: float, dtype: torch.dtype):
    x, y = torch.tensor([far, far / 2, far / 3]).to(dtype), torch.tensor([3.0, 5.0, 7.0]).to(dtype)
    prediction, weights = kernel_regression(torch.zeros(1, dtype=dtype), x, y, 1.0)
    assert prediction.tolist() == [7.0]
    assert prediction.dtype == weights.dtype == dtype


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_distances_of_halves_are_rounded_once(dtype: torch.dtype):
    x, y = torch.linspace(-90, 90, 40).to(dtype), torch.linspace(1, 2, 40).to(dtype)
    found, exact = kernel_regression(x[:9] + 1, x, y, 7.0), kernel_regression(x[:9].double() + 1, x, y, 7.0)
    for own, other in zip(found, exact, strict=True):
        torch.testing.assert_close(own.double(), other.to(dtype).double(), rtol=torch.finfo(dtype).eps, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("sigma", [1e-30, 1.0, 1e30])
def test_distances_may_be_as_large_as_numbers_go(sigma: float, dtype: torch.dtype):
    x = torch.tensor([1e30, 3e30], dtype=dtype, requires_grad=True)
    prediction, _ = kernel_regression(torch.zeros(1, dtype=dtype), x, torch.tensor([2.0, 4.0], dtype=dtype), sigma)
    other = math.exp(-4) if sigma == 1e30 else 0.0  # (9 − 1) / 2
    torch.testing.assert_close(prediction.item(), (2 + 4 * other) / (1 + other))
    assert gradients(prediction, [x])[0].isfinite().all()


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_additive_attention_takes_halves(dtype: torch.dtype):
    torch.manual_seed(0)
    attend, (query, key, value) = AdditiveAttention(4, 4, 8), tensors(torch.float32)
    expected, _ = attend(query, key, value, causal_mask(5, 7))
    output, weights = attend.to(dtype)(query.to(dtype), key.to(dtype), value.to(dtype), causal_mask(5, 7))
    assert output.dtype == weights.dtype == dtype
    torch.testing.assert_close(output.float(), expected, rtol=3e-2, atol=3e-2)
    large, _ = attend((2e4 * query).to(dtype), key.to(dtype), value.to(dtype), causal_mask(5, 7))
    assert large.isfinite().all()


@every_path
@pytest.mark.parametrize("loud", [1e10, 1e25, 1e30, 3e37])
@pytest.mark.parametrize("quiet", [1.0, 1e10])
def test_an_overflow_under_the_mask_reaches_nobody(attend: Attend, quiet: float, loud: float):
    """The last token is visible to the last query alone. Its product with the others may overflow."""
    x = torch.full((1, 2, 4, 8), quiet)
    x[..., 3, :] = loud
    x.requires_grad_()
    alone = torch.full((1, 2, 3, 8), quiet, requires_grad=True)
    output, expected = attend(x, x, x, causal_mask(4))[..., :3, :], attend(alone, alone, alone, causal_mask(3))
    assert torch.equal(output, expected)
    if quiet == 1 and loud == 1e10:  # larger ones, squared, are out of range in their own row
        torch.testing.assert_close(gradients(output, [x])[0][..., :3, :], gradients(expected, [alone])[0])


@pytest.mark.parametrize("loud", [1e30, 1e36])
def test_an_overflow_under_the_mask_has_the_same_gradient_in_every_path(loud: float):
    query, key, value = tensors(torch.float32)
    late = torch.arange(7)[:, None] > 5  # visible to the last query alone
    found = []
    for attend in (whole, fused_attention, tiled):
        loud_key, loud_value = (x.detach().where(~late, loud).requires_grad_() for x in (key, value))
        output = attend(query * 100, loud_key, loud_value, causal_mask(5, 7))[..., :4, :]
        found.append([output, *gradients(output, [query, loud_key, loud_value])])
    assert all(x.isfinite().all() for x in found[0])
    for other in found[1:]:
        for ours, theirs in zip(found[0], other, strict=True):
            torch.testing.assert_close(theirs, ours, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("attend", [whole, tiled])
def test_a_blocked_value_takes_no_gradient_from_an_overflow(attend: Attend):
    query, key, value = tensors(torch.float32)
    late = torch.arange(7)[:, None] > 5  # visible to the last query alone
    loud = value.detach().where(~late, 3e38).requires_grad_()
    output = attend(query, key, loud, causal_mask(5, 7))[..., :4, :]
    expected = attend(query, key, value, causal_mask(5, 7))[..., :4, :]
    upstream = torch.full_like(output, 100.0)
    found, wanted = (torch.autograd.grad(x, [query, key], upstream) for x in (output, expected))
    for own, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(own, other)


BIASES = {
    "one row": torch.zeros(5, 7).index_fill(0, torch.tensor([2]), -math.inf),
    "a head": torch.zeros(3, 1, 1).index_fill(0, torch.tensor([1]), -math.inf),
    "a query axis": torch.zeros(5, 1).index_fill(0, torch.tensor([0, 4]), -math.inf),
    "keys": torch.zeros(7).index_fill(0, torch.tensor([0, 3]), -math.inf),
    "everything": torch.tensor(-math.inf),
}
MASKS = {"none": None, "causal": causal_mask(5, 7), "padding": padding_mask([0, 3], 7)}


@with_bias
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("bias", BIASES.values(), ids=BIASES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *HALVES], ids=str)
def test_a_bias_of_minus_infinity_blocks_as_a_mask_does(
    attend: Attend, bias: Tensor, mask: Tensor | None, dtype: torch.dtype
):
    inputs, allowed = tensors(dtype), (bias == 0).expand(2, 3, 5, 7)
    allowed = allowed if mask is None else allowed & mask
    learned = bias.clone().to(dtype).requires_grad_()
    output, expected = attend(*inputs, mask, bias=learned), whole(*inputs, allowed)
    tolerance = 2 * torch.finfo(dtype).eps
    torch.testing.assert_close(output, expected, rtol=tolerance, atol=8 * tolerance)
    assert (output.masked_select(~allowed.any(-1, keepdim=True)) == 0).all()
    pairs = zip(gradients(output, [*inputs, learned]), gradients(expected, inputs), strict=False)
    for own, other in pairs:
        torch.testing.assert_close(own, other, rtol=8 * tolerance, atol=8 * tolerance)
    assert gradients(attend(*inputs, mask, bias=learned), [learned])[0].isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *HALVES], ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_rows_of_minus_infinity_get_zero_weights(masked: bool, dtype: torch.dtype):
    scores = torch.zeros(3, 4, dtype=dtype)
    scores[1], scores[2, 1:] = -math.inf, -math.inf
    scores.requires_grad_()
    with torch.autograd.set_detect_anomaly(True):
        weights = masked_softmax(scores, torch.tensor([True, True, True, False]) if masked else None)
        (gradient,) = gradients(weights, [scores])
    first = [1 / 3] * 3 + [0.0] if masked else [0.25] * 4
    torch.testing.assert_close(weights, torch.tensor([first, [0.0] * 4, [1.0, 0.0, 0.0, 0.0]], dtype=dtype))
    assert gradient.isfinite().all()
    assert (gradient[1:] == 0).all()


def test_a_blocked_weight_takes_no_gradient_however_large():
    scores = torch.zeros(2, 3, requires_grad=True)
    upstream = torch.tensor([[1.0, 2.0, math.inf], [1.0, 2.0, 3.0]])
    mask = torch.tensor([[True, True, False], [True, True, True]])
    (gradient,) = torch.autograd.grad(masked_softmax(scores, mask), scores, upstream)
    torch.testing.assert_close(gradient[0], torch.tensor([-0.25, 0.25, 0.0]))


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.int64, torch.uint8], ids=str)
@pytest.mark.parametrize("attend", [whole, fused_attention, tiled, AdditiveAttention(4, 4, 5), None])
def test_a_mask_of_numbers_is_refused(attend: Attend | None, kind: torch.dtype):
    mask = causal_mask(5).to(kind)
    with pytest.raises(ValueError, match=f"mask must be boolean .* got {kind}"):
        masked_softmax(torch.zeros(5, 5), mask) if attend is None else attend(*[torch.zeros(5, 4)] * 3, mask)


@pytest.mark.parametrize("attend", [whole, fused_attention, tiled, AdditiveAttention(4, 4, 5), None])
@pytest.mark.parametrize("shape", [(2, 5, 5), (3, 5, 5), (1, 5, 5), (1, 1, 5)])
def test_a_mask_with_some_of_the_leading_axes_is_refused(attend: Attend | None, shape: tuple[int, ...]):
    mask, x = torch.ones(shape, dtype=torch.bool), torch.zeros(2, 3, 5, 4)
    with pytest.raises(ValueError, match=r"ambiguous.*mask\[:, None\] for one a sequence, mask\[None\] for one a head"):
        masked_softmax(torch.zeros(2, 3, 5, 5), mask) if attend is None else attend(x, x, x, mask)


MIXED = [(torch.float16, torch.float32), (torch.bfloat16, torch.float16), (torch.float32, torch.float64)]


@pytest.mark.parametrize("attend", [whole, fused_attention, tiled, AdditiveAttention(4, 4, 5)])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("types", [*MIXED, (torch.int64, torch.float32), (torch.complex64, torch.float32)], ids=str)
def test_mixed_and_integer_types_are_named(attend: Attend, place: int, types: tuple[torch.dtype, torch.dtype]):
    odd, others = types
    inputs = [torch.ones(5, 4, dtype=odd if i == place else others) for i in range(3)]
    with pytest.raises(ValueError, match=f"query, key and value must be of .* type.*{odd}"):
        attend(*inputs)
    with pytest.raises(ValueError, match=r"query, key and value must be of .* type"):
        attend(*[torch.ones(5, 4, dtype=torch.int64)] * 3)


@pytest.mark.parametrize("attend", [whole, fused_attention, tiled, AdditiveAttention(4, 4, 5)])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("mask", [None, padding_mask([0, 7], 7) & causal_mask(5, 7)], ids=["no mask", "mask"])
def test_autocast_changes_no_more_than_the_last_digits(attend: Attend, mixed: bool, mask: Tensor | None):
    inputs = tensors(torch.float32)
    expected = attend(*inputs, mask)
    with torch.autocast("cpu", torch.bfloat16):
        query, key, value = inputs
        output = attend(query.bfloat16() if mixed else query, key, value, mask)
    expected, output = (x[0] if isinstance(x, tuple) else x for x in (expected, output))
    torch.testing.assert_close(output.float(), expected, rtol=3e-2, atol=3e-2)
    got = gradients(output, inputs)
    for own, other in zip(got, gradients(expected, inputs), strict=True):
        torch.testing.assert_close(own, other, rtol=5e-2, atol=5e-2)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_autocast_of_what_takes_no_mask(dtype: torch.dtype):
    query, key, _ = (x.detach() for x in tensors(torch.float32))
    x, y = torch.linspace(0, 1, 7), torch.linspace(1, 2, 7)
    expected = hopfield_update(query, key, 0.5), kernel_regression(x, x, y, 0.3)[0]
    with torch.autocast("cpu", dtype):
        found = hopfield_update(query, key, 0.5), kernel_regression(x, x, y, 0.3)[0]
    for own, other in zip(found, expected, strict=True):
        torch.testing.assert_close(own, other, rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("attend", [whole, fused_attention, tiled, AdditiveAttention(4, 4, 5)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("batch", "queries", "keys"), [(0, 5, 7), (2, 0, 7), (2, 5, 0), (2, 0, 0), (0, 0, 0)])
def test_empty_input_gives_zeros_of_the_right_shape(attend: Attend, masked: bool, batch: int, queries: int, keys: int):
    query, key, value = torch.ones(batch, queries, 4), torch.ones(batch, keys, 4), torch.ones(batch, keys, 6)
    output = attend(query, key, value, torch.ones(queries, keys, dtype=torch.bool) if masked else None)
    output = output[0] if isinstance(output, tuple) else output
    assert output.shape == (batch, queries, 6)
    assert keys or (output == 0).all()


def test_empty_and_integer_input_of_the_others():
    assert padding_mask([], 5).shape == (0, 1, 1, 5)
    assert hopfield_update(torch.zeros(0, 4), torch.ones(3, 4), 1.0).shape == (0, 4)
    assert kernel_regression(torch.zeros(0), torch.ones(3), torch.ones(3), 1.0)[1].shape == (0, 3)
    whole_numbers = torch.tensor([0, 1, 4])
    real = whole_numbers.float()
    for ours, theirs in zip(
        kernel_regression(whole_numbers, whole_numbers, whole_numbers, 1),
        kernel_regression(real, real, real, 1.0),
        strict=True,
    ):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: whole(*[torch.zeros(5, 0)] * 3), r"1 or more, got query \(5, 0\)"),
        (lambda: whole(*[torch.zeros(5, 4)] * 3, scale=math.nan), "scale must be a finite number, got nan"),
        (lambda: fused_attention(*[torch.zeros(5, 4)] * 3, scale=math.inf), "scale must be a finite number, got inf"),
        (lambda: tiled(*[torch.zeros(5, 4)] * 3, scale=math.nan), "scale must be a finite number, got nan"),
        (lambda: hopfield_update(torch.zeros(4).long(), torch.zeros(3, 4), 1.0), "state and patterns .* torch.int64"),
        (lambda: hopfield_update(torch.zeros(4), torch.zeros(4), 1.0), "state and patterns must be rows"),
        (lambda: hopfield_update(torch.zeros(4), torch.zeros(3, 4), torch.ones(2)), r"beta must be .* got \(2,\)"),
        (lambda: hopfield_update(torch.zeros(4), torch.zeros(3, 4), math.nan), "beta must be above 0, got nan"),
        (
            lambda: kernel_regression(torch.zeros(3), torch.zeros(3), torch.zeros(3), torch.ones(2)),
            r"sigma must be .* got \(2,\)",
        ),
        (
            lambda: kernel_regression(torch.zeros(2, 3), torch.zeros(4, 3), torch.zeros(4, 3), 1.0),
            "leading shapes of x_query, x_train, y_train must broadcast",
        ),
    ],
)
def test_unfit_input_is_named(call: Callable[[], object], message: str):
    with pytest.raises(ValueError, match=message):
        call()
