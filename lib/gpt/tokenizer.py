"""Tokenizers: text to numbers and back, by characters or by byte pairs."""

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Self

__all__ = ["BPETokenizer", "CharTokenizer", "Pair", "pre_tokenize"]

Pair = tuple[int, int]

_PIECE = re.compile(r"'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")


def pre_tokenize(text: str) -> list[str]:
    """Cut text into words, numbers and runs of signs, each with the space before it, which no merge will cross.

    The pieces joined are the text. A run of Chinese characters is one piece.

    Source: Radford et al. 2019, in the published code, with Python's character classes for Unicode's.

    >>> pre_tokenize("It's 3 o'clock,  山中无历日。")
    ['It', "'s", ' 3', ' o', "'", 'clock', ',', ' ', ' 山中无历日', '。']
    """
    return _PIECE.findall(text)


def _bytes(piece: str) -> bytes:
    return piece.encode("utf-8", "surrogatepass")  # half of a surrogate pair is no text, but passes too


_END = -1  # stands between pieces, and where a token was joined to the one before


def _checked(ids: Iterable[int], vocab_size: int) -> Iterator[int]:
    for i in ids:
        if not 0 <= i < vocab_size:
            raise ValueError(f"ids must lie in 0 … {vocab_size - 1}, got {i}")
        yield i


