"""What chapter 2.1.1 claims about the block, its parameters and where it norms: T1–T4."""

import math
from functools import partial
from statistics import median
from typing import Literal

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import BertConfig, GPT2Config, LlamaConfig

from experiments.post_ln import digit_batches
from lib.attention import MultiHeadAttention, causal_mask, dot_product_attention
from lib.data import results, running_example
from lib.transformer import (
    Decoder,
    Encoder,
    FeedForward,
    LearnedPositions,
    SwiGLU,
    TransformerBlock,
    count_parameters,
    sinusoidal_positions,
)
from tests.claims.prose import almost, stated, stated_text

PAGE = "transformer"
Norm = Literal["pre", "post"]
ORDER = torch.tensor([3, 0, 7, 1, 9, 4, 2, 8, 6, 5])


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def matrices(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters() if parameter.ndim == 2)


@pytest.mark.parametrize("dim", [24, 48, 96])
@pytest.mark.parametrize("feed_forward", [FeedForward, SwiGLU])
def test_t1_a_block_keeps_the_shape_and_has_12_d_squared_weights_two_thirds_in_the_ffn(feed_forward, dim: int):
    block = TransformerBlock(dim, 4, feed_forward=feed_forward)
    assert block(torch.randn(2, 7, dim)).output.shape == (2, 7, dim)
    assert matrices(block) == stated(PAGE, r"一个块大约有 (\d+)d\^2 个参数") * dim**2
    assert matrices(block.attention) == stated(PAGE, r"四个 d\\times d 的矩阵，(\d+)d\^2") * dim**2
    assert matrices(block.feed_forward) == stated(PAGE, r"d\\times 4d 两个，(\d+)d\^2") * dim**2
    assert matrices(block.feed_forward) / matrices(block) == pytest.approx(2 / 3)


def test_t1_without_rounding_swiglu_at_8_d_over_3_keeps_the_count_and_at_4_d_has_half_again():
    assert count_parameters(SwiGLU(96)) == count_parameters(SwiGLU(96, 256)) == 8 * 96**2
    assert count_parameters(SwiGLU(96, 4 * 96)) == 12 * 96**2


def test_t1_gpt_2_small_counted_from_the_parts():
    with torch.device("meta"):
        stack = Decoder(768, 12, 12, cross_attention=False, attention=partial(MultiHeadAttention, bias=True))
        parts = nn.ModuleList([nn.Embedding(50257, 768), LearnedPositions(1024, 768), stack])
    assert count_parameters(parts) == stated(PAGE, r"(\d+) 个，也就是通常说的")


class Sorter(nn.Module):
    """Sorts six digits; the model of the chapter's experiment."""

    def __init__(self, norm: Norm, layers: int) -> None:
        super().__init__()
        self.embed, self.answer = nn.Embedding(6, 32), nn.Linear(32, 6)
        self.stack = Encoder(32, 4, layers, norm=norm)
        for weight in self.stack.parameters():
            if weight.ndim == 2:
                nn.init.xavier_uniform_(weight)

    def forward(self, digits: Tensor) -> Tensor:
        return self.answer(self.stack(self.embed(digits) + sinusoidal_positions(6, 32))[0])


def digits(seed: int):
    generator = torch.Generator().manual_seed(seed)
    while True:
        drawn = torch.randint(6, (16, 6), generator=generator)
        yield drawn, drawn.sort(1).values


