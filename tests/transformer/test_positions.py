"""Positions: closed forms, what depends on distance only, and where the tables end."""

import math

import pytest
import torch
from torch import Tensor

from lib.attention import MultiHeadAttention, causal_mask
from lib.transformer import LearnedPositions, alibi_bias, alibi_slopes, apply_rope, sinusoidal_positions


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


class TestSinusoidal:
    @pytest.mark.parametrize("dim", [1, 2, 5, 8])
    def test_each_number_is_that_of_the_formula(self, dim: int):
        table = sinusoidal_positions(7, dim, base=100.0)
        for pos in range(7):
            for j in range(dim):
                angle = pos / 100 ** (j // 2 * 2 / dim)
                assert table[pos, j].item() == pytest.approx(math.cos(angle) if j % 2 else math.sin(angle), abs=1e-6)

    def test_an_odd_width_drops_the_last_cosine(self):
        assert sinusoidal_positions(7, 5).shape == (7, 5)

    def test_far_positions_keep_their_digits(self):
        assert sinusoidal_positions(100_001, 2)[-1, 0].item() == pytest.approx(math.sin(100_000), abs=1e-6)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
    def test_numbers_of_the_default_type_are_rounded_once(self, dtype: torch.dtype):
        torch.set_default_dtype(torch.float64)
        precise = sinusoidal_positions(3000, 6)
        torch.set_default_dtype(dtype)
        try:
            table = sinusoidal_positions(3000, 6)
        finally:
            torch.set_default_dtype(torch.float32)
        assert torch.equal(table, precise.to(dtype))

    def test_no_position_is_an_empty_table(self):
        assert sinusoidal_positions(0, 4).shape == (0, 4)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((-1, 4), "length must be at least 0, got -1"),
            ((3, 0), "dim must be at least 1, got 0"),
            ((3, 4, 0.0), "base must be above 0, got 0.0"),
        ],
    )
    def test_bad_input_is_named(self, arguments: tuple, message: str):
        with pytest.raises(ValueError, match=message):
            sinusoidal_positions(*arguments)


class TestLearned:
    def test_positions_are_rows_of_the_table(self):
        positions = LearnedPositions(6, 4)
        assert torch.equal(positions(3), positions.weight[:3])

    def test_step_by_step_equals_all_at_once(self):
        positions = LearnedPositions(6, 4)
        steps = [positions(1, offset=t) for t in range(6)]
        assert torch.equal(torch.cat(steps), positions(6))

    @pytest.mark.parametrize(("length", "offset"), [(7, 0), (1, 6), (3, 4), (2, -1)])
    def test_past_the_table_is_an_error_that_names_both(self, length: int, offset: int):
        with pytest.raises(ValueError, match=rf"max_length = 6, got offset \+ length = {offset} \+ {length}"):
            LearnedPositions(6, 4)(length, offset)

    def test_only_rows_in_use_learn(self):
        positions = LearnedPositions(6, 4)
        positions(3, offset=1).sum().backward()
        assert positions.weight.grad is not None
        assert positions.weight.grad[:, 0].tolist() == [0, 1, 1, 1, 0, 0]

    def test_the_first_values_are_small(self):
        assert LearnedPositions(100, 64).weight.std().item() == pytest.approx(0.02, rel=0.1)
        assert LearnedPositions(100, 64, std=0.5).weight.std().item() == pytest.approx(0.5, rel=0.1)

    def test_a_table_has_rows_and_columns(self):
        with pytest.raises(ValueError, match="max_length must be at least 1, got 0"):
            LearnedPositions(0, 4)


layouts = pytest.mark.parametrize("layout", ["interleaved", "half"])


