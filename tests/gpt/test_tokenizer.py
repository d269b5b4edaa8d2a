"""Tokenizers: lossless on any text; merges as a naive loop and as Hugging Face's trainer learn them."""

import copy
import json
import pickle
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
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
TRAINED = pytest.mark.parametrize("learned_on", [ENGLISH, CHINESE, ENGLISH + CHINESE, "ab" * 9])
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


def naive_encoding(tokenizer: BPETokenizer, text: str) -> list[int]:
    """Of the pairs in a piece the one learned first, joined everywhere from the left, until none is known."""
    numbers = {pair: number for number, pair in enumerate(tokenizer.merges, 256)}
    tokens: list[int] = []
    for piece in pre_tokenize(text):
        part = list(piece.encode("utf-8", "surrogatepass"))
        while known := [pair for pair in pairwise(part) if pair in numbers]:
            pair = min(known, key=numbers.__getitem__)
            part = joined(part, pair, numbers[pair])
        tokens += part
    return tokens


def hugging_face_encoding(tokenizer: BPETokenizer, text: str) -> list[int]:
    """The same merges, each byte as the character of its number; our pieces."""
    names = [token.decode("latin-1") for token in tokenizer.vocabulary]
    merges = [(names[left], names[right]) for left, right in tokenizer.merges]
    model = Tokenizer(BPE(vocab={name: number for number, name in enumerate(names)}, merges=merges))
    pieces = [piece.encode().decode("latin-1") for piece in pre_tokenize(text)]
    return model.encode(pieces, is_pretokenized=True).ids


ANY = st.text(st.characters(exclude_categories=()))  # lone surrogates too
WITHOUT_SURROGATES = st.text(st.one_of(st.sampled_from("the of山月间 \n'1🙂\x00"), st.characters()), max_size=60)
BIG = BPETokenizer.train(ENGLISH + CHINESE, 420)
CHARACTERS = CharTokenizer(ENGLISH + CHINESE)
IDS = [3, 0, 7, 11, 3]


class TestBoth:
    """What holds for either tokenizer."""

    @pytest.fixture(autouse=True)
    def one_module(self, monkeypatch: pytest.MonkeyPatch):
        """For its examples pytest imports the module a second time, with other classes than those we imported."""
        ours = SimpleNamespace(BPETokenizer=BPETokenizer, CharTokenizer=CharTokenizer)
        monkeypatch.setitem(sys.modules, BPETokenizer.__module__, ours)

    either = pytest.mark.parametrize("tokenizer", [CHARACTERS, BIG, BPETokenizer()], ids=["characters", "BPE", "bytes"])

    @either
    @pytest.mark.parametrize(
        "copied",
        [copy.copy, copy.deepcopy, *(lambda t, p=p: pickle.loads(pickle.dumps(t, p)) for p in (0, 2, 5))],
        ids=["copy", "deepcopy", "pickle 0", "pickle 2", "pickle 5"],
    )
    @pytest.mark.parametrize("used", [False, True])
    def test_a_copy_encodes_and_decodes_as_the_first(self, tokenizer, copied, used: bool):
        text = CHINESE[:9] + ENGLISH
        if used:
            tokenizer.encode(text)
        other = copied(tokenizer)
        assert other is not tokenizer
        assert other.encode(text) == tokenizer.encode(text)
        assert other.decode(IDS) == tokenizer.decode(IDS)
        assert other.vocab_size == tokenizer.vocab_size

    def test_they_work_in_other_processes(self):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            for tokenizer in (CHARACTERS, BIG):
                texts = [ENGLISH[:40], CHINESE[:9]]
                assert list(pool.map(tokenizer.encode, texts)) == [tokenizer.encode(text) for text in texts]
                assert pool.submit(tokenizer.decode, IDS).result() == tokenizer.decode(IDS)

    @either
    @pytest.mark.parametrize(
        "ids",
        [
            tuple(IDS),
            iter(IDS),
            np.array(IDS),
            list(np.array(IDS)),
            *(torch.tensor(IDS, dtype=d) for d in (torch.uint8, torch.int32, torch.int64)),
            list(torch.tensor(IDS)),
        ],
        ids=["tuple", "iterator", "array", "array elements", "uint8", "int32", "int64", "tensor elements"],
    )
    def test_ids_may_be_integers_of_any_kind(self, tokenizer, ids):
        given = copy.copy(ids)
        assert tokenizer.decode(given) == tokenizer.decode(IDS)

    @either
    @pytest.mark.parametrize(
        "ids",
        [
            [True],
            [1.0],
            ["1"],
            [None],
            [[1]],
            np.array([1.0]),
            np.array([True]),
            torch.tensor([1.0]),
            torch.tensor([True]),
            torch.tensor([[1, 2]]),
            [torch.tensor(True)],
        ],
        ids=repr,
    )
    def test_what_is_no_integer_is_named(self, tokenizer, ids):
        with pytest.raises(ValueError, match="ids must be integers, got"):
            tokenizer.decode(ids)

    @either
    @pytest.mark.parametrize("wrap", [list, np.array, torch.tensor])
    def test_an_id_outside_the_vocabulary_is_named(self, tokenizer, wrap):
        for bad in (-1, tokenizer.vocab_size, 10**9):
            with pytest.raises(ValueError, match=rf"ids must lie in 0 … {tokenizer.vocab_size - 1}, got {bad}$"):
                tokenizer.decode(wrap([0, bad]))

    @either
    def test_nothing_is_nothing(self, tokenizer):
        assert tokenizer.encode("") == []
        assert tokenizer.decode([]) == tokenizer.decode(torch.tensor([], dtype=torch.long)) == ""