def sorting_loss(model: nn.Module, drawn: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(model(drawn).flatten(0, 1), target.flatten())


def last_gradient(norm: Norm, layers: int) -> float:
    """Norm of the gradient of the last W₂ at initialisation, mean over four draws."""
    norms = []
    for seed in range(4):
        torch.manual_seed(seed)
        model = Sorter(norm, layers)
        nn.init.normal_(model.answer.weight, std=32**-0.5)
        sorting_loss(model, *next(digits(0))).backward()
        gradient = model.stack.get_parameter(f"blocks.{layers - 1}.feed_forward.down_proj.weight").grad
        assert gradient is not None
        norms.append(gradient.norm())
    return torch.stack(norms).mean().item()


def test_t2_at_initialisation_the_last_gradient_falls_with_depth_in_pre_ln_only():
    shallow, deep = last_gradient("pre", 2), last_gradient("pre", 24)
    assert deep < 0.8 * shallow
    assert last_gradient("post", 24) > 0.8 * last_gradient("post", 2)
    assert last_gradient("post", 24) > 2 * deep


def ends(recipe: str) -> list[float]:
    """Loss on unseen digits of each seed, as stored."""
    return [run["test"] for run in results("post_ln")["runs"][recipe]]


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        ("post 12 warm", r"预热之后中位数是 {}（{}–{}）"),
        ("post 12 slow", r"同样的学习率不预热，中位数是 {}（{}–{}）"),
    ],
)
def test_t2_what_the_prose_says_of_post_ln_is_what_five_seeds_gave(recipe: str, sentence: str):
    numbers = [median(ends(recipe)), min(ends(recipe)), max(ends(recipe))]
    for place, number in enumerate(numbers):
        groups = [r"([\d.]+)" if i == place else r"[\d.]+" for i in range(3)]
        assert number == almost(PAGE, sentence.format(*groups))


def test_t2_where_all_seeds_learn_and_where_none_does():
    assert max(ends("post 12 slow warm")) < 0.1
    assert median(ends("post 12 slow warm")) == almost(PAGE, r"五个种子都学会，中位数 ([\d.]+)；同样的学习率")
    assert all(end == almost(PAGE, r"五个种子都停在瞎猜的 ([\d.]+)") for end in ends("post 12"))
    assert max(*ends("pre 12"), *ends("post 2")) < 0.1
    assert sum(end > 1.2 for end in ends("post 12 warm")) == 3  # 多数只学到了按位置猜
    slow = sorted(ends("post 12 slow"))
    assert max(slow[:3]) < 0.6  # 三个还在半路
    assert all(end == almost(PAGE, r"两个只学到按位置猜（([\d.]+)）") for end in slow[3:])
    assert next(digit_batches(0))[0].shape[0] == stated(PAGE, r"宽 32，批次 (\d+)，用 AdamW 训练 400 步")


def test_the_block_turns_the_second_character_towards_the_next_one():
    example = running_example()
    x = example.embedding[example.tokens]
    q, k, v = (x @ w for w in (example.w_q, example.w_k, example.w_v))
    after = x + dot_product_attention(q, k, v, causal_mask(5))[0]
    hidden = (after @ example.w_1).relu()
    y = after + hidden @ example.w_2
    before, between, behind = (each[2] @ example.embedding.T for each in (x, after, y))
    assert between[0].item() == almost(PAGE, r"只加上注意力时，与「一」的点积还是 ([\d.]+)。")
    assert (hidden @ example.w_2)[2, 0].item() == almost(PAGE, r"- 0.29\\times0.4 = ([\d.]+)")
    assert (before.argmax(), behind.argmax()) == (0, 2)  # 一, 枯
    assert before[0].item() == almost(PAGE, r"与「一」的点积最大，是 ([\d.]+)")
    assert before[2].item() == almost(PAGE, r"与「枯」的是 (−[\d.]+)；出块之后")
    assert behind[2].item() == almost(PAGE, r"与「枯」的点积升到 ([\d.]+)")
    assert behind[0].item() == almost(PAGE, r"与「一」的降到 (−[\d.]+)")
    assert (hidden == 0).sum() == stated(PAGE, r"40 个数里有 (\d+) 个被 ReLU")
    assert hidden[2, 1].item() == almost(PAGE, r"\+ 0.42 = ([\d.]+)")


