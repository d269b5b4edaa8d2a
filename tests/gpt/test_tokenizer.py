"""Tokenizers: lossless on any text; merges as a naive loop and as Hugging Face's trainer learn them."""

import json
from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Split
from tokenizers.trainers import BpeTrainer

from lib.gpt import BPETokenizer, CharTokenizer, pre_tokenize
from lib.gpt.tokenizer import Pair

ENGLISH = """Tyger Tyger, burning bright, in the forests of the night; what immortal hand or eye,
could frame thy fearful symmetry? In what distant deeps or skies burnt the fire of thine eyes?
On what wings dare he aspire? What the hand, dare seize the fire? aaaa aaaaa banana bananas 1794 1795"""
CHINESE = "空山不见人，但闻人语响。人闲桂花落，夜静春山空。山中相送罢，日暮掩柴扉。明月松间照，清泉石上流。" * 2
TEXTS = pytest.mark.parametrize("text", [ENGLISH, CHINESE, ENGLISH + CHINESE, "a" * 23 + " " + "ab" * 9, "xyz", ""])
ODD = [
    "",
    " ",
    "\n\n \t x",
    "it's  a_b",
    "naïve café ²½",
    "👩‍👩‍👧 𝔘𝔫𝔦",
    "\x00\x7f\ufeff",
    "\ud800 half \udfff",
    "a" * 301,
]


def joined(tokens: list[int], pair: Pair, number: int) -> list[int]:
    out, i = [], 0
    while i < len(tokens):
        found = tuple(tokens[i : i + 2]) == pair
        out.append(number if found else tokens[i])
        i += 2 if found else 1
    return out


def naive_merges(text: str, count: int) -> list[Pair]:
    """All pairs counted anew for each merge, over every piece of the text."""
    pieces, merges = [list(piece.encode()) for piece in pre_tokenize(text)], []
    for number in range(256, 256 + count):
        frequency = Counter(pair for piece in pieces for pair in pairwise(piece))
        pair = min(frequency, key=lambda pair: (-frequency[pair], pair), default=None)
        if pair is None or frequency[pair] < 2:
            break
        pieces = [joined(piece, pair, number) for piece in pieces]
        merges.append(pair)
    return merges


def hugging_face_merges(text: str, count: int) -> list[Pair]:
    """Our pieces, parted by a sign; each byte as the character of its number, so that equals rank alike."""
    model = Tokenizer(BPE())
    model.pre_tokenizer = Split("\u2028", "removed")  # pyright: ignore[reportAttributeAccessIssue]
    alphabet = [chr(byte) for byte in range(256)]
    trainer = BpeTrainer(vocab_size=256 + count, min_frequency=2, initial_alphabet=alphabet, show_progress=False)
    pieces = "\u2028".join(piece.encode().decode("latin-1") for piece in pre_tokenize(text))
    model.train_from_iterator([pieces], trainer)
    numbers = model.get_vocab()
    return [(numbers[left], numbers[right]) for left, right in json.loads(model.to_str())["model"]["merges"]]


class TestCharacters:
    def test_numbers_follow_the_code_points(self):
        tokenizer = CharTokenizer("banana")
        assert tokenizer.characters == ["a", "b", "n"]
        assert tokenizer.vocab_size == 3
        assert tokenizer.encode("nab") == [2, 0, 1]

    def test_what_goes_in_comes_out(self):
        assert CharTokenizer(CHINESE).decode(CharTokenizer(CHINESE).encode(CHINESE)) == CHINESE

    def test_an_unknown_character_is_named(self):
        with pytest.raises(ValueError, match="text must hold characters of the vocabulary, got '月'"):
            CharTokenizer("花").encode("花月")

    @pytest.mark.parametrize("number", [-1, 3])
    def test_an_unknown_number_is_named(self, number: int):
        with pytest.raises(ValueError, match=f"ids must lie in 0 … 2, got {number}"):
            CharTokenizer("abc").decode([0, number])

    def test_a_vocabulary_needs_a_character(self):
        with pytest.raises(ValueError, match="text must hold at least one character"):
            CharTokenizer("")


