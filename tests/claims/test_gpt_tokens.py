"""What chapter 2.1.2 claims about tokens: G6 byte pairs, G8 numbers in bins."""

from collections import Counter
from inspect import signature
from itertools import pairwise

import pytest
import torch
from torch import Generator
from transformers import GPT2Config

from lib.gpt import BPETokenizer, from_bins, to_bins
from tests.claims.prose import stated, stated_text

PAGE = "gpt"
QUATRAINS = (
    "床前明月光，疑是地上霜。举头望明月，低头思故乡。春眠不觉晓，处处闻啼鸟。夜来风雨声，花落知多少。"
    "白日依山尽，黄河入海流。欲穷千里目，更上一层楼。红豆生南国，春来发几枝。愿君多采撷，此物最相思。"
)
WORDS = " ".join(["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3)


def naive_merges(text: str, count: int) -> list[tuple[int, int]]:
    """Count pairs within words anew for each merge, as algorithm 1 of Sennrich et al. 2016 does."""
    words = [list(word.encode()) for word in text.replace(" ", "| ").split("|")]
    merges: list[tuple[int, int]] = []
    for number in range(256, 256 + count):
        pairs = Counter(pair for word in words for pair in pairwise(word))
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        for word in words:
            place = 0
            while place < len(word) - 1:
                if (word[place], word[place + 1]) == best:
                    word[place : place + 2] = [number]
                place += 1
    return merges


def test_g6_merges_are_those_of_counting_anew():
    assert BPETokenizer.train(WORDS, 268).merges == naive_merges(WORDS, 12)


@pytest.mark.parametrize("text", [WORDS, QUATRAINS, "登鹳雀楼", "x² ≠ 2x 🙂", "\n\t \u200b", ""])
def test_g6_the_round_trip_loses_nothing_also_for_text_never_seen(text: str):
    for learned_on in (WORDS, QUATRAINS):
        tokenizer = BPETokenizer.train(learned_on, 300)
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("text", [WORDS, QUATRAINS], ids=["English", "Chinese"])
def test_g6_tokens_become_fewer_with_each_merge(text: str):
    counts = [len(BPETokenizer.train(text, size).encode(text)) for size in range(256, 270)]
    assert counts[0] == len(text.encode())
    assert all(later < earlier for earlier, later in pairwise(counts))


def test_g6_a_new_word_is_made_of_parts_that_were_learned():
    tokenizer = BPETokenizer.train(WORDS, 264)
    assert [tokenizer.vocabulary[token] for token in tokenizer.encode("lowest")] == [b"low", b"est"]
    assert len(tokenizer.encode("登鹳雀楼")) == 12  # three bytes a character


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.0, 0.3), (-5.0, 40.0)])
def test_g8_the_error_of_256_bins_is_at_most_half_a_bin(low: float, high: float):
    values = low + (high - low) * torch.rand(10_000, generator=Generator().manual_seed(0), dtype=torch.double)
    tokens = to_bins(values, low, high)
    assert tokens.min() >= 0
    assert tokens.max() <= 255
    error = (from_bins(tokens, torch.tensor(low), torch.tensor(high)) - values).abs()
    half = (high - low) / 512
    assert error.max() <= half * (1 + 1e-4)
    assert error.max() > 0.98 * half  # and the bound is reached


def test_g6_the_numbers_that_the_chapter_names():
    assert len("床前明月光".encode()) == stated(PAGE, r"「床前明月光」五个字，一开始是 (\d+) 个字节")
    assert len("月".encode()) == {"三": 3}[stated_text(PAGE, r"一个汉字(.)个字节，若没有合成")]
    assert BPETokenizer().vocab_size == stated(PAGE, r"GPT-2 让它从 (\d+) 个字节出发")
    size = GPT2Config().vocab_size
    assert size == stated(PAGE, r"GPT-2 是 (\d+)（256 个字节")
    assert size == 256 + stated(PAGE, r"256 个字节、(\d+) 次合并、1 个文末符") + 1


def test_g8_the_numbers_that_the_chapter_names():
    bins = int(stated(PAGE, r"把取值范围切成 (\d+) 格"))
    assert signature(to_bins).parameters["bins"].default == signature(from_bins).parameters["bins"].default == bins
    assert to_bins(torch.linspace(-1, 1, 9999), -1, 1).unique().numel() == bins
    edges = torch.linspace(-1, 1, int(stated(PAGE, r"OpenVLA 的代码取 (\d+) 条边界")))
    assert len((edges[:-1] + edges[1:]) / 2) == stated(PAGE, r"所以是 (\d+) 个中点")


def test_g8_twice_the_bins_half_the_error():
    values = torch.linspace(-1, 1, 20_001, dtype=torch.double)
    errors = [(from_bins(to_bins(values, -1, 1, n), -1.0, 1.0, n) - values).abs().max() for n in (64, 128, 256)]
    assert [a / b for a, b in pairwise(errors)] == pytest.approx([2, 2], rel=0.01)