def test_without_residuals_attention_alone_makes_all_tokens_alike():
    def likeness(x: Tensor) -> float:
        unit = F.normalize(x[0], dim=-1)
        return (unit @ unit.T)[~torch.eye(12, dtype=torch.bool)].mean().item()

    attend, alone = MultiHeadAttention(64, 8), nn.LayerNorm(64)(torch.randn(1, 12, 64))
    assert attend(alone, need_weights=True)[1].max() < 0.35  # nearly even, which would be 0.083
    itself = torch.eye(12, dtype=torch.bool)
    with_residual, unmixed = [], []
    for seed in range(5):
        torch.manual_seed(seed)
        kept = lost = alone = torch.randn(1, 12, 64)
        for _ in range(6):
            attend, norm = MultiHeadAttention(64, 8), nn.LayerNorm(64)
            kept, lost = kept + attend(norm(kept))[0], attend(norm(lost))[0]
            alone = attend(norm(alone), mask=itself)[0]
        assert likeness(lost) > stated(PAGE, r"余弦相似度都在 ([\d.]+) 以上")
        with_residual.append(likeness(kept))
        unmixed.append(likeness(alone))
    assert max(with_residual) == almost(PAGE, r"有残差时最大的也只有 ([\d.]+)。")
    assert max(unmixed) == almost(PAGE, r"没有残差但只看自己，最大的是 ([\d.]+)，")


def test_t1_the_counts_that_the_prose_states():
    def count(dim: int) -> int:
        with torch.device("meta"):
            return count_parameters(TransformerBlock(dim, 8))

    small, large = count(64), count(4096)
    assert small == stated(PAGE, r"块的参数从 ([\d,]+) 个增加到")
    assert large == stated(PAGE, r"个增加到 ([\d,]+) 个")
    assert large / small == almost(PAGE, r"个增加到 [\d,]+ 个，是 (\d+) 倍")


def test_t3_the_ffn_acts_token_by_token_and_attention_mixes():
    block, x = TransformerBlock(24, 4), torch.randn(1, 8, 24)
    changed = x.clone()
    changed[0, 3] = torch.randn(24)
    moved = (block.feed_forward(changed) != block.feed_forward(x)).any(-1)[0]
    assert moved.tolist() == [i == 3 for i in range(8)]
    attended = (block.attention(changed)[0] - block.attention(x)[0]).abs().amax(-1)
    assert (attended > 1e-5).all()


def test_t3_attention_is_not_linear_in_its_input_but_is_on_a_single_token():
    attend = MultiHeadAttention(24, 4)
    a, b = torch.randn(2, 1, 8, 24)
    assert not torch.allclose(attend(a + b)[0], attend(a)[0] + attend(b)[0], atol=0.05)
    one, other = a[:, :1], b[:, :1]
    torch.testing.assert_close(attend(one + other)[0], attend(one)[0] + attend(other)[0])
    ffn = FeedForward(24)
    bias_aside = ffn(one + other) + ffn(torch.zeros_like(one)) - ffn(one) - ffn(other)
    assert bias_aside.abs().max() > 0.05


def test_t3_at_zero_weights_a_residual_block_is_the_identity():
    block, x = TransformerBlock(24, 4), torch.randn(2, 7, 24)
    for name, parameter in block.named_parameters():
        if "norm" not in name:
            nn.init.zeros_(parameter)
    assert torch.equal(block(x).output, x)


def test_at_zero_weights_post_ln_gives_the_normed_input_and_norming_twice_changes_little():
    block, x = TransformerBlock(24, 4, norm="post"), torch.randn(2, 7, 24)
    for name, parameter in block.named_parameters():
        if "norm" not in name:
            nn.init.zeros_(parameter)
    norm = nn.LayerNorm(24)
    assert torch.equal(block(x).output, norm(norm(x)))
    torch.testing.assert_close(norm(norm(x)), norm(x), atol=1e-3, rtol=0)


def test_t4_under_a_causal_mask_the_last_two_tokens_are_nothing_to_those_before():
    block, x = TransformerBlock(24, 4), torch.randn(2, 7, 24)
    output = block(x, causal_mask(7)).output
    exchanged = block(x[:, [0, 1, 2, 3, 4, 6, 5]], causal_mask(7)).output
    torch.testing.assert_close(exchanged[:, :5], output[:, :5])
    assert not torch.allclose(exchanged[:, 5], output[:, 6], atol=0.01)


