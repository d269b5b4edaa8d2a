"""What chapter 2.1.2.1 claims: G6 byte pairs, G8 numbers in bins."""

import math
from collections import Counter
from inspect import signature
from itertools import pairwise
from typing import Any

import nbformat
import pytest
import torch
from torch import Generator
from transformers import GPT2Config

import lib.gpt
from lib.data import poems
from lib.gpt import BPETokenizer, from_bins, pre_tokenize, to_bins
from tests.claims.prose import PAGES, almost, stated, stated_text

PAGE = "gpt_tokenizer"
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
    assert len("月".encode()) == {"三": 3}[stated_text(PAGE, r"一个常用汉字(.)个字节，若没有合成")]
    assert BPETokenizer().vocab_size == stated(PAGE, r"GPT-2 让它从 (\d+) 个字节出发")
    counts = [len(BPETokenizer.train(WORDS, size).encode(WORDS)) for size in (256, 264)]
    assert counts[0] == stated(PAGE, r"起初是 (\d+) 个字节，合并 8 次")
    assert counts[1] == stated(PAGE, r"合并 8 次之后剩 (\d+) 个 token")
    size = GPT2Config().vocab_size
    assert size == stated(PAGE, r"GPT-2 是 (\d+)（256 个字节")
    assert size == 256 + stated(PAGE, r"256 个字节、(\d+) 次合并、1 个文末符") + 1


def one_by_one(text: str, merges: list[tuple[int, int]]) -> list[int]:
    """Redo every merge in the order in which it was learned, as the chapter does."""
    tokens: list[int] = []
    for piece in pre_tokenize(text):
        word = list(piece.encode())
        for number, pair in enumerate(merges, 256):
            place = 0
            while place < len(word) - 1:
                if (word[place], word[place + 1]) == pair:
                    word[place : place + 2] = [number]
                place += 1
        tokens += word
    return tokens


@pytest.mark.parametrize("text", ["lowest newer", WORDS, QUATRAINS, "登鹳雀楼", "aaaa  aa"])
def test_g6_to_redo_the_merges_in_order_is_to_encode(text: str):
    for learned_on in (WORDS, QUATRAINS, "aaabdaaabac" * 3):
        tokenizer = BPETokenizer.train(learned_on, 290)
        assert one_by_one(text, tokenizer.merges) == tokenizer.encode(text)


def test_g6_the_first_pair_is_the_most_frequent_and_of_equals_that_of_smaller_numbers():
    pairs = Counter(pair for word in WORDS.split() for pair in pairwise(word))
    assert pairs["e", "s"] == pairs["s", "t"] == stated(PAGE, r"「e s」和「s t」各 (\d) 次")
    assert pairs["w", "e"] == stated(PAGE, r"「w e」(\d) 次。平手")
    assert pairs.most_common()[2][1] < pairs["e", "s"]
    assert BPETokenizer.train(WORDS, 257).merges == [(ord("e"), ord("s"))]


@pytest.fixture(scope="module")
def halves() -> dict[str, tuple[str, str]]:
    """The half that merges are learned on, and the other."""
    zh, en = ([poem.text for poem in poems(language)] for language in ("zh", "en"))
    return {"zh": ("".join(zh[::2]), "".join(zh[1::2])), "en": ("\n".join(en[::2]), "\n".join(en[1::2]))}


def test_g6_who_learned_on_one_language_writes_the_other_in_bytes(halves: dict[str, tuple[str, str]]):
    chinese, english = (BPETokenizer.train(halves[language][0], 950) for language in ("zh", "en"))

    def tokens_a_character(tokenizer: BPETokenizer, text: str) -> float:
        return len(tokenizer.encode(text)) / len(text)

    assert len(english.encode(halves["zh"][1])) == len(halves["zh"][1].encode())  # not one merge is of use
    assert tokens_a_character(english, halves["zh"][1]) == almost(PAGE, r"写唐诗，每个字 ([\d.]+) 个 token，与不合并")
    assert tokens_a_character(chinese, halves["zh"][1]) == almost(PAGE, r"从唐诗学的只要 ([\d.]+) 个")
    assert tokens_a_character(chinese, halves["zh"][0]) == almost(PAGE, r"学过的一半降得更多（([\d.]+) 个）")
    assert tokens_a_character(english, halves["en"][1]) == almost(PAGE, r"英文诗从 1.00 降到 ([\d.]+)，")
    assert tokens_a_character(chinese, halves["en"][1]) == pytest.approx(1, abs=0.005)
    assert english.vocab_size == stated(PAGE, r"学到 (\d+) 个时，已经没有哪一对出现两次")
    assert english.vocab_size - 256 == stated(PAGE, r"多出来的 (\d+) 个 token 都是英文的片段")


