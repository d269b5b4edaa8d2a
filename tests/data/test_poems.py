"""The corpora of verse: complete, regular, and in characters that the book's font has."""

import re
from collections import Counter

import pytest
from matplotlib.ft2font import FT2Font

from lib.data import Poem, poems, poems_by_heart
from lib.plots import FONT

each_language = pytest.mark.parametrize("language", ["zh", "en"])
CHINESE = pytest.mark.parametrize("poem", poems("zh"), ids=lambda poem: f"{poem.title}, {poem.author}")


def test_the_quatrains_are_those_of_the_book():
    assert "".join(poem.text for poem in poems_by_heart("zh")) == (
        "床前明月光，疑是地上霜。举头望明月，低头思故乡。春眠不觉晓，处处闻啼鸟。夜来风雨声，花落知多少。"
        "白日依山尽，黄河入海流。欲穷千里目，更上一层楼。红豆生南国，春来发几枝。愿君多采撷，此物最相思。"
    )


@each_language
def test_what_is_learned_by_heart_stands_first_and_begins_differently(language: str):
    four = poems_by_heart(language)
    assert four == poems(language)[:4]
    assert len({poem.text[0] for poem in four}) == 4
    assert all(len(re.split(r"[，。]\n?|\n", poem.text.rstrip("。"))) == 4 for poem in four)


def test_sizes():
    assert len(poems("zh")) == 167
    assert len(poems("en")) == 56


@each_language
def test_no_poem_comes_twice(language: str):
    collected = poems(language)
    assert len({(poem.title, poem.author) for poem in collected}) == len(collected)
    assert len({poem.text for poem in collected}) == len(collected)


@CHINESE
def test_chinese_lines_are_couplets_of_five_or_seven_characters(poem: Poem):
    parts = [re.fullmatch(r"(\w+)[，？](\w+)[。？]", line) for line in poem.lines]
    lengths = {len(half) for part in parts if part for half in part.groups()}
    assert all(parts)
    assert lengths in ({5}, {7})
    assert len(parts) in (2, 4)
    assert poem.text == "".join(poem.lines)


def test_no_chinese_half_line_comes_twice():
    halves = Counter(half for poem in poems("zh") for half in re.split("[，。？]", poem.text) if half)
    assert [half for half, times in halves.items() if times > 1] == []


def test_english_lines_are_plain():
    for poem in poems("en"):
        assert poem.text == "\n".join(poem.lines)
        assert all(line == line.strip() for line in poem.lines)
        assert "\n\n\n" not in poem.text
        assert re.fullmatch(r"[A-Za-z ,.;:!?'\"\n—-]+", poem.text)


@each_language
def test_the_books_font_has_every_character(language: str):
    known = FT2Font(FONT).get_charmap()
    text = "".join(poem.title + poem.author + poem.text for poem in poems(language))
    assert [character for character in sorted(set(text)) if ord(character) not in known and character != "\n"] == []


def test_another_language_is_named():
    with pytest.raises(ValueError, match='language must be "zh" or "en", got \'fr\''):
        poems("fr")
    with pytest.raises(ValueError, match='language must be "zh" or "en", got \'fr\''):
        poems_by_heart("fr")
