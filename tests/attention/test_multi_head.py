"""Multi-head attention: closed forms, agreement with PyTorch, groups of heads and a cache."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lib.attention import (
    MultiHeadAttention,
    block_causal_mask,
    causal_mask,
    dot_product_attention,
    padding_mask,
)
from tests.onnx_run import export

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

    @pytest.mark.parametrize(("dim", "heads", "kv_heads"), [(12, 5, None), (12, 6, 4), (12, 3, 6)])
    def test_heads_must_divide(self, dim: int, heads: int, kv_heads: int | None):
        got = f"got dim = {dim}, heads = {heads} and kv_heads = {kv_heads or heads}"
        with pytest.raises(ValueError, match=f"heads must divide dim, and kv_heads must divide heads, {got}"):
            MultiHeadAttention(dim, heads, kv_heads=kv_heads)

    @pytest.mark.parametrize(("name", "sizes"), [("heads", (12, 0)), ("dim", (0, 1)), ("heads", (12, -3))])
    def test_sizes_below_one_are_named(self, name: str, sizes: tuple[int, int]):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got"):
            MultiHeadAttention(*sizes)

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
        with pytest.raises(ValueError, match=r"query must be \(..., time, 12\), real numbers, got \(2, 5, 11\)"):
            attend(torch.zeros(2, 5, 11))
        with pytest.raises(ValueError, match=r"context must be \(..., time, 12\), real numbers, got \(2, 7, 11\)"):
            attend(torch.zeros(2, 5, 12), torch.zeros(2, 7, 11))

    @pytest.mark.parametrize(
        ("name", "option"),
        [
            ("kdim or vdim", {"kdim": 8}),
            ("kdim or vdim", {"vdim": 8}),
            ("add_bias_kv", {"add_bias_kv": True}),
            ("add_zero_attn", {"add_zero_attn": True}),
            ("dropout", {"dropout": 0.1}),
        ],
    )
    def test_an_option_without_counterpart_is_named(self, name: str, option: dict[str, Any]):
        with pytest.raises(ValueError, match=f"other must be without {name}, got MultiheadAttention"):
            MultiHeadAttention.from_torch(nn.MultiheadAttention(12, 3, **option))

    def test_dropout_is_not_at_work_in_evaluation(self):
        theirs, x = nn.MultiheadAttention(12, 3, dropout=0.5, batch_first=True).eval(), torch.randn(2, 5, 12)
        ours = MultiHeadAttention.from_torch(theirs)
        assert not ours.training
        torch.testing.assert_close(ours(x)[0], theirs(x, x, x)[0])

    @pytest.mark.parametrize("need_weights", [False, True])
    def test_a_mask_of_numbers_and_an_ambiguous_one_are_refused(self, need_weights: bool):
        for kv_heads in (4, 2, 1):
            attend, x = MultiHeadAttention(12, 4, kv_heads=kv_heads), torch.randn(4, 5, 12)
            with pytest.raises(ValueError, match=r"mask must be boolean \(True = may attend\), got torch.float32"):
                attend(x, mask=causal_mask(5).float(), need_weights=need_weights)
            with pytest.raises(ValueError, match=r"mask"):  # one a sequence, or one a head?
                attend(x, mask=causal_mask(5).expand(4, 5, 5), need_weights=need_weights)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
    def test_a_blocked_token_has_no_effect_however_large(self, dtype: torch.dtype):
        attend, x = MultiHeadAttention(8, 2).to(dtype), torch.full((1, 4, 8), 1e10, dtype=dtype)
        for projection in (attend.q_proj, attend.k_proj, attend.v_proj, attend.out_proj):
            nn.init.eye_(projection.weight)
        large = x.clone()
        large[:, -1] = 1e30
        for need_weights in (False, True):
            before, after = (attend(each, mask=causal_mask(4), need_weights=need_weights)[0] for each in (x, large))
            torch.testing.assert_close(after[:, :3], before[:, :3])
            assert before.isfinite().all()


class TestGroups:
    @pytest.mark.parametrize("kv_heads", [6, 3, 2, 1])
    @any_mask
    def test_each_query_head_attends_with_the_keys_of_its_group(self, mask: Tensor | None, kv_heads: int):
        mask = mask[:, :1] if mask is not None and mask.ndim == 4 else mask  # 6 heads here, 3 in the masks
        attend = MultiHeadAttention(24, 6, kv_heads=kv_heads)
        query, context = torch.randn(2, 5, 24), torch.randn(2, 7, 24)
        q, k, v = attend.q_proj(query), attend.k_proj(context), attend.v_proj(context)
        per_head = None if mask is None else mask[:, 0] if mask.ndim == 4 else mask
        heads = []
        for head in range(6):
            group = head * kv_heads // 6
            own, shared = slice(4 * head, 4 * head + 4), slice(4 * group, 4 * group + 4)
            heads.append(dot_product_attention(q[..., own], k[..., shared], v[..., shared], per_head))
        output, weights = attend(query, context, mask, need_weights=True)
        torch.testing.assert_close(weights, torch.stack([w for _, w in heads], 1))
        torch.testing.assert_close(output, attend.out_proj(torch.cat([o for o, _ in heads], -1)))
        torch.testing.assert_close(attend(query, context, mask)[0], output)

    @pytest.mark.parametrize("kv_heads", [6, 3, 2, 1])
    def test_fewer_key_heads_have_fewer_weights(self, kv_heads: int):
        attend = MultiHeadAttention(24, 6, kv_heads=kv_heads)
        assert sum(p.numel() for p in attend.parameters()) == 2 * 24**2 * (1 + kv_heads / 6)

    def test_as_many_as_heads_when_left_out(self):
        torch.manual_seed(1)
        plain = MultiHeadAttention(24, 6)
        torch.manual_seed(1)
        grouped = MultiHeadAttention(24, 6, kv_heads=6)
        assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), grouped.parameters(), strict=True))


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("need_weights", [False, True])
def test_gradients_are_those_of_finite_differences(kv_heads: int, need_weights: bool):
    attend = MultiHeadAttention(8, 4, kv_heads=kv_heads, bias=True).double()
    inputs = [torch.randn(2, n, 8, dtype=torch.float64, requires_grad=True) for n in (3, 5)]
    bias = torch.randn(4, 3, 5, dtype=torch.float64, requires_grad=True)

    def run(query: Tensor, context: Tensor, bias: Tensor) -> Tensor:
        return attend(query, context, causal_mask(3, 5), need_weights, bias=bias)[0]

    assert torch.autograd.gradcheck(run, (*inputs, bias))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("need_weights", [False, True])
def test_mixed_and_half_precision(dtype: torch.dtype, need_weights: bool):
    attend, x = MultiHeadAttention(12, 3, bias=True), torch.randn(2, 5, 12)
    exact = attend(x, mask=causal_mask(5))[0]
    with torch.autocast("cpu", dtype):
        mixed = attend(x, mask=causal_mask(5), need_weights=need_weights)[0]
    mixed.float().sum().backward()
    half = attend.to(dtype)(x.to(dtype), mask=causal_mask(5), need_weights=need_weights)[0]
    for rounded in (mixed, half):
        torch.testing.assert_close(rounded.float(), exact, atol=0.02, rtol=0.02)


@pytest.mark.parametrize("need_weights", [False, True])
def test_it_compiles_to_one_graph_and_exports_with_a_free_time_axis(need_weights: bool):
    class Causal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attend = MultiHeadAttention(8, 4, kv_heads=2)

        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            output, weights = self.attend(x, mask=causal_mask(x.shape[1]), need_weights=need_weights)
            return (output,) if weights is None else (output, weights)

    model, x = Causal().eval(), torch.randn(2, 7, 8)
    exported = export(model, [torch.randn(2, 5, 8)], [{1: "time"}]).module()
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    for run in (exported, compiled):
        torch.testing.assert_close(run(x), model(x))
