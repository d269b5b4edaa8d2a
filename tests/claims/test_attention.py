"""What chapter 2.1.0 claims about the kernels of attention: A1–A7, A11 (same numbers), A12."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.attention import (
    AdditiveAttention,
    MultiHeadAttention,
    block_causal_mask,
    causal_mask,
    dot_product_attention,
    hopfield_update,
    kernel_regression,
    masked_softmax,
    padding_mask,
    tiled_attention,
)
from lib.data import noisy_curve, results, running_example, true_curve
from tests.claims.prose import almost, stated

MASKS = {
    "padding": padding_mask([9, 5], 9),
    "causal": causal_mask(6, 9),
    "block-causal": block_causal_mask([3, 2, 4])[-6:],
}


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def qkv(generator: torch.Generator, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """Two batches, four heads, 6 queries, 9 keys, widths 16 and 5."""
    shapes = ((2, 4, 6, 16), (2, 4, 9, 16), (2, 4, 9, 5))
    q, k, v = (torch.randn(shape, generator=generator).to(dtype) for shape in shapes)
    return q, k, v


@pytest.mark.parametrize("sigma", [0.01, 0.3, 2.0, 50.0])
def test_a1_weights_are_an_average_so_predictions_stay_within_the_values(sigma: float, generator: torch.Generator):
    x, y = noisy_curve(50, generator=generator)
    prediction, weights = kernel_regression(torch.linspace(-1, 6, 23), x, y, sigma)
    assert weights.shape == (23, 50)
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(23))
    assert y.min() - 1e-5 <= prediction.min()
    assert prediction.max() <= y.max() + 1e-5


def test_a1_small_sigma_is_the_nearest_neighbour_and_large_sigma_the_mean(generator: torch.Generator):
    x, y = noisy_curve(50, generator=generator)
    query = torch.linspace(-1, 6, 23)
    nearest = y[(query[:, None] - x).abs().argmin(-1)]
    torch.testing.assert_close(kernel_regression(query, x, y, 1e-4)[0], nearest)
    torch.testing.assert_close(kernel_regression(query, x, y, 1e5)[0], y.mean().expand(23))


def test_a2_kernel_regression_is_the_softmax_of_minus_half_the_squared_distance(generator: torch.Generator):
    noise = stated("attention", r"标准差 ([\d.]+) 的噪声")
    x, y = noisy_curve(int(stated("attention", r"数据取 (\d+) 个点")), noise=noise, generator=generator)
    query = torch.linspace(0.5, 4.5, 5)
    weights = torch.exp(-((query[:, None] - x) ** 2) / (2 * 0.3**2))
    weights = weights / weights.sum(-1, keepdim=True)
    prediction, own = kernel_regression(query, x, y, sigma=0.3)
    torch.testing.assert_close(own, weights)
    torch.testing.assert_close(prediction, weights @ y)
    assert (prediction - true_curve(query)).abs().max() < noise


def test_a3_the_dot_product_has_variance_d_and_one_after_scaling(generator: torch.Generator):
    for d in (4, 64, 512):
        q, k = torch.randn(2, 20_000, d, generator=generator)
        assert (q * k).sum(-1).var().item() == pytest.approx(d, rel=0.05)
        assert ((q * k).sum(-1) / math.sqrt(d)).var().item() == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize(("scale", "saturated"), [(1.0, True), (None, False)])
def test_a3_without_scaling_softmax_saturates_at_512(scale: float | None, saturated: bool, generator: torch.Generator):
    q, k = torch.randn(500, 1, 512, generator=generator), torch.randn(500, 10, 512, generator=generator)
    _, weights = dot_product_attention(q, k, k, scale=scale)
    w = weights.squeeze(1)
    jacobian = torch.diag_embed(w) - w[:, :, None] * w[:, None, :]
    entropy, slope = torch.special.entr(w).sum(-1).mean(), torch.linalg.matrix_norm(jacobian).mean()
    assert (entropy < 0.2 and slope < 0.1) if saturated else (entropy > 1.8 and slope > 0.3)


def test_a4_additive_scores_take_different_widths_and_the_dot_product_does_not():
    query, key, value = torch.randn(4, 5), torch.randn(7, 3), torch.randn(7, 2)
    attend = AdditiveAttention(query_dim=5, key_dim=3, hidden_dim=8)
    output, weights = attend(query, key, value)
    pairs = [attend.score(torch.tanh(attend.q_proj(q) + attend.k_proj(k))) for q in query for k in key]
    expected = torch.cat(pairs).view(4, 7).softmax(-1)
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(output, expected @ value)
    with pytest.raises(ValueError, match="width"):
        dot_product_attention(query, key, value)


@pytest.mark.parametrize("mask", [None, *MASKS.values()], ids=["none", *MASKS])
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_a5_equals_the_fused_kernel(mask: Tensor | None, dtype: torch.dtype, atol: float, generator: torch.Generator):
    q, k, v = qkv(generator, dtype)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    torch.testing.assert_close(dot_product_attention(q, k, v, mask)[0], expected, atol=atol, rtol=0)


def test_a5_keys_and_values_are_a_set_and_each_output_lies_within_the_values(generator: torch.Generator):
    q, k, v = qkv(generator)
    order = torch.randperm(9, generator=generator)
    output, _ = dot_product_attention(q, k, v)
    torch.testing.assert_close(dot_product_attention(q, k[..., order, :], v[..., order, :])[0], output)
    assert (output <= v.amax(-2, keepdim=True) + 1e-6).all()
    assert (output >= v.amin(-2, keepdim=True) - 1e-6).all()


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_a6_a_masked_key_weighs_exactly_nothing_however_large(mask: Tensor, generator: torch.Generator):
    q, k, v = qkv(generator)
    before, weights = dot_product_attention(q, k, v, mask)
    blocked = ~mask.expand(2, 4, 6, 9)
    assert blocked.any()
    assert (weights[blocked] == 0).all()
    for query in range(6):
        hidden = blocked[:, :, query, :, None]
        after, _ = dot_product_attention(q, k.masked_fill(hidden, 1e30), v.masked_fill(hidden, -1e30), mask)
        assert torch.equal(after[:, :, query], before[:, :, query])


def test_a6_the_masks_mean_what_the_chapter_says():
    causal = torch.tensor([[key <= query + 3 for key in range(9)] for query in range(6)])
    assert torch.equal(causal_mask(6, 9), causal)  # bottom-right: the last query sees all keys
    block = [0, 0, 0, 1, 1, 2]
    assert block_causal_mask([3, 2, 1]).tolist() == [[key <= query for key in block] for query in block]
    assert padding_mask([2, 0], 3)[:, 0, 0].tolist() == [[True, True, False], [False, False, False]]


def test_a6_a_masked_key_stays_out_below_any_finite_mask_value():
    scores, mask = torch.tensor([[-2e4, -2e4, 5.0]]), torch.tensor([True, True, False])
    assert masked_softmax(scores, mask).tolist() == [[0.5, 0.5, 0.0]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a6_nothing_to_see_gives_zero_where_a_finite_mask_gives_weights(dtype: torch.dtype, generator: torch.Generator):
    scores = torch.randn(3, 5, generator=generator).to(dtype).requires_grad_()
    weights = masked_softmax(scores, padding_mask([0], 5)[0, 0])
    weights.sum().backward()
    assert (weights == 0).all()
    assert scores.grad is not None
    assert (scores.grad == 0).all()
    assert (scores.detach() - 1e4).softmax(-1).sum() > 2.9  # three rows of padding, attended to


def test_a6_masks_of_other_libraries_as_the_table_converts_them():
    theirs = nn.MultiheadAttention(8, 2, batch_first=True)
    ours, x = MultiHeadAttention.from_torch(theirs), torch.randn(2, 5, 8)
    causal, padding = causal_mask(5), padding_mask([3, 5], 5)
    expected = ours(x, mask=causal & padding)[0]
    same_for_all = (causal & padding_mask([5], 5))[0, 0]
    torch.testing.assert_close(theirs(x, x, x, attn_mask=~same_for_all)[0], ours(x, mask=causal)[0])
    ignored = {"attn_mask": ~causal, "key_padding_mask": ~padding[:, 0, 0]}
    torch.testing.assert_close(theirs(x, x, x, **ignored)[0], expected)
    each = (~(causal & padding)).expand(2, 2, 5, 5).flatten(0, 1)  # (batch · heads, query, key)
    torch.testing.assert_close(theirs(x, x, x, attn_mask=each)[0], expected)
    assert padding[:, 0, 0].long().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]  # as a tokenizer gives it
    scores = torch.randn(2, 2, 5, 5)
    additive = torch.where(padding, 0.0, torch.finfo(torch.float32).min)  # as models of Hugging Face add it
    torch.testing.assert_close((scores + additive).softmax(-1), masked_softmax(scores, padding))


def test_a12_sun_and_eye_differ_in_21_cells():
    sun, eye = torch.zeros(2, 9, 9)
    sun[[0, 4, 8]], eye[[0, 3, 5, 8]] = 1.0, 1.0
    sun[:, [1, 7]], eye[:, [1, 7]] = 1.0, 1.0
    assert (sun != eye).sum() == stated("attention", r"「日」和「目」的 81 格里有 (\d+) 格不同")


@pytest.mark.parametrize("heads", [1, 2, 8])
def test_a7_heads_share_4_d_squared_weights_and_equal_pytorchs_module(heads: int):
    weights = sum(p.numel() for p in MultiHeadAttention(64, heads).parameters())
    assert weights == 4 * 64**2 == stated("attention", r"一共 4d\^2 = (\d+) 个")
    theirs = nn.MultiheadAttention(64, heads, batch_first=True)
    x, context, mask = torch.randn(2, 6, 64), torch.randn(2, 9, 64), padding_mask([9, 5], 9)
    expected = theirs(x, context, context, key_padding_mask=~mask[:, 0, 0], average_attn_weights=False)
    output, weights = MultiHeadAttention.from_torch(theirs)(x, context, mask, need_weights=True)
    assert weights is not None
    assert weights.shape == (2, heads, 6, 9)
    torch.testing.assert_close(output, expected[0])
    torch.testing.assert_close(weights, expected[1])


@pytest.mark.parametrize("block_size", [1, 4, 7, 64])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_a11_tiles_give_the_same_numbers(block_size: int, mask: Tensor, generator: torch.Generator):
    q, k, v = qkv(generator)
    expected, _ = dot_product_attention(q, k, v, mask)
    torch.testing.assert_close(tiled_attention(q, k, v, mask, block_size=block_size), expected)


def test_a12_a_hopfield_update_is_attention_and_restores_a_pattern_in_one_step(generator: torch.Generator):
    patterns = torch.randint(2, (10, 64), generator=generator) * 2.0 - 1
    damaged = torch.where(torch.rand(10, 64, generator=generator) < 0.2, -patterns, patterns)
    restored = hopfield_update(damaged, patterns, beta=0.5)
    torch.testing.assert_close(restored, dot_product_attention(damaged, patterns, patterns, scale=0.5)[0])
    assert not torch.equal(damaged, patterns)
    assert torch.equal(restored.sign(), patterns)


def test_a12_a_small_beta_recalls_the_average_of_all(generator: torch.Generator):
    patterns = torch.randn(6, 9, generator=generator)
    torch.testing.assert_close(hopfield_update(patterns[0], patterns, beta=1e-6), patterns.mean(0), atol=1e-4, rtol=0)


def test_numbers_that_the_prose_states():
    assert math.sqrt(512) == almost("attention", r"\\sqrt\{512\} = ([\d.]+)")
    assert math.log(10) == almost("attention", r"\\ln 10 = ([\d.]+)")
    assert torch.finfo(torch.float16).max == stated("attention", r"float16 最大只到 (\d+)")
    half = torch.tensor([1e4], dtype=torch.float16)
    step = (torch.nextafter(half, half * 2) - half).item()
    assert step == stated("attention", r"float16 在那附近每 (\d+) 才有一个数")


def test_the_sentence_that_runs_through_the_book():
    """一岁一枯荣: the second 一 reads 岁; the mask alone tells the two apart."""
    example = running_example()
    x = example.embedding[example.tokens]
    q, k, v = x @ example.w_q, x @ example.w_k, x @ example.w_v
    _, weights = dot_product_attention(q, k, v, causal_mask(5))
    second = weights[2].tolist()
    assert second[1] == almost("attention", r"「一②」把 ([\d.]+) 的权重给了「岁」")
    assert second[0] == second[2] == almost("attention", r"自己和「一①」各 ([\d.]+)")
    assert second[3:] == [0, 0]
    assert weights[0].tolist() == [1, 0, 0, 0, 0]
    _, unmasked = dot_product_attention(q, k, v)
    assert torch.equal(unmasked[0], unmasked[2])
    answers = results("running_example")["control_answers"]["none"][0]
    assert answers[1] == almost("attention", r"各猜一半左右（([\d.]+) 和")
    assert answers[2] == almost("attention", r"各猜一半左右（[\d.]+ 和 ([\d.]+)）")
    # By hand: an entry of a query, and a score before and after the division.
    assert q[1, 0].item() == almost("attention", r"\(-0\.3\) \\times 0 = (0\.34)。")
    assert (q[1] @ k[0]).item() == almost("attention", r"\(-0\.75\) = (2\.47)")
    assert (q[1] @ k[0] / 2).item() == almost("attention", r"= 2\.47，除以 2 是 ([\d.]+)")
    assert (q[0] @ k[0] / 2).item() == almost("attention", r"「一①」和自己的分数是 (−[\d.]+)")
    learned = ["embedding", "w_q", "w_k", "w_v", "w_1", "w_2"]
    count = sum(getattr(example, name).numel() for name in learned)
    assert count == stated("attention", r"这个模型只有 (\d+) 个参数")
    assert len(results("running_example")["reads"]) == stated("attention", r"从 (\d+) 个随机种子里挑了一个")


def test_a3_numbers_of_saturation():
    """As the page computes them."""
    generator = torch.Generator().manual_seed(0)
    for d in (4, 64, 512):
        torch.randn(2, 20_000, d, generator=generator)
    q, k = (torch.randn(500, count, 1024, generator=generator) for count in (1, 10))
    sizes = []
    for scale, before in ((1.0, "不缩放时，熵只剩"), (1 / math.sqrt(512), "d = 512 时熵")):
        query = q[..., :512].clone().requires_grad_()
        shares = ((query * k[..., :512]).sum(-1) * scale).softmax(-1)
        assert torch.special.entr(shares).sum(-1).mean().item() == almost("attention", rf"{before} ([\d.]+)")
        assert shares.amax(-1).mean().item() == almost("attention", rf"{before} [\d.]+，最大的[^\d]*([\d.]+)")
        (shares * k[..., -1]).sum().backward()
        assert query.grad is not None
        sizes.append(query.grad.norm(dim=-1))
    # 中位数不到缩放后的十分之一，少数几个却大得多
    assert sizes[0].median() < sizes[1].median() / 10
    assert sizes[0].max() > 10 * sizes[1].max()


def test_a6_scores_of_twenty_thousand_beat_a_finite_mask_value():
    blocked = -(10 ** stated("attention", r"很多代码拿 -10\^(\d+) 或"))
    assert torch.tensor([2.0, 20_000 + blocked]).softmax(-1).tolist() == [0, 1]
    assert torch.tensor(-(10 ** stated("attention", r"半精度：-10\^(\d+) 超出 float16"))).half() == -math.inf


def test_a12_half_of_the_cells_flipped_leave_no_trace_of_the_pattern():
    """As the page computes it: eight patterns, damaged a thousand times each."""
    strokes = {
        "口": ([0, 8], [0, 8]), "日": ([0, 4, 8], [1, 7]), "田": ([0, 4, 8], [0, 4, 8]),
        "目": ([0, 3, 5, 8], [1, 7]), "十": ([4], [4]), "工": ([1, 7], [4]),
        "王": ([0, 4, 8], [4]), "井": ([2, 6], [2, 6]),
    }  # fmt: skip
    patterns = -torch.ones(8, 9, 9)
    for picture, (rows, columns) in zip(patterns, strokes.values(), strict=True):
        picture[rows], picture[:, columns] = 1.0, 1.0
    patterns = patterns.flatten(1)
    half = torch.rand(1000, 8, 81, generator=torch.Generator().manual_seed(1)) < 0.5
    largest, recalled = (0.5 * torch.where(half, -patterns, patterns) @ patterns.T).softmax(-1).max(-1)
    own = (recalled == torch.arange(8)).float().mean().item()
    assert largest.median().item() == almost("attention", r"最大的一份权重中位数有 ([\d.]+)，")
    assert own == almost("attention", r"却只有 ([\d.]+) 的机会给了原来的字")
    assert own == pytest.approx(1 / 8, abs=0.01)  # of eight, by chance


def test_ten_documents_are_enough():
    """Exercise 7, as its solution computes it."""
    torch.manual_seed(0)
    question, contents, documents = torch.randn(1, 16), torch.randn(200, 4), torch.randn(200, 16)
    soft, weights = dot_product_attention(question, documents, contents, scale=2.0)
    kept = torch.zeros(1, 200, dtype=torch.bool)
    kept[0, weights[0].topk(int(stated("attention", r"这里 k = (\d+) 就够了"))).indices] = True
    hard, _ = dot_product_attention(question, documents, contents, kept, scale=2.0)
    assert (hard - soft).abs().max().item() == almost("attention", r"就够了，相差 ([\d.]+)。")
