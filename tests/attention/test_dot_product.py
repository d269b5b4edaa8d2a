"""The dot-product kernels: agreement with PyTorch, and what masks promise. 5 queries, 7 keys, 2 × 3 heads."""

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from lib.attention import (
    block_causal_mask,
    causal_mask,
    dot_product_attention,
    fused_attention,
    masked_softmax,
    padding_mask,
    tiled_attention,
)

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 5e-2, torch.float16: 5e-3}
MASKS = {
    "none": None,
    "causal": causal_mask(5, 7),
    "padding": padding_mask([7, 4], 7),
    "nothing to attend to": padding_mask([0, 5], 7),
    "rows without keys": causal_mask(5, 3).repeat(1, 3)[:, :7],
    "block-causal": block_causal_mask([3, 2, 2])[:5],
    "per head": torch.rand(2, 3, 5, 7, generator=torch.Generator().manual_seed(1)) > 0.5,
    "keys only": torch.tensor([True, False, True, True, False, True, True]),
    "one key axis": torch.tensor([True, False, True, True, False])[:, None],
}
any_mask = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
any_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


def whole(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    return dot_product_attention(query, key, value, mask)[0]


def tiled(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    return tiled_attention(query, key, value, mask, block_size=3)


any_kernel = pytest.mark.parametrize("attend", [whole, fused_attention, tiled])


def inputs(dtype: torch.dtype = torch.float64, value_dim: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype).requires_grad_()

    return draw(2, 3, 5, 4), draw(2, 3, 7, 4), draw(2, 3, 7, value_dim)


def gradients(output: Tensor, of: Sequence[Tensor]) -> list[Tensor]:
    upstream = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    return list(torch.autograd.grad(output, of, upstream))


class TestMaskedSoftmax:
    @any_dtype
    def test_rows_sum_to_one_and_blocked_weights_are_exactly_zero(self, dtype: torch.dtype):
        scores, mask = torch.linspace(-3, 3, 35, dtype=dtype).view(5, 7), causal_mask(5, 7)
        weights = masked_softmax(scores, mask)
        assert weights.dtype == dtype
        assert (weights[~mask] == 0).all()
        assert weights.float().sum(-1).tolist() == pytest.approx([1.0] * 5, abs=TOLERANCE[dtype])

    @any_dtype
    def test_an_empty_row_is_zero_forward_and_backward(self, dtype: torch.dtype):
        scores = torch.ones(3, 4, dtype=dtype, requires_grad=True)
        mask = torch.tensor([[True, False, True, False], [False] * 4, [True] * 4])
        with torch.autograd.set_detect_anomaly(True):
            weights = masked_softmax(scores, mask)
            (weights * torch.arange(4)).sum().backward()
        assert scores.grad is not None
        assert (weights[1] == 0).all()
        assert (scores.grad[1] == 0).all()
        assert scores.grad.isfinite().all()
        assert (scores.grad[0, ::2] != 0).all()

    @any_dtype
    @pytest.mark.parametrize("blocked", [-math.inf, math.inf, math.nan, 6e4, -6e4])
    def test_what_stands_in_a_blocked_place_does_not_matter(self, dtype: torch.dtype, blocked: float):
        scores, mask = torch.linspace(-3, 3, 35, dtype=dtype).view(5, 7), causal_mask(5, 7)
        dirty = scores.masked_fill(~mask, blocked).requires_grad_()
        weights = masked_softmax(dirty, mask)
        assert torch.equal(weights, masked_softmax(scores, mask))
        assert gradients(weights, [dirty])[0].isfinite().all()

    @any_dtype
    def test_no_allowed_score_is_low_enough_to_lose_to_a_blocked_one(self, dtype: torch.dtype):
        lowest = torch.finfo(dtype).min
        weights = masked_softmax(torch.tensor([[lowest, 0.0]], dtype=dtype), torch.tensor([[True, False]]))
        assert weights.tolist() == [[1.0, 0.0]]

    def test_scores_and_mask_are_left_as_they_were(self):
        scores, mask = torch.rand(5, 7), causal_mask(5, 7)
        before = scores.clone(), mask.clone()
        masked_softmax(scores, mask)
        assert torch.equal(scores, before[0])
        assert torch.equal(mask, before[1])

    def test_no_keys_give_no_weights(self):
        assert masked_softmax(torch.zeros(5, 0), torch.zeros(5, 0, dtype=torch.bool)).shape == (5, 0)


class TestDotProduct:
    @any_dtype
    @any_mask
    @any_kernel
    def test_output_and_gradients_equal_pytorch(self, attend, mask: Tensor | None, dtype: torch.dtype):
        ours, theirs = inputs(dtype), inputs(dtype)
        there = None if mask is None else torch.atleast_2d(mask)
        output = attend(*ours, mask)
        reference = scaled_dot_product_attention(*theirs, attn_mask=there)
        torch.testing.assert_close(output, reference, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
        for own, other in zip(gradients(output, ours), gradients(reference, theirs), strict=True):
            torch.testing.assert_close(own, other, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])

    def test_weights_average_the_values_to_the_output(self):
        query, key, value = inputs()
        output, weights = dot_product_attention(query, key, value, MASKS["per head"])
        assert weights.shape == (2, 3, 5, 7)
        torch.testing.assert_close(output, weights @ value)

    def test_scale_replaces_one_over_root_d(self):
        query, key, value = inputs()
        scaled, _ = dot_product_attention(query, key, value, scale=0.25)
        torch.testing.assert_close(scaled, whole(query / 2, key, value))
        torch.testing.assert_close(fused_attention(query, key, value, scale=0.25), scaled)
        torch.testing.assert_close(tiled_attention(query, key, value, block_size=2, scale=0.25), scaled)

    @any_kernel
    def test_leading_axes_broadcast(self, attend):
        query, key, value = inputs()
        torch.testing.assert_close(attend(query[0, 0], key[0, 0], value[0, 0]), whole(query, key, value)[0, 0])
        shared = attend(query, key[:1, :1], value[:1, :1])
        torch.testing.assert_close(shared, whole(query, key[:1, :1].expand_as(key), value[:1, :1].expand_as(value)))

    @any_kernel
    def test_bad_shapes_are_named(self, attend):
        with pytest.raises(ValueError, match=r"same width, 1 or more, got query \(5, 4\) and key \(7, 3\)"):
            attend(torch.zeros(5, 4), torch.zeros(7, 3), torch.zeros(7, 3))
        with pytest.raises(ValueError, match=r"each key needs one value, got key \(7, 4\) and value \(6, 4\)"):
            attend(torch.zeros(5, 4), torch.zeros(7, 4), torch.zeros(6, 4))
        with pytest.raises(ValueError, match=r"must broadcast, got \(2, 5, 4\)"):
            attend(torch.zeros(2, 5, 4), torch.zeros(3, 7, 4), torch.zeros(3, 7, 4))
        with pytest.raises(ValueError, match=r"\(..., time, dim\), got \(4,\)"):
            attend(torch.zeros(4), torch.zeros(7, 4), torch.zeros(7, 4))
        with pytest.raises(ValueError, match=r"mask of shape \(7, 5\).*\(5, 7\)"):
            attend(torch.zeros(5, 4), torch.zeros(7, 4), torch.zeros(7, 4), causal_mask(7, 5))


@any_kernel
class TestPromisesOfTheMask:
    def test_an_empty_row_is_zero_forward_and_backward(self, attend):
        tensors = inputs()
        mask = padding_mask([0, 7], 7) & torch.tensor([True, True, False, True, True])[:, None]
        output = attend(*tensors, mask)
        assert (output[0] == 0).all()
        assert (output[:, :, 2] == 0).all()
        query, key, value = gradients(output, tensors)
        assert query.isfinite().all()
        assert (query[0] == 0).all()
        assert (query[:, :, 2] == 0).all()
        assert (key[0] == 0).all()
        assert (value[0] == 0).all()

    @pytest.mark.parametrize("size", [1e4, 1e30])
    def test_blocked_keys_and_values_change_nothing(self, attend, size: float):
        query, key, value = inputs(torch.float32)
        mask = causal_mask(5, 7)
        clean = attend(query, key, value, mask)[:, :, :2]
        late = torch.arange(7) > 3  # hidden from queries 0 and 1
        loud = attend(query, key.where(~late[:, None], size), value.where(~late[:, None], -size), mask)[:, :, :2]
        assert torch.equal(clean, loud)

    @pytest.mark.parametrize("junk", [math.inf, -math.inf, math.nan])
    def test_padding_may_hold_anything(self, attend, junk: float):
        query, key, value = inputs()
        mask = padding_mask([4, 6], 7)
        padding = ~mask.transpose(-1, -2)
        clean = attend(query, key, value, mask)
        dirty = [query, key.masked_fill(padding, junk), value.masked_fill(padding, junk)]
        output = attend(*dirty, mask)
        assert torch.equal(output, clean)
        for dirt, fine in zip(gradients(output, dirty), gradients(clean, [query, key, value]), strict=True):
            torch.testing.assert_close(dirt, fine)

    def test_inputs_are_left_as_they_were(self, attend):
        tensors = [*(x.detach() for x in inputs()), MASKS["per head"]]
        before = [x.clone() for x in tensors if x is not None]
        attend(*tensors)
        assert all(torch.equal(x, y) for x, y in zip(tensors, before, strict=True) if x is not None)

    def test_no_keys_give_zeros(self, attend):
        output = attend(torch.ones(5, 4), torch.ones(0, 4), torch.ones(0, 6), torch.ones(5, 0, dtype=torch.bool))
        assert output.tolist() == [[0.0] * 6] * 5


class TestBias:
    @pytest.mark.parametrize("attend", [lambda *args, **kw: dot_product_attention(*args, **kw)[0], fused_attention])
    @pytest.mark.parametrize("shape", [(3, 5, 7), (5, 1), (7,), ()])
    @any_mask
    def test_is_added_to_the_scaled_scores(self, mask: Tensor | None, shape: tuple[int, ...], attend):
        query, key, value = inputs()
        bias = torch.randn(shape, generator=torch.Generator().manual_seed(2)).double().requires_grad_()
        expected = masked_softmax(query @ key.mT / 2 + bias, mask) @ value
        output, tensors = attend(query, key, value, mask, bias=bias), (query, key, value, bias)
        torch.testing.assert_close(output, expected)
        for own, other in zip(gradients(output, tensors), gradients(expected, tensors), strict=True):
            torch.testing.assert_close(own, other)

    def test_is_taken_in_the_type_of_the_query(self):
        query, key, value = inputs(torch.bfloat16)
        bias = torch.randn(3, 5, 7)
        assert dot_product_attention(query, key, value, bias=bias)[0].dtype == torch.bfloat16
        assert fused_attention(query, key, value, bias=bias).dtype == torch.bfloat16

    @pytest.mark.parametrize("attend", [dot_product_attention, fused_attention])
    def test_one_that_does_not_fit_is_named(self, attend):
        query, key, value = inputs()
        with pytest.raises(ValueError, match=r"bias of shape \(7, 5\) .* scores of shape \(2, 3, 5, 7\)"):
            attend(query, key, value, bias=torch.zeros(7, 5))
        with pytest.raises(ValueError, match=r"bias must hold floating-point numbers, got torch.bool"):
            attend(query, key, value, bias=torch.zeros(5, 7, dtype=torch.bool))
