"""Tokenizers: text to numbers and back, by characters or by byte pairs."""

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Self

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


def _checked(ids: Iterable[Any], vocab_size: int) -> Iterator[int]:
    for i in ids:
        number = i.tolist() if hasattr(i, "tolist") else i  # one of a tensor or an array
        if isinstance(number, bool) or not isinstance(number, int):
            raise ValueError(f"ids must be integers, got {i!r}")
        if not 0 <= number < vocab_size:
            raise ValueError(f"ids must lie in 0 … {vocab_size - 1}, got {number}")
        yield number


class CharTokenizer:
    """Number the characters that occur in a text, in the order of their code points.

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
        """Return the text of token numbers. Raises ValueError at one that is no integer of the vocabulary."""
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
        self.merges = [(left, right) for left, right in merges]
        self.vocabulary = [bytes([byte]) for byte in range(256)]
        self._numbers: dict[Pair, int] = {}
        for left, right in self.merges:
            number = len(self.vocabulary)
            if (left, right) in self._numbers or not (0 <= left < number and 0 <= right < number):
                raise ValueError(f"merges must join two earlier tokens, each pair once, got {(left, right)}")
            self._numbers[left, right] = number
            self.vocabulary.append(self.vocabulary[left] + self.vocabulary[right])

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
        pieces = pre_tokenize(text)
        tokens = {piece: self._merge_piece(piece) for piece in set(pieces)}
        return [token for piece in pieces for token in tokens[piece]]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of token numbers; bytes that make no character (a cut one) become U+FFFD.

        Raises ValueError at one that is no integer of the vocabulary.
        """
        data = b"".join(self.vocabulary[i] for i in _checked(ids, self.vocab_size))
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return data.decode("utf-8", "replace")

    def _merge_piece(self, piece: str) -> list[int]:
        """Join the pair learned first, of equals the leftmost, until no pair is a merge.

        A heap says which is next. A pair that a join makes was learned later, so none comes up too late.
        """
        chain = _Chain(_bytes(piece))
        heap = [(self._numbers[pair], place) for place, pair in chain.pairs() if pair in self._numbers]
        heapq.heapify(heap)
        while heap:
            number, place = heapq.heappop(heap)
            if self._numbers.get(chain.pair(place)) != number:
                continue  # joined with another neighbour since
            for new in chain.join(place, number):
                if (pair := chain.pair(new)) in self._numbers:
                    heapq.heappush(heap, (self._numbers[pair], new))
        return [token for token in chain.tokens if token != _END]


class _Chain:
    """Tokens as a linked list, so that joining two takes the same time however many there are.

    It is a ring closed by an end, which is no part of a merge: a place at either end needs no special case.
    """

    def __init__(self, tokens: Iterable[int]) -> None:
        self.tokens = [_END, *tokens]
        self.next = [*range(1, len(self.tokens)), 0]
        self.previous = [len(self.tokens) - 1, *range(len(self.tokens) - 1)]

    def pair(self, place: int) -> Pair:
        return self.tokens[place], self.tokens[self.next[place]]

    def pairs(self) -> Iterator[tuple[int, Pair]]:
        return enumerate(pairwise(self.tokens))

    def join(self, place: int, number: int) -> tuple[int, int]:
        """Replace the pair at a place by one token, and return the two places where a new pair stands."""
        other = self.next[place]
        self.tokens[place], self.tokens[other] = number, _END
        self.next[place] = self.next[other]
        self.previous[self.next[place]] = place
        return self.previous[place], place


def _learn_merges(pieces: Counter[str], count: int) -> Iterator[Pair]:
    """Yield the most frequent pair, join it everywhere, and so on.

    The heap holds each pair once, with a frequency that may have sunk since: it is looked up when it comes up.
    """
    counts = _PairCounts(pieces)
    heap = [(-frequency, pair) for pair, frequency in counts.frequency.items()]
    heapq.heapify(heap)
    number = 256
    while heap and number < 256 + count:
        noted, pair = heapq.heappop(heap)
        frequency = counts.frequency[pair]
        if frequency < 2:
            continue
        if frequency < -noted:
            heapq.heappush(heap, (-frequency, pair))
            continue
        yield pair
        for new in counts.join(pair, number):
            heapq.heappush(heap, (-counts.frequency[new], new))
        number += 1


class _PairCounts:
    """All different pieces end to end, with how often each pair occurs and where.

    A merge touches only the places where its pair stands, so all merges together take about as many steps as
    there are bytes. Places are never crossed out: whoever comes looks whether the pair is still there.
    """

    def __init__(self, pieces: Counter[str]) -> None:
        parts = [[*_bytes(piece), _END] for piece in pieces]
        self.chain = _Chain(token for part in parts for token in part)
        self.weight = [0, *(weight for part, weight in zip(parts, pieces.values(), strict=True) for _ in part)]
        self.frequency: Counter[Pair] = Counter()
        self.places: defaultdict[Pair, list[int]] = defaultdict(list)
        for place, pair in self.chain.pairs():
            self._note(place, pair)

    def join(self, pair: Pair, number: int) -> set[Pair]:
        """Replace a pair by a token everywhere, from the left, and return the pairs this makes."""
        made: set[Pair] = set()
        for place in self.places.pop(pair):
            if self.chain.pair(place) != pair:
                continue  # joined with another neighbour since
            for changed in (self.chain.previous[place], place, self.chain.next[place]):
                self.frequency[self.chain.pair(changed)] -= self.weight[changed]
            for new in self.chain.join(place, number):
                made.update(self._note(new, self.chain.pair(new)))
        return made

    def _note(self, place: int, pair: Pair) -> tuple[Pair, ...]:
        if _END in pair:
            return ()
        self.frequency[pair] += self.weight[place]
        self.places[pair].append(place)
        return (pair,)
