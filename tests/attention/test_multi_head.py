"""Kernel regression, additive and multi-head attention, Hopfield: closed forms and agreement with PyTorch."""

import math

import pytest
import torch
from torch import Tensor, nn

from lib.attention import (
    AdditiveAttention,
    MultiHeadAttention,
    block_causal_mask,
    causal_mask,
    dot_product_attention,
    hopfield_update,
    kernel_regression,
    padding_mask,
)

MASKS = {
    "none": None,
    "causal": causal_mask(5, 7),
    "padding": padding_mask([7, 4], 7),
    "nothing to attend to": padding_mask([0, 5], 7),
    "block-causal": block_causal_mask([3, 2, 2])[:5],
    "per head": torch.rand(2, 3, 5, 7, generator=torch.Generator().manual_seed(1)) > 0.5,
    "keys only": torch.tensor([True, False, True, True, False, True, True]),
}
any_mask = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def gradients(output: Tensor, module: nn.Module) -> tuple[Tensor, ...]:
    return torch.autograd.grad(output.square().sum(), list(module.parameters()))


class TestKernelRegression:
    def test_weights_are_the_softmax_of_the_negative_squared_distance(self):
        x, xs, ys = torch.tensor([0.3, 1.7]), torch.tensor([0.0, 1.0, 2.0]), torch.tensor([1.0, -2.0, 4.0])
        prediction, weights = kernel_regression(x, xs, ys, sigma=0.5)
        expected = torch.softmax(-((x[:, None] - xs) ** 2) / (2 * 0.5**2), -1)
        torch.testing.assert_close(weights, expected)
        torch.testing.assert_close(prediction, expected @ ys)

    @pytest.mark.parametrize("sigma", [1e-300, 1e-45, 1e-20, 1e-3])
    def test_a_small_sigma_gives_the_nearest_neighbour(self, sigma: float):
        prediction, _ = kernel_regression(
            torch.tensor([1.2, 9e3]), torch.tensor([0.0, 1.0, 3.0]), torch.arange(3.0), sigma
        )
        assert prediction.tolist() == [1.0, 2.0]

    @pytest.mark.parametrize("sigma", [1e6, 1e20, math.inf])
    def test_a_large_sigma_gives_the_mean(self, sigma: float):
        prediction, _ = kernel_regression(torch.tensor([0.0]), torch.tensor([0.0, 1.0, 3.0]), torch.arange(3.0), sigma)
        assert prediction.item() == pytest.approx(1.0)

    def test_equally_near_points_share_the_weight(self):
        _, weights = kernel_regression(torch.tensor([1.0]), torch.tensor([0.0, 2.0, 5.0]), torch.zeros(3), 1e-6)
        assert weights.tolist() == [[0.5, 0.5, 0.0]]

    def test_sigma_may_be_a_tensor_and_learned(self):
        x, sigma = (
            torch.linspace(0, 1, 4, dtype=torch.float64),
            torch.tensor(0.4, dtype=torch.float64, requires_grad=True),
        )
        assert torch.autograd.gradcheck(lambda s: kernel_regression(x + 0.1, x, x.sin(), s)[0], sigma)

    def test_leading_axes_are_regressions_of_their_own(self):
        x, xs, ys = torch.rand(3, 4), torch.rand(3, 6), torch.rand(3, 6)
        together, _ = kernel_regression(x, xs, ys, 0.2)
        apart = [kernel_regression(x[i], xs[i], ys[i], 0.2)[0] for i in range(3)]
        torch.testing.assert_close(together, torch.stack(apart))

    @pytest.mark.parametrize("sigma", [0, -1.0, math.nan, torch.tensor(0.0)])
    def test_sigma_must_be_positive(self, sigma):
        with pytest.raises(ValueError, match="sigma must be above 0"):
            kernel_regression(torch.zeros(1), torch.zeros(2), torch.zeros(2), sigma)

    @pytest.mark.parametrize(("keys", "values"), [(2, 3), (0, 0)])
    def test_keys_and_values_must_match(self, keys: int, values: int):
        with pytest.raises(ValueError, match=rf"same points, at least one, got \({keys},\) and \({values},\)"):
            kernel_regression(torch.zeros(1), torch.zeros(keys), torch.zeros(values), 1.0)

    def test_a_query_needs_an_axis(self):
        with pytest.raises(ValueError, match="x_query must be"):
            kernel_regression(torch.tensor(1.0), torch.zeros(2), torch.zeros(2), 1.0)