class TestRope:
    @layouts
    def test_a_pair_is_multiplied_by_a_complex_number(self, layout):
        x = torch.randn(7, 6, dtype=torch.float64)
        pairs = x.view(7, 3, 2) if layout == "interleaved" else x.view(7, 2, 3).mT
        theta = 100.0 ** (-torch.arange(0, 6, 2, dtype=torch.float64) / 6)
        turned = torch.view_as_complex(pairs.contiguous()) * torch.exp(1j * torch.arange(7)[:, None] * theta)
        expected = torch.view_as_real(turned)
        expected = expected.flatten(1) if layout == "interleaved" else expected.mT.flatten(1)
        torch.testing.assert_close(apply_rope(x, base=100.0, layout=layout), expected)

    @layouts
    def test_the_product_depends_on_the_distance_only(self, layout):
        q, k = torch.randn(2, 1, 6, dtype=torch.float64)
        near = apply_rope(q, torch.tensor([7]), layout=layout) @ apply_rope(k, torch.tensor([3]), layout=layout).T
        far = apply_rope(q, torch.tensor([1007]), layout=layout) @ apply_rope(k, torch.tensor([1003]), layout=layout).T
        other = apply_rope(q, torch.tensor([8]), layout=layout) @ apply_rope(k, torch.tensor([3]), layout=layout).T
        torch.testing.assert_close(near, far)
        assert not torch.allclose(near, other)

    @layouts
    def test_position_zero_and_norms_are_kept(self, layout):
        x = torch.randn(2, 3, 5, 8)
        turned = apply_rope(x, layout=layout)
        torch.testing.assert_close(turned[..., 0, :], x[..., 0, :])
        torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))

    def test_a_permutation_turns_one_layout_into_the_other(self):
        x = torch.randn(2, 5, 8)
        order = torch.arange(8).view(4, 2).T.flatten()  # 0 2 4 6 1 3 5 7
        torch.testing.assert_close(apply_rope(x)[..., order], apply_rope(x[..., order], layout="half"))

    @layouts
    def test_with_a_cache_positions_go_on(self, layout):
        x = torch.randn(2, 7, 6)
        last = apply_rope(x[:, 5:], torch.arange(5, 7), layout=layout)
        torch.testing.assert_close(last, apply_rope(x, layout=layout)[:, 5:])

    def test_each_sequence_may_have_positions_of_its_own(self):
        x, positions = torch.randn(2, 3, 5, 4), torch.tensor([[[0, 1, 2, 3, 4]], [[3, 4, 5, 6, 7]]])
        turned = apply_rope(x, positions)
        torch.testing.assert_close(turned[1], apply_rope(x[1], torch.arange(3, 8)))

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
    def test_the_type_is_kept_and_halves_are_turned_in_single_precision(self, dtype: torch.dtype):
        x = torch.randn(600, 4).to(dtype)
        turned = apply_rope(x)
        assert turned.dtype == dtype
        assert torch.equal(turned, apply_rope(x.double() if dtype == torch.float64 else x.float()).to(dtype))

    def test_gradients_equal_finite_differences(self):
        x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x: apply_rope(x, layout="half"), x)

    def test_the_input_is_left_as_it_was(self):
        x = torch.randn(5, 4)
        before = x.clone()
        apply_rope(x)
        assert torch.equal(x, before)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
    @layouts
    def test_far_positions_keep_their_digits_in_half_precision(self, layout, dtype: torch.dtype):
        x, positions = torch.randn(3, 8).to(dtype), torch.tensor([1000, 30_001, 100_003])
        expected = apply_rope(x.double(), positions, layout=layout)
        turned = apply_rope(x, positions, layout=layout).double()
        torch.testing.assert_close(turned, expected, atol=torch.finfo(dtype).eps * 4, rtol=0)

    @layouts
    def test_positions_of_a_batch_are_told_from_those_of_heads(self, layout):
        x, positions = torch.randn(3, 3, 5, 4), torch.randint(50, (3, 5))
        with pytest.raises(ValueError, match=r"broadcast axis by axis to \(3, 3, 5\), got \(3, 5\)"):
            apply_rope(x, positions, layout=layout)
        turned = apply_rope(x, positions[:, None], layout=layout)  # (batch, 1, time)
        for row, own in zip(range(3), positions, strict=True):
            torch.testing.assert_close(turned[row], apply_rope(x[row], own, layout=layout))

    @pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.complex64, torch.bool], ids=str)
    def test_only_real_numbers_are_turned(self, dtype: torch.dtype):
        with pytest.raises(ValueError, match=rf"real numbers, got \(5, 4\) {dtype}"):
            apply_rope(torch.ones(5, 4).to(dtype))

    @pytest.mark.parametrize("dtype", [torch.complex64, torch.bool], ids=str)
    def test_positions_are_numbers(self, dtype: torch.dtype):
        with pytest.raises(ValueError, match=rf"positions must be \(5,\) .* got \(5,\) {dtype}"):
            apply_rope(torch.ones(5, 4), torch.ones(5).to(dtype))

    @pytest.mark.parametrize(
        ("x", "options", "message"),
        [
            (torch.zeros(5, 3), {}, r"even dim, real numbers, got \(5, 3\)"),
            (torch.zeros(4), {}, r"even dim, real numbers, got \(4,\)"),
            (torch.zeros(5, 4), {"layout": "split"}, "layout must be .* got 'split'"),
            (torch.zeros(5, 4), {"base": -1.0}, "base must be above 0, got -1.0"),
            (torch.zeros(2, 5, 4), {"positions": torch.arange(4)}, r"\(5,\) or broadcast .* to \(2, 5\), got \(4,\)"),
            (torch.zeros(5, 4), {"positions": torch.zeros(2, 5)}, r"broadcast .* to \(5,\), got \(2, 5\)"),
        ],
    )
    def test_bad_input_is_named(self, x: Tensor, options: dict, message: str):
        with pytest.raises(ValueError, match=message):
            apply_rope(x, **options)