def test_g6_how_two_verses_are_cut(halves: dict[str, tuple[str, str]]):
    tokenizer = BPETokenizer.train(halves["zh"][0], 950)
    moon = [tokenizer.vocabulary[token] for token in tokenizer.encode("床前明月光")]
    assert len(moon) == stated(PAGE, r"「床前明月光」剩下 (\d) 个 token")
    assert moon[2:] == [part.encode() for part in ("前", "明月", "光")]
    withering = [tokenizer.vocabulary[token] for token in tokenizer.encode("一岁一枯荣")]
    assert len(withering) == stated(PAGE, r"从 15 个字节变成 (\d) 个 token")
    assert withering[:4] == [character.encode() for character in "一岁一枯"]
    assert "荣" not in halves["zh"][0]
    assert "荣".encode()[:2] == "草".encode()[:2] == tokenizer.vocabulary[tokenizer.encode("荣")[0]]
    said = stated_text(PAGE, r"床、前、明、月、光各出现 ([\d、]+) 次").split("、")
    assert [halves["zh"][0].count(character) for character in "床前明月光"] == [int(number) for number in said]
    assert halves["zh"][0].count("明月") == stated(PAGE, r"「明月」连着出现 (\d) 次")
    assert halves["zh"][0].count("床前") == halves["zh"][0].count("月光") == 1


@pytest.mark.parametrize(("name", "size"), [("甲", 300), ("乙", 950)])
def test_exercise_2_a_loss_a_byte(halves: dict[str, tuple[str, str]], name: str, size: int):
    text = halves["zh"][1]
    share = len(BPETokenizer.train(halves["zh"][0], size).encode(text)) / len(text.encode())
    loss = stated(PAGE, rf"{name}用词表 {size} 的(?:分词器)?，每个 token 的损失是 ([\d.]+)")
    said = r"所以是 ([\d.]+)；乙" if name == "甲" else r"0.44 个 token，是 ([\d.]+)。乙更准"
    assert loss * share == almost(PAGE, said)


def test_g8_half_a_bin_in_degrees():
    angles = torch.linspace(-1, 1, 2001, dtype=torch.double)
    worst = (from_bins(to_bins(angles, -1, 1), torch.tensor(-1.0, dtype=torch.double), 1) - angles).abs().max()
    assert worst.rad2deg().item() == almost(PAGE, r"最差的一个差 ([\d.]+) 度")


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


def test_g8_percentiles_help_the_many_and_cost_the_few():
    torch.manual_seed(0)
    readings = torch.cat([0.1 * torch.randn(999), torch.tensor([25.0])])
    wide = (readings.min(), readings.max())
    low, high = readings.quantile(torch.tensor([0.01, 0.99]))
    whole, narrow = ((from_bins(to_bins(readings, *e), *e) - readings).abs() for e in (wide, (low, high)))
    assert narrow[-1].item() == almost(PAGE, r"最多的差 ([\d.]+)（就是离群点）")
    assert narrow[:-1].max().item() == almost(PAGE, r"其余的差到 ([\d.]+)，")
    assert whole.max().item() == almost(PAGE, r"原来至多差 ([\d.]+)。")
    assert narrow.mean().item() == almost(PAGE, r"平均误差 ([\d.]+) 并不比")
    assert whole.mean().item() == almost(PAGE, r"并不比 ([\d.]+) 小")


def test_g6_what_stands_together_becomes_a_token_word_or_not(halves: dict[str, tuple[str, str]]):
    vocabulary = BPETokenizer.train(halves["zh"][0], 950).vocabulary[256:]
    pairs = [text for token in vocabulary if len(text := token.decode(errors="ignore")) == 2]
    assert len(pairs) == stated(PAGE, r"(\d+) 个里有词（万里、春风、明月）")
    assert {"万里", "春风", "明月", "山不", "人不"} <= set(pairs)


def test_exercise_5_each_seed_is_less_than_half_as_far_off_as_to_say_nothing():
    assert stated_text(PAGE, r"(五)个种子（权重和训练数据都换）") == "五"
    assert stated_text(PAGE, r"每一个的误差都不到总是答 0 的(一半)") == "一半"
    notebook = nbformat.read(PAGES / f"{PAGE}.ipynb", as_version=4)
    (cell,) = (cell.source for cell in notebook.cells if "def swings" in cell.source)
    space: dict[str, Any] = {"math": math, "torch": torch} | vars(lib.gpt)
    exec(cell, space)  # the page's own lines
    error_of, true = space["error_of"], space["true"]
    assert len(true) == stated(PAGE, r"考同样的 (\d+) 条轨迹")
    assert len(space["errors"]) == 5
    assert max(space["errors"]) < error_of(torch.zeros_like(true)) / 2
    assert error_of(torch.zeros_like(true)) < error_of(space["still"])
