"""What chapter 2.1.1 claims about positions: T5–T7, and how far they reach beyond the length trained on."""

import math
from statistics import median

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import BertConfig, GPT2Config
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.gptj.modeling_gptj import rotate_every_two
from transformers.models.llama.modeling_llama import rotate_half
from transformers.models.whisper.modeling_whisper import sinusoids

from experiments.transformer_lengths import KINDS, prepare
from lib.attention import causal_mask, dot_product_attention
from lib.data import results
from lib.transformer import (
    LearnedPositions,
    alibi_bias,
    alibi_slopes,
    apply_rope,
    sinusoidal_positions,
)
from tests.claims.prose import almost, stated, stated_text

PAGE = "transformer"


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def speeds(dim: int) -> Tensor:
    return 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)


def test_t5_the_table_is_that_of_the_formula():
    table = sinusoidal_positions(50, 64)
    for pos, i in ((0, 0), (1, 0), (7, 5), (49, 31)):
        angle = pos / 10000 ** (2 * i / 64)
        assert table[pos, 2 * i : 2 * i + 2].tolist() == pytest.approx([math.sin(angle), math.cos(angle)], abs=1e-6)


@pytest.mark.parametrize("k", [1, 7, 30])
def test_t5_moving_on_by_k_is_one_rotation_for_all_positions(k: int):
    pairs, angle = sinusoidal_positions(60, 16).unflatten(1, (-1, 2)), (k * speeds(16)).float()
    cos, sin = angle.cos(), angle.sin()
    rotation = torch.stack([cos, sin, -sin, cos], -1).unflatten(-1, (2, 2))
    torch.testing.assert_close(torch.einsum("iab,pib->pia", rotation, pairs[:-k]), pairs[k:], atol=1e-5, rtol=0)
    torch.testing.assert_close(rotation @ rotation.mT, torch.eye(2).expand(8, 2, 2), atol=1e-6, rtol=0)


def test_t5_the_product_of_two_positions_depends_on_their_distance():
    table = sinusoidal_positions(50, 64)
    products = table @ table.T
    for k in (0, 1, 5, 20):
        expected = (k * speeds(64)).cos().sum().float()
        torch.testing.assert_close(products.diagonal(k), expected.expand(50 - k), atol=1e-4, rtol=0)


def test_t5_low_dimensions_are_fast_and_high_ones_slow():
    steps = sinusoidal_positions(50, 64).unflatten(1, (-1, 2)).diff(dim=0).norm(dim=-1).mean(0)
    assert (steps.diff() < 0).all()
    turns = 2 * math.pi / speeds(64)
    assert turns[0].item() == almost(PAGE, r"转一圈是 2\\pi = ([\d.]+) 个位置")
    assert turns[-1].item() // 1000 == {"四万七千": 47}[stated_text(PAGE, "转一圈要(.{4})多个位置")]


def test_t5_whispers_table_is_in_halves_and_its_rates_are_a_little_different():
    angles = torch.arange(50)[:, None] * 10000.0 ** (-torch.arange(32) / (64 / 2 - 1))
    torch.testing.assert_close(sinusoids(50, 64), torch.cat([angles.sin(), angles.cos()], 1), atol=1e-4, rtol=0)


def test_a_small_embedding_stays_below_the_position_even_times_root_d():
    table, words = sinusoidal_positions(50, 64), torch.randn(50, 64)
    near = [F.cosine_similarity(std * words + table, table).mean() for std in (0.02 * 8, 64**-0.5 * 8)]
    assert near[0] > 0.95
    assert near[1] < 0.7


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_t6_a_score_depends_on_the_difference_of_positions_and_norms_are_kept(layout):
    q, k = torch.randn(2, 1, 8, dtype=torch.float64)
    turned_q, turned_k = (apply_rope(x.expand(9, 8), layout=layout) for x in (q, k))
    scores = turned_q @ turned_k.T
    for distance in range(-8, 9):
        same = scores.diagonal(distance)
        torch.testing.assert_close(same, same[:1].expand_as(same))
    assert scores[0].std() > 0.01
    torch.testing.assert_close(turned_q.norm(dim=-1), q.norm(dim=-1).expand(9))


def test_t6_a_permutation_relates_the_layouts():
    x, order = torch.randn(9, 8), torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])
    torch.testing.assert_close(apply_rope(x)[:, order], apply_rope(x[:, order], layout="half"))


def test_t6_half_is_hugging_faces_llama_and_interleaved_its_gpt_j():
    x, angles = torch.randn(9, 8), (torch.arange(9)[:, None] * speeds(8)).float()
    half, pairs = torch.cat([angles, angles], -1), angles.repeat_interleave(2, -1)
    llama, gptj = (x * half.cos() + rotate_half(x) * half.sin()), x * pairs.cos()
    torch.testing.assert_close(apply_rope(x, layout="half"), llama)
    torch.testing.assert_close(apply_rope(x), gptj + rotate_every_two(x[None, :, None])[0, :, 0] * pairs.sin())


@pytest.mark.parametrize("heads", [1, 2, 6, 8, 12, 20])
def test_t7_slopes_are_those_of_hugging_faces_bloom_for_any_number_of_heads(heads: int):
    theirs = build_alibi_tensor(torch.ones(1, 5), heads, torch.float32)  # slope times the key's position
    torch.testing.assert_close(alibi_slopes(heads), theirs[:, 0, 1])