@pytest.mark.parametrize(
    "make",
    [
        lambda device: sinusoidal_positions(5, 4, device=device),
        lambda device: alibi_slopes(3, device=device),
        lambda device: alibi_bias(3, 5, device=device),
    ],
    ids=["sinusoidal", "slopes", "bias"],
)
def test_a_device_can_be_chosen(make):
    assert make("meta").device.type == "meta"
    assert make(None).device.type == "cpu"


class TestAlibi:
    @pytest.mark.parametrize("heads", [1, 2, 8, 16])
    def test_a_power_of_two_gives_a_geometric_sequence_down_to_2_to_the_minus_8(self, heads: int):
        slopes = alibi_slopes(heads)
        assert slopes.tolist() == pytest.approx([2 ** (-8 * h / heads) for h in range(1, heads + 1)])
        assert slopes[-1] == 2**-8

    @pytest.mark.parametrize("heads", range(1, 41))
    def test_any_number_of_heads_gets_slopes_that_differ(self, heads: int):
        slopes = alibi_slopes(heads)
        assert slopes.shape == (heads,)
        assert len(set(slopes.tolist())) == heads
        assert ((slopes > 0) & (slopes < 1)).all()

    def test_other_numbers_borrow_from_the_next_power(self):
        torch.testing.assert_close(alibi_slopes(12), torch.cat([alibi_slopes(8), alibi_slopes(16)[::2][:4]]))

    def test_the_bias_is_linear_in_the_distance(self):
        bias = alibi_bias(6, 5)
        for h, slope in enumerate(alibi_slopes(6).tolist()):
            expected = [[-slope * abs(t - s) for s in range(5)] for t in range(5)]
            torch.testing.assert_close(bias[h], torch.tensor(expected))

    def test_fewer_queries_are_the_last_rows(self):
        assert torch.equal(alibi_bias(3, 2, 7), alibi_bias(3, 7)[:, 5:])

    def test_more_queries_than_keys_still_end_together(self):
        assert torch.equal(alibi_bias(3, 7, 2), alibi_bias(3, 7)[..., 5:])

    @pytest.mark.parametrize("make", [lambda: alibi_bias(12, 600), lambda: alibi_slopes(12)], ids=["bias", "slopes"])
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
    def test_the_type_is_the_default_one_and_numbers_are_rounded_once(self, dtype: torch.dtype, make):
        assert make().dtype == torch.float32
        torch.set_default_dtype(torch.float64)
        precise = make()
        torch.set_default_dtype(dtype)
        try:
            assert torch.equal(make(), precise.to(dtype))
        finally:
            torch.set_default_dtype(torch.float32)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
    @pytest.mark.parametrize("need_weights", [True, False])
    def test_attention_in_half_precision_takes_it(self, dtype: torch.dtype, need_weights: bool):
        attend, x, bias = MultiHeadAttention(12, 3), torch.randn(2, 300, 12), alibi_bias(3, 300)
        expected, _ = attend(x, mask=causal_mask(300), bias=bias)
        half = attend.to(dtype)(x.to(dtype), mask=causal_mask(300), need_weights=need_weights, bias=bias)[0]
        assert half.dtype == dtype
        torch.testing.assert_close(half.float(), expected, atol=0.02, rtol=0.02)

    def test_bad_input_is_named(self):
        with pytest.raises(ValueError, match="heads must be at least 1, got 0"):
            alibi_slopes(0)
        with pytest.raises(ValueError, match="keys must be at least 0, got -1"):
            alibi_bias(2, 3, -1)