class CharTokenizer:
    """Give each character that occurs in a text a number, in the order of their code points.

    Args:
        text: its characters make the vocabulary.

    Raises:
        ValueError: `text` is empty.

    >>> tokenizer = CharTokenizer("花非花，雾非雾")
    >>> tokenizer.encode("雾非花"), tokenizer.decode([1, 2, 0])
    ([1, 2, 0], '雾非花')
    """

    def __init__(self, text: str) -> None:
        if not text:
            raise ValueError("text must hold at least one character, got ''")
        self.characters = sorted(set(text))
        self._numbers = {character: number for number, character in enumerate(self.characters)}

    @property
    def vocab_size(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> list[int]:
        """Return the number of each character. Raises ValueError at one that is not in the vocabulary."""
        try:
            return [self._numbers[character] for character in text]
        except KeyError as error:
            raise ValueError(f"text must hold characters of the vocabulary, got {error.args[0]!r}") from None

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of token numbers. Raises ValueError at one outside the vocabulary."""
        return "".join(self.characters[i] for i in _checked(ids, self.vocab_size))


class BPETokenizer:
    """Cut text into frequent byte sequences, learned by joining the most frequent pair again and again.

    Tokens 0 … 255 are the bytes, so any text has an encoding; token 256 + n is the n-th merge. Text is first cut
    into words, numbers and runs of signs, as in GPT-2, and no token reaches across a cut.

    Args:
        merges: pairs of tokens, in the order in which they were learned.

    Raises:
        ValueError: a merge joins tokens that are not there yet, or one that is there already.

    Source: Sennrich, Haddow & Birch 2016, algorithm 1; on bytes: Radford et al. 2019, §2.2.

    >>> tokenizer = BPETokenizer.train("low lower lowest slow slower", vocab_size=260)
    >>> [tokenizer.vocabulary[i] for i in tokenizer.encode("lowest ")]
    [b'lowe', b's', b't', b' ']
    """

    def __init__(self, merges: Iterable[Pair] = ()) -> None:
        self.merges = list(merges)
        self.vocabulary = [bytes([byte]) for byte in range(256)]
        self._numbers: dict[Pair, int] = {}
        for left, right in self.merges:
            number = len(self.vocabulary)
            if (left, right) in self._numbers or not (0 <= left < number and 0 <= right < number):
                raise ValueError(f"merges must join two earlier tokens, each pair once, got {(left, right)}")
            self._numbers[left, right] = number
            self.vocabulary.append(self.vocabulary[left] + self.vocabulary[right])
        self._encode_piece = lru_cache(1 << 16)(self._merge_piece)

    @classmethod
    def train(cls, text: str, vocab_size: int) -> Self:
        """Learn merges on a text until there are `vocab_size` tokens, or no pair occurs twice.

        Of equally frequent pairs the one with the smaller numbers is joined first, as in Hugging Face's
        `BpeTrainer`. Raises ValueError where `vocab_size` is below 256, the number of bytes.
        """
        if vocab_size < 256:
            raise ValueError(f"vocab_size must be at least 256, the number of bytes, got {vocab_size}")
        return cls(_learn_merges(Counter(pre_tokenize(text)), vocab_size - 256))

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        """Return token numbers, in each piece joined in the order in which merges were learned."""
        return [token for piece in pre_tokenize(text) for token in self._encode_piece(piece)]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of token numbers; bytes that make no character (a cut one) become U+FFFD.

        Raises ValueError at a number outside the vocabulary.
        """
        data = b"".join(self.vocabulary[i] for i in _checked(ids, self.vocab_size))
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return data.decode("utf-8", "replace")

    def _merge_piece(self, piece: str) -> tuple[int, ...]:
        tokens = list(_bytes(piece))
        while len(tokens) > 1:
            earliest = min(pairwise(tokens), key=lambda pair: self._numbers.get(pair, 1 << 60))
            if earliest not in self._numbers:
                break
            tokens = _join(tokens, earliest, self._numbers[earliest])
        return tuple(tokens)


def _join(tokens: list[int], pair: Pair, number: int) -> list[int]:
    """Replace each occurrence of a pair, from the left."""
    joined: list[int] = []
    for token in tokens:
        if joined and (joined[-1], token) == pair:
            joined[-1] = number
        else:
            joined.append(token)
    return joined


def _learn_merges(pieces: Counter[str], count: int) -> Iterator[Pair]:
    """Yield the most frequent pair, join it everywhere, and so on.

    The heap holds each pair once, with a frequency that may have sunk since: it is looked up when it comes up.
    """
    chain = _Chain(pieces)
    heap = [(-frequency, pair) for pair, frequency in chain.frequency.items()]
    heapq.heapify(heap)
    number = 256
    while heap and number < 256 + count:
        noted, pair = heapq.heappop(heap)
        frequency = chain.frequency[pair]
        if frequency < 2:
            continue
        if frequency < -noted:
            heapq.heappush(heap, (-frequency, pair))
            continue
        yield pair
        for new in chain.join(pair, number):
            heapq.heappush(heap, (-chain.frequency[new], new))
        number += 1


class _Chain:
    """All different pieces end to end as a linked list of tokens, with how often each pair occurs and where.

    A merge touches only the places where its pair stands, so all merges together take about as many steps as
    there are bytes. Places are never crossed out: whoever comes looks whether the pair is still there.
    """

    def __init__(self, pieces: Counter[str]) -> None:
        self.token, self.weight = [_END], [0]
        for piece, weight in pieces.items():
            self.token += [*_bytes(piece), _END]
            self.weight += [weight] * (len(_bytes(piece)) + 1)
        self.next = list(range(1, len(self.token) + 1))
        self.previous = list(range(-1, len(self.token) - 1))
        self.frequency: Counter[Pair] = Counter()
        self.places: defaultdict[Pair, list[int]] = defaultdict(list)
        for place in range(len(self.token) - 1):
            self._note(place)

    def join(self, pair: Pair, number: int) -> set[Pair]:
        """Replace a pair by a token everywhere, from the left, and return the pairs this makes."""
        left, right = pair
        made: set[Pair] = set()
        for place in self.places.pop(pair):
            other = self.next[place]
            if self.token[place] != left or self.token[other] != right:
                continue  # joined with another neighbour since
            before = self.previous[place]
            for changed in (before, place, other):
                self.frequency[self._pair(changed)] -= self.weight[changed]
            self.token[place], self.token[other] = number, _END
            self.next[place] = after = self.next[other]
            self.previous[after] = place
            made.update(self._note(before), self._note(place))
        return made

    def _note(self, place: int) -> tuple[Pair, ...]:
        pair = self._pair(place)
        if _END in pair:
            return ()
        self.frequency[pair] += self.weight[place]
        self.places[pair].append(place)
        return (pair,)

    def _pair(self, place: int) -> Pair:
        return self.token[place], self.token[self.next[place]]