class TestCuts:
    @pytest.mark.parametrize("text", [ENGLISH, CHINESE, *ODD])
    def test_the_pieces_joined_are_the_text(self, text: str):
        assert "".join(pre_tokenize(text)) == text

    @pytest.mark.parametrize("text", [ENGLISH, CHINESE, "They're 12 o'clocks;  so\n\n what? -- a1b2 x=y  "])
    def test_cuts_are_those_of_gpt2(self, text: str):
        cuts = ByteLevel(add_prefix_space=False).pre_tokenize_str(text)
        assert pre_tokenize(text) == [text[start:end] for _, (start, end) in cuts]


class TestBytePairs:
    @TEXTS
    def test_merges_are_those_of_the_naive_loop(self, text: str):
        assert BPETokenizer.train(text, 400).merges == naive_merges(text, 144)

    @TEXTS
    def test_merges_are_those_of_hugging_face(self, text: str):
        assert BPETokenizer.train(text, 400).merges == hugging_face_merges(text, 144)

    def test_merges_of_any_text_are_those_of_the_naive_loop(self):
        draw = Random(0)
        for _ in range(50):
            text = "".join(draw.choices("aab ", k=60))
            assert BPETokenizer.train(text, 290).merges == naive_merges(text, 34)

    @TEXTS
    def test_encoding_the_text_of_training_repeats_its_merges(self, text: str):
        tokenizer = BPETokenizer.train(text, 320)
        pieces = [list(piece.encode()) for piece in pre_tokenize(text)]
        for number, pair in enumerate(tokenizer.merges, 256):
            pieces = [joined(piece, pair, number) for piece in pieces]
        assert tokenizer.encode(text) == [token for piece in pieces for token in piece]

    @pytest.mark.parametrize("text", [ENGLISH, CHINESE, *ODD])
    @pytest.mark.parametrize("learned_on", [ENGLISH, CHINESE, ""])
    def test_what_goes_in_comes_out(self, text: str, learned_on: str):
        tokenizer = BPETokenizer.train(learned_on, 300)
        assert tokenizer.decode(tokenizer.encode(text)) == text

    def test_any_character_survives(self):
        draw, tokenizer = Random(0), BPETokenizer.train(ENGLISH + CHINESE, 400)
        for size in range(200):
            text = "".join(chr(draw.randrange(0x110000)) for _ in range(size % 20))
            assert tokenizer.decode(tokenizer.encode(text)) == text

    def test_the_number_of_tokens_falls_with_the_vocabulary(self):
        counts = [len(BPETokenizer.train(ENGLISH, size).encode(ENGLISH)) for size in (256, 265, 280, 305)]
        assert counts[0] == len(ENGLISH.encode())
        assert all(more > fewer for more, fewer in pairwise(counts))

    def test_it_stops_where_no_pair_occurs_twice(self):
        tokenizer = BPETokenizer.train("abab abc", 1000)
        assert [tokenizer.vocabulary[i] for i in range(256, tokenizer.vocab_size)] == [b"ab"]

    def test_no_token_crosses_a_cut(self):
        tokens = BPETokenizer.train("to be, to be, to be, " * 9, 1000).vocabulary
        assert max(tokens, key=len) == b" be"

    def test_it_can_be_made_again_from_its_merges(self):
        tokenizer = BPETokenizer.train(ENGLISH, 300)
        assert BPETokenizer(tokenizer.merges).encode(CHINESE + ENGLISH) == tokenizer.encode(CHINESE + ENGLISH)

    def test_a_cut_character_is_shown_as_missing(self):
        assert BPETokenizer().decode("月".encode()[:2]) == "\ufffd"

    def test_the_vocabulary_holds_all_bytes(self):
        with pytest.raises(ValueError, match="vocab_size must be at least 256, the number of bytes, got 255"):
            BPETokenizer.train("text", 255)

    @pytest.mark.parametrize("merges", [[(97, 256)], [(-1, 97)], [(97, 98), (97, 98)]])
    def test_impossible_merges_are_refused(self, merges: list[Pair]):
        with pytest.raises(ValueError, match="merges must join two earlier tokens, each pair once"):
            BPETokenizer(merges)

    def test_an_unknown_number_is_named(self):
        with pytest.raises(ValueError, match="ids must lie in 0 … 255, got 256"):
            BPETokenizer().decode([256])
