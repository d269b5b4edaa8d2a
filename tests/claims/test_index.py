"""What the entrance says about its small model."""

import pytest
import torch

from lib.attention import causal_mask, masked_softmax
from lib.data import running_example
from tests.claims.prose import almost, stated


def guesses(factor: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and next-character probabilities at the third character, with all scores multiplied by `factor`."""
    model = running_example()
    x = model.embedding[model.tokens]
    weights = masked_softmax(factor * (x @ model.w_q) @ (x @ model.w_k).T / 2, causal_mask(5))
    attended = x + weights @ (x @ model.w_v)
    output = attended + (attended @ model.w_1).relu() @ model.w_2
    return weights[2], (output @ model.unembedding).softmax(-1)[2]


def test_the_third_character_is_told_apart_by_what_stands_before_it():
    words = running_example().words
    even, _ = guesses(0)
    assert even[:3].tolist() == pytest.approx([1 / 3] * 3)
    assert guesses(0)[1][words.index("岁")].item() == almost("index", r"一视同仁的模型有 ([\d.]+) 的把握猜「岁」")
    assert guesses(1)[0][1].item() == almost("index", r"训练好的模型把 ([\d.]+) 的权重给了「岁」")
    assert guesses(1)[1][words.index("枯")].item() == almost("index", r"有 ([\d.]+) 的把握猜「枯」")


def test_its_parameters_are_as_many_as_it_says():
    model = running_example()  # the unembedding is the embedding, turned round
    weights = (model.embedding, model.w_q, model.w_k, model.w_v, model.w_1, model.w_2)
    assert sum(weight.numel() for weight in weights) == stated("index", r"只有 (\d+) 个参数")


def test_scores_four_times_as_large_leave_nearly_all_weight_to_one_character():
    weights, _ = guesses(stated("index", r"「分数放大」从 1 拖到 (\d+)，读到第三个字时"))
    assert weights[1] > 0.99
    assert weights[3:].tolist() == [0, 0]