def equivariant(f) -> bool:
    x = torch.randn(2, 10, 24)
    return torch.allclose(f(x[:, ORDER]), f(x)[:, ORDER], atol=1e-5)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_t4_only_positions_or_a_causal_mask_break_permutation_equivariance(norm: Norm):
    stack, positions = Encoder(24, 4, 2, norm=norm), sinusoidal_positions(10, 24)
    assert equivariant(lambda x: stack(x)[0])
    assert not equivariant(lambda x: stack(x + positions)[0])
    assert not equivariant(lambda x: stack(x, causal_mask(10))[0])


def test_t4_under_a_causal_mask_a_marked_first_token_tells_the_position():
    mark = F.one_hot(torch.tensor(0), 8).float()[:, None]
    output, _ = dot_product_attention(torch.zeros(8, 4), torch.zeros(8, 4), mark, causal_mask(8))
    torch.testing.assert_close(1 / output.squeeze(-1), torch.arange(1.0, 9.0))


def test_t4_equal_tokens_under_a_causal_mask_alone_stay_equal():
    stack = Decoder(24, 4, 2, cross_attention=False)
    output = stack(torch.randn(24).expand(1, 8, 24)).output[0]
    torch.testing.assert_close(output, output[:1].expand_as(output))


DIGITS = {"三": 3, "七": 7, "三千八百": 3800}


def test_numbers_of_the_sorting_task_that_the_prose_states():
    assert math.log(6) == almost(PAGE, r"\\ln 6 = ([\d.]+)")
    drawn = torch.cartesian_prod(*[torch.arange(6)] * 6).sort(1).values  # all 6⁶ sequences, sorted
    share = torch.stack([(drawn == digit).float().mean(0) for digit in range(6)])
    guessed_by_place = torch.special.entr(share).sum(0).mean().item()
    assert guessed_by_place == almost(PAGE, r"只凭位置猜.{0,20}损失也能到 ([\d.]+)")


def test_numbers_of_models_that_the_prose_states():
    gnmt, base = (stated(PAGE, rf"用了 ([\d.]+)\\times10\^\{{{power}\}}") for power in (19, 18))
    assert round(10 * gnmt / base) == DIGITS[stated_text(PAGE, "(.)倍的计算量")]
    assert round(8 * 4096 / 3) == stated(PAGE, r"8d/3 \\approx (\d+)")
    assert math.ceil(8 * 4096 / 3 / 256) * 256 == stated(PAGE, r"凑成 256 的倍数，就是它用的 (\d+)")
    total, embedding = stated(PAGE, r"(\d+) 个，也就是通常说的"), 50257 * 768
    assert round(10 * embedding / total) == DIGITS[stated_text(PAGE, r"times768 个，占(.)成")]
    assert embedding // 10**6 == DIGITS[stated_text(PAGE, r"还得再多(.{4})多万个")] // 100
    with torch.device("meta"):
        config = LlamaConfig()  # its defaults are those of LLaMA-7B
    assert config.hidden_size == stated(PAGE, r"LLaMA-7B 的 d = (\d+)")
    assert config.intermediate_size == stated(PAGE, r"就是它用的 (\d+)")


def test_numbers_of_conventions_that_the_prose_states():
    theirs, ours = nn.TransformerEncoderLayer(8, 2), TransformerBlock(8, 2)
    assert theirs.dropout.p == stated(PAGE, r"PyTorch 的块默认 ([\d.]+)，还落在")
    assert theirs.linear1.out_features == stated(PAGE, r"`dim_feedforward` 默认是 (\d+)")
    exponent = stated(PAGE, r"\\varepsilon 是 10\^\{(-\d+)\}，和 PyTorch 一样")
    assert theirs.norm1.eps == ours.attention_norm.eps == pytest.approx(10**exponent)
    assert BertConfig().layer_norm_eps == pytest.approx(10 ** stated(PAGE, r"BERT 用 10\^\{(-\d+)\}"))
    assert not theirs.norm_first
    assert GPT2Config().activation_function == stated_text(PAGE, r"GELU 的 tanh 近似（`(\w+)`）")
