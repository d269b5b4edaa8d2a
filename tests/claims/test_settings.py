"""How experiments were run is what the pages say of it: steps, images, rates, sizes."""

import re

import pytest

from experiments import (
    alignment,
    bottleneck,
    gpt_by_heart,
    greedy_repeats,
    in_context,
    isoflop,
    mae_features,
    mae_reconstruction,
    post_ln,
    seq2seq_errors,
    seq2seq_transformer,
    sft_knowledge,
    transformer_lengths,
    transformer_numbers,
    vit_digits,
    vit_positions,
)
from tests.claims.prose import stated, stated_text


@pytest.mark.parametrize(
    ("page", "sentence", "value"),
    [
        ("transformer", r"用 AdamW 训练 (\d+) 步", post_ln.STEPS),
        ("transformer", r"训练时长度是 (\d+)，测试时长到", transformer_lengths.LENGTH),
        ("transformer", r"测试时长到 (\d+)，训练", transformer_lengths.LONGEST),
        ("transformer", r"测试时长到 \d+，训练 (\d+) 步", transformer_lengths.STEPS),
        ("transformer", r"和步数（(\d+)）与上面相同", transformer_numbers.STEPS),
        ("gpt", r"一批 25 个，四步一轮，(\d+) 步是 35 轮", gpt_by_heart.STEPS),
        ("gpt", r"训练五个种子，各训练 (\d+) 步和", greedy_repeats.STEPS[0]),
        ("gpt", r"训练五个种子，各训练 \d+ 步和 (\d+) 步", greedy_repeats.STEPS[1]),
        ("gpt", r"每 (\d+) 个字重来一遍，正好是整份课文的长度", len(greedy_repeats.BOOK)),
        ("gpt_scaling", r"词表 (\d+) 个词", isoflop.VOCABULARY),
        ("gpt_scaling", r"一共 (\d+) 问", len(isoflop.QUESTIONS)),
        ("gpt_scaling", r"宽度从 (\d+) 到", min(map(min, isoflop.WIDTHS.values()))),
        ("gpt_scaling", r"宽度从 \d+ 到 (\d+)", max(map(max, isoflop.WIDTHS.values()))),
        ("gpt_alignment", r"文本是一串「键 值 键 值 ……」：(\d+) 个字母是键", in_context.KEYS),
        ("gpt_alignment", r"每条文本只用到 (\d+) 个字母", in_context.KEYS // 2),
        ("gpt_alignment", r"两层，RoPE，各 (\d+) 步", in_context.STEPS),
        ("gpt_alignment", r"现在训练 (\d+) 步", sft_knowledge.TUNING),
        ("vit", r"先猜。\*\* 训练 (\d+) 步，每步 16 张图", vit_positions.SHORT[0]),
        ("vit", r"把训练加到 (\d+) 步", vit_positions.LONG[0]),
        ("vit", r"三种边长各训练五个种子，都是 (\d+) 步", vit_digits.STEPS),
        ("vit", r"1197 张，都训练 (\d+) 步", vit_digits.STEPS),
        ("vit", r"都训练 \d+ 步、每步 (\d+) 张", vit_digits.IMAGES),
        ("vit", r"学习率没有调过；训练 (\d+) 步", mae_reconstruction.STEPS),
        ("vit", r"MAE 在 1197 张图上训练 (\d+) 步", mae_features.STEPS),
        ("seq2seq", r"用同样的数据各训练 (\d+) 步", seq2seq_errors.STEPS),
        ("seq2seq", r"宽 64 的训练到 (\d+) 步", bottleneck.KINDS["vector 64"][2]),
        ("seq2seq", r"宽 64 的训练到 \d+ 步，别的到 (\d+) 步", bottleneck.KINDS["vector 128"][2]),
        ("seq2seq", r"每个长度只测 (\d+) 句", bottleneck.EACH),
        ("seq2seq", r"在倒写上各训练 (\d+) 步", seq2seq_transformer.STEPS["digits"]),
        ("seq2seq", r"在日期上各训练 (\d+) 步", seq2seq_transformer.STEPS["dates"]),
        ("seq2seq", r"取途中每 (\d+) 步测一次", seq2seq_transformer.EVERY),
    ],
)
def test_a_training_was_as_long_and_as_large_as_its_page_says(page: str, sentence: str, value: float):
    assert stated(page, sentence) == value


@pytest.mark.parametrize(
    ("sentence", "rates"),
    [
        (r"四个学习率（([\d.、]+)），在验证图上", vit_digits.RATES),
        (r"对两种模型试同样的四个：([\d.、]+)，", vit_digits.RATES),
    ],
)
def test_the_rates_that_were_tried_are_those_of_the_page(sentence: str, rates: tuple[float, ...]):
    assert [float(rate) for rate in stated_text("vit", sentence).split("、")] == list(rates)


@pytest.mark.parametrize(
    ("page", "sentence", "rates"),
    [
        ("gpt_scaling", "学习率从同样的四个里挑", isoflop.RATES),
        ("gpt_alignment", "学习率从 0.001 到 0.3 的同一组十一个里", alignment.RATES),
        ("seq2seq", "学习率从同样的四个值里各挑一个", seq2seq_transformer.RATES),
    ],
)
def test_as_many_rates_were_tried_as_the_page_says(page: str, sentence: str, rates: tuple[float, ...]):
    number = re.search("四|十一", stated_text(page, f"({sentence})"))
    assert number is not None
    assert len(rates) == {"四": 4, "十一": 11}[number[0]]