def test_t7_the_bias_is_linear_in_distance_and_added_after_scaling():
    torch.testing.assert_close(alibi_slopes(8), 0.5 ** torch.arange(1.0, 9.0))
    distance = (torch.arange(6)[:, None] - torch.arange(6)).abs()
    torch.testing.assert_close(alibi_bias(8, 6), -alibi_slopes(8)[:, None, None] * distance)
    q, k, v = torch.randn(3, 2, 8, 6, 16)
    scores = (q @ k.mT / 4 + alibi_bias(8, 6)).masked_fill(~causal_mask(6), -math.inf)
    output, _ = dot_product_attention(q, k, v, causal_mask(6), bias=alibi_bias(8, 6))
    torch.testing.assert_close(output, scores.softmax(-1) @ v)


def test_t7_under_a_causal_mask_slope_times_key_position_gives_the_same_weights():
    q, k, v = torch.randn(3, 4, 7, 8)
    by_place = alibi_slopes(4)[:, None, None] * torch.arange(7)
    expected, _ = dot_product_attention(q, k, v, causal_mask(7), bias=alibi_bias(4, 7))
    torch.testing.assert_close(dot_product_attention(q, k, v, causal_mask(7), bias=by_place)[0], expected)
    assert not torch.allclose(dot_product_attention(q, k, v, bias=by_place)[0], expected, atol=0.05)


def test_t7_tables_of_bert_and_gpt_2_are_as_long_as_stated():
    assert BertConfig().max_position_embeddings == stated(PAGE, r"BERT 的表有 (\d+) 行")
    assert GPT2Config().n_positions == stated(PAGE, r"GPT-2 的有 (\d+) 行")


def test_t7_past_the_table_of_learned_positions_is_an_error_and_unused_rows_never_learn():
    positions = LearnedPositions(16, 8)
    with pytest.raises(ValueError, match=r"max_length = 16, got offset \+ length = 7 \+ 10"):
        positions(10, offset=7)
    positions(10).square().sum().backward()
    assert positions.weight.grad is not None
    assert (positions.weight.grad[10:] == 0).all()
    assert (positions.weight.grad[:10] != 0).any(-1).all()


def reached(kind: str, low: int, high: int) -> float:
    """Median over seeds of the share of right answers from place `low` to `high`, as stored."""
    return median(sum(hits[low - 1 : high]) / (high - low + 1) for hits in results("transformer_lengths")["runs"][kind])


def test_t7_beyond_the_length_trained_on_the_prose_says_what_five_seeds_gave():
    stored = results("transformer_lengths")
    assert len(stored["seeds"]) == 5
    assert {prepare(0, kind)[1]["lr"] for kind in KINDS} == {stated(PAGE, r"学习率都从 ([\d.]+) 按余弦下降")}
    assert stored["steps"] == stated(PAGE, r"测试时长到 64，训练 (\d+) 步")
    assert all(len(hits) + 1 == stated(PAGE, r"测试时长到 (\d+)") for hits in stored["runs"]["rope"])
    for kind in ("sinusoidal", "learned", "rope", "alibi"):
        assert reached(kind, 1, 15) == almost(PAGE, r"四种位置编码都全对（中位数 ([\d.]+)）")
    assert reached("none", 1, 15) == almost(PAGE, r"不加的是 ([\d.]+)。到两倍")
    assert reached("sinusoidal", 16, 31) == almost(PAGE, r"正弦掉到 ([\d.]+)，可学习")
    assert reached("learned", 16, 31) == almost(PAGE, r"可学习的 ([\d.]+)，与瞎猜")
    for kind in ("rope", "alibi"):
        assert reached(kind, 16, 31) == almost(PAGE, r"RoPE 和 ALiBi 仍是 ([\d.]+)；")
    assert reached("rope", 48, 63) == almost(PAGE, r"RoPE 也只剩 ([\d.]+)，")
    assert reached("alibi", 48, 63) == almost(PAGE, r"ALiBi 还是 ([\d.]+)。")


def test_t7_numbers_that_the_prose_states_of_the_explorers():
    weights = alibi_bias(8, 1, 32)[:, 0].softmax(-1).flip(-1)
    assert weights[0, 0].item() == almost(PAGE, r"第 1 个头把 ([\d.]+) 的权重留给自己")
    assert weights[7, 0].item() == almost(PAGE, r"给自己 ([\d.]+)，几乎是平分")
    slope = alibi_slopes(8)[7].item()
    assert slope == almost(PAGE, r"第 8 个头的斜率约 ([\d.]+)，")
    assert 100 * slope == almost(PAGE, r"相隔 100 只扣 ([\d.]+) 分")
    assert math.degrees(3 * 0.5) == almost(PAGE, r"多 1.5 弧度，约 (\d+)°")
    near = (weights.cumsum(-1) < 0.5).sum(-1) + 1
    assert near[0] == stated(PAGE, r"最近的 (\d+) 个位置就拿走了一半")
    assert near[7] == stated(PAGE, r"最近的 (\d+) 个位置才合起来拿到一半")
    slowest = [2 * math.pi * base ** (46 / 48) for base in (10000, 10)]
    assert slowest[0] == almost(PAGE, r"底数 10000 时，最慢的一对转一圈要 ([\d,]+) 个位置")
    assert slowest[1] == almost(PAGE, r"底数换成 10，只要 ([\d.]+) 个位置")
    table = sinusoidal_positions(121, 64)
    products = table @ table[60] / 32
    assert products[65].item() == almost(PAGE, r"相隔 5 是与自己的 ([\d.]+) 倍")
    assert products[80].item() == almost(PAGE, r"相隔 20 是 ([\d.]+) 倍")