class TestCharacters:
    @given(ANY.filter(bool), st.data())
    def test_any_text_of_the_vocabulary_comes_back(self, text: str, data: st.DataObject):
        tokenizer = CharTokenizer(text)
        other = data.draw(st.text(st.sampled_from(text)))
        for each in (text, other):
            assert tokenizer.decode(tokenizer.encode(each)) == each
        assert tokenizer.decode(range(tokenizer.vocab_size)) == "".join(sorted(set(text)))

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

    @given(ANY)
    def test_any_text_comes_back(self, text: str):
        for tokenizer in (BIG, BPETokenizer()):
            tokens = tokenizer.encode(text)
            assert tokenizer.decode(tokens) == text
            assert b"".join(tokenizer.vocabulary[i] for i in tokens) == text.encode("utf-8", "surrogatepass")

    @given(st.text(st.sampled_from("aab 月\n"), max_size=40), ANY)
    def test_a_tokenizer_learned_on_any_text_loses_nothing(self, seen: str, unseen: str):
        tokenizer = BPETokenizer.train(seen, 280)
        for text in (seen, unseen, seen + unseen):
            assert tokenizer.decode(tokenizer.encode(text)) == text

    @pytest.mark.parametrize("text", [ENGLISH, CHINESE, *ODD])
    def test_encoding_is_that_of_the_naive_loop(self, text: str):
        assert BIG.encode(text) == naive_encoding(BIG, text)

    @given(ANY, st.text(st.sampled_from("ab"), max_size=60))
    def test_encoding_any_text_is_that_of_the_naive_loop(self, any_text: str, letters: str):
        two = BPETokenizer.train("aaaaabaabbbab" * 3, 275)
        for text in (any_text, letters, any_text + letters):
            assert two.encode(text) == naive_encoding(two, text)
            assert BIG.encode(text) == naive_encoding(BIG, text)

    @pytest.mark.parametrize("text", [ENGLISH, CHINESE, *(text for text in ODD if "half" not in text)])
    @TRAINED
    def test_encoding_is_that_of_hugging_face(self, learned_on: str, text: str):
        tokenizer = BPETokenizer.train(learned_on, 400)
        assert tokenizer.encode(text) == hugging_face_encoding(tokenizer, text)

    @given(WITHOUT_SURROGATES)
    def test_encoding_any_text_is_that_of_hugging_face(self, text: str):
        assert BIG.encode(text) == hugging_face_encoding(BIG, text)

    @given(WITHOUT_SURROGATES)
    def test_merges_of_any_text_are_those_of_hugging_face(self, text: str):
        text = 3 * text.replace("\u2028", "")
        assert BPETokenizer.train(text, 300).merges == hugging_face_merges(text, 44)

    def test_a_long_piece_takes_close_to_linear_time(self):
        letters = "".join(Random(0).choices("abcdefghijklmnopqrstuvwxyz", k=80_000))

        def seconds(text: str) -> float:
            return min(timed(text) for _ in range(3))

        def timed(text: str) -> float:
            start = time.process_time()
            BIG.encode(text)
            return time.process_time() - start

        assert len(pre_tokenize(letters)) == 1
        assert seconds(letters) < 40 * seconds(letters[:8_000])  # quadratic: 100 times

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