class TestAdditive:
    def test_scores_are_v_tanh_of_the_sum_of_projections(self):
        attend = AdditiveAttention(query_dim=3, key_dim=4, hidden_dim=5)
        query, key, value = torch.randn(3), torch.randn(2, 4), torch.randn(2, 6)
        v, w_q, w_k = attend.score.weight[0], attend.q_proj.weight, attend.k_proj.weight
        scores = torch.stack([v @ torch.tanh(w_q @ query + w_k @ k) for k in key])
        output, weights = attend(query[None], key, value)
        torch.testing.assert_close(weights[0], scores.softmax(0))
        torch.testing.assert_close(output[0], scores.softmax(0) @ value)

    def test_hidden_keys_get_nothing_whatever_they_hold(self):
        attend = AdditiveAttention(3, 4, 5)
        query, key, value = torch.randn(2, 5, 3), torch.randn(2, 7, 4), torch.randn(2, 7, 6)
        mask = padding_mask([4, 0], 7)[:, 0]
        output, weights = attend(query, key, value, mask)
        assert (weights.masked_select(~mask) == 0).all()
        assert (output[1] == 0).all()
        dirty, _ = attend(query, key.masked_fill(~mask.mT, math.nan), value.masked_fill(~mask.mT, math.inf), mask)
        assert torch.equal(dirty, output)
        assert all(g.isfinite().all() for g in gradients(dirty, attend))

    def test_has_no_bias(self):
        assert sum(p.numel() for p in AdditiveAttention(3, 4, 5).parameters()) == 3 * 5 + 4 * 5 + 5

    def test_wrong_widths_are_named(self):
        attend = AdditiveAttention(3, 4, 5)
        with pytest.raises(ValueError, match=r"query must be \(..., time, 3\), got \(5, 4\)"):
            attend(torch.zeros(5, 4), torch.zeros(7, 4), torch.zeros(7, 4))
        with pytest.raises(ValueError, match=r"key must be \(..., time, 4\), got \(7, 3\)"):
            attend(torch.zeros(5, 3), torch.zeros(7, 3), torch.zeros(7, 3))


class TestMultiHead:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
    @pytest.mark.parametrize("bias", [True, False])
    @any_mask
    def test_equals_pytorch_with_the_same_weights(self, mask: Tensor | None, bias: bool, dtype: torch.dtype):
        theirs = nn.MultiheadAttention(12, 3, bias=bias, batch_first=True, dtype=dtype)
        for parameter in theirs.parameters():
            nn.init.normal_(parameter, std=0.3)
        ours = MultiHeadAttention.from_torch(theirs)
        query, context = torch.randn(2, 5, 12, dtype=dtype), torch.randn(2, 7, 12, dtype=dtype)
        full = torch.ones(2, 3, 5, 7, dtype=torch.bool) if mask is None else mask.expand(2, 3, 5, 7)
        seen = full.any(-1).all(1)  # PyTorch gives NaN where a head has nothing to attend to
        output, weights = ours(query, context, mask, need_weights=True)
        reference = theirs(query, context, context, attn_mask=~full.flatten(0, 1), average_attn_weights=False)
        torch.testing.assert_close(output[seen], reference[0][seen])
        torch.testing.assert_close(weights.transpose(1, 2)[seen], reference[1].transpose(1, 2)[seen])

    @any_mask
    def test_the_output_is_the_same_with_and_without_weights(self, mask: Tensor | None):
        attend = MultiHeadAttention(12, 3).double()
        query, context = torch.randn(2, 5, 12).double(), torch.randn(2, 7, 12).double()
        with_weights, weights = attend(query, context, mask, need_weights=True)
        without, none = attend(query, context, mask)
        assert weights.shape == (2, 3, 5, 7)
        assert none is None
        torch.testing.assert_close(without, with_weights)

    def test_each_head_attends_in_its_own_projection(self):
        attend = MultiHeadAttention(12, 3)
        x = torch.randn(2, 5, 12)
        heads = [
            dot_product_attention(
                *(x @ proj.weight[4 * h : 4 * h + 4].T for proj in (attend.q_proj, attend.k_proj, attend.v_proj))
            )[0]
            for h in range(3)
        ]
        torch.testing.assert_close(attend(x)[0], torch.cat(heads, -1) @ attend.out_proj.weight.T)

    @any_mask
    def test_a_bias_is_added_to_the_scores_of_each_head(self, mask: Tensor | None):
        attend, bias = MultiHeadAttention(12, 3).double(), torch.randn(3, 5, 7).double()
        query, context = torch.randn(2, 5, 12).double(), torch.randn(2, 7, 12).double()
        expected, expected_weights = dot_product_attention(*attend.project(query, context), mask, bias=bias)
        output, weights = attend(query, context, mask, need_weights=True, bias=bias)
        torch.testing.assert_close(weights, expected_weights)
        torch.testing.assert_close(output, attend.out_proj(expected.transpose(1, 2).flatten(2)))
        torch.testing.assert_close(attend(query, context, mask, bias=bias)[0], output)

    def test_context_is_the_query_by_default(self):
        attend, x = MultiHeadAttention(12, 3), torch.randn(2, 5, 12)
        assert torch.equal(attend(x)[0], attend(x, x)[0])

    def test_one_sequence_needs_no_batch_axis(self):
        attend, x = MultiHeadAttention(12, 3), torch.randn(2, 5, 12)
        torch.testing.assert_close(attend(x[0], mask=causal_mask(5))[0], attend(x, mask=causal_mask(5))[0][0])

    @pytest.mark.parametrize(("bias", "count"), [(False, 4 * 12**2), (True, 4 * 12**2 + 4 * 12)])
    def test_four_d_squared_weights(self, bias: bool, count: int):
        assert sum(p.numel() for p in MultiHeadAttention(12, 3, bias=bias).parameters()) == count

    def test_does_not_depend_on_the_mode(self):
        attend, x = MultiHeadAttention(12, 3), torch.randn(2, 5, 12)
        assert torch.equal(attend.train()(x, mask=causal_mask(5))[0], attend.eval()(x, mask=causal_mask(5))[0])

    @pytest.mark.parametrize(("dim", "heads"), [(12, 5), (12, 0), (0, 1), (12, -3)])
    def test_heads_must_divide_dim(self, dim: int, heads: int):
        with pytest.raises(ValueError, match=f"heads must divide dim, got dim = {dim} and heads = {heads}"):
            MultiHeadAttention(dim, heads)

    @any_mask
    def test_hidden_context_may_hold_anything(self, mask: Tensor | None):
        attend = MultiHeadAttention(12, 3)
        query, context = torch.randn(2, 5, 12), torch.randn(2, 7, 12)
        full = torch.ones(2, 3, 5, 7, dtype=torch.bool) if mask is None else mask.expand(2, 3, 5, 7)
        dirty = context.masked_fill(~full.any(1).any(1)[..., None], math.nan)
        output, _ = attend(query, dirty, mask)
        assert torch.equal(output, attend(query, context, mask)[0])
        assert all(g.isfinite().all() for g in gradients(output, attend))

    def test_a_mask_that_does_not_fit_is_named(self):
        with pytest.raises(ValueError, match=r"mask of shape \(2, 7\) .* scores of shape \(2, 3, 5, 7\)"):
            MultiHeadAttention(12, 3)(torch.zeros(2, 5, 12), torch.zeros(2, 7, 12), torch.ones(2, 7).bool())

    def test_wrong_widths_are_named(self):
        attend = MultiHeadAttention(12, 3)
        with pytest.raises(ValueError, match=r"query must be \(..., time, 12\), got \(2, 5, 11\)"):
            attend(torch.zeros(2, 5, 11))
        with pytest.raises(ValueError, match=r"context must be \(..., time, 12\), got \(2, 7, 11\)"):
            attend(torch.zeros(2, 5, 12), torch.zeros(2, 7, 11))

    @pytest.mark.parametrize("option", [{"kdim": 8}, {"add_bias_kv": True}, {"add_zero_attn": True}])
    def test_weights_of_another_shape_are_refused(self, option):
        with pytest.raises(ValueError, match="other must have one embed_dim"):
            MultiHeadAttention.from_torch(nn.MultiheadAttention(12, 3, **option))


class TestHopfield:
    def test_is_attention_with_the_patterns_as_keys_and_values(self):
        state, patterns = torch.randn(5, 6), torch.randn(7, 6)
        expected, _ = dot_product_attention(state, patterns, patterns, scale=0.8)
        torch.testing.assert_close(hopfield_update(state, patterns, 0.8), expected)
        torch.testing.assert_close(hopfield_update(state[0], patterns, torch.tensor(0.8)), expected[0])

    def test_one_step_restores_a_corrupted_pattern(self):
        patterns = torch.randn(10, 64, generator=torch.Generator().manual_seed(0)).sign()
        corrupted = patterns[3].clone()
        corrupted[:16] *= -1
        torch.testing.assert_close(hopfield_update(corrupted, patterns, 4.0), patterns[3])

    def test_bad_input_is_named(self):
        with pytest.raises(ValueError, match="beta must be above 0, got -1"):
            hopfield_update(torch.zeros(6), torch.zeros(7, 6), -1)
        with pytest.raises(ValueError, match=r"same width, got \(5,\) and \(7, 6\)"):
            hopfield_update(torch.zeros(5), torch.zeros(7, 6), 1.0)
