"""Dates as people write them, Chinese and English, and the one form of ISO 8601 that they all mean."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date

import torch
from torch import Generator, Tensor

from lib.checks import check_at_least, check_tokens
from lib.seq2seq import PairBatch, pair_batch

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
NUMERALS = "〇一二三四五六七八九"


def chinese_number(number: int) -> str:
    """Write a number from 1 to 99 as it is read.

    >>> [chinese_number(number) for number in (7, 10, 12, 20, 31)]
    ['七', '十', '十二', '二十', '三十一']
    """
    if not 1 <= number <= 99:
        raise ValueError(f"number must lie in 1 … 99, got {number}")
    tens, units = divmod(number, 10)
    return (NUMERALS[tens] if tens > 1 else "") + ("十" if tens else "") + (NUMERALS[units] if units else "")


def _ordinal(day: int) -> str:
    suffixes = {1: "st", 2: "nd", 3: "rd"}
    return f"{day}{'th' if 11 <= day <= 13 else suffixes.get(day % 10, 'th')}"


def _chinese_year(year: int) -> str:
    return "".join(NUMERALS[int(digit)] for digit in str(year))


DATE_FORMS: Mapping[str, Callable[[date], str]] = {
    "2024/3/5": lambda d: f"{d.year}/{d.month}/{d.day}",
    "05.03.2024": lambda d: f"{d.day:02}.{d.month:02}.{d.year}",
    "2024年3月5日": lambda d: f"{d.year}年{d.month}月{d.day}日",
    "二〇二四年三月五日": lambda d: f"{_chinese_year(d.year)}年{chinese_number(d.month)}月{chinese_number(d.day)}日",
    "2024年3月5号星期二": lambda d: f"{d.year}年{d.month}月{d.day}号星期{'一二三四五六日'[d.weekday()]}",
    "5 March 2024": lambda d: f"{d.day} {MONTHS[d.month - 1]} {d.year}",
    "March 5, 2024": lambda d: f"{MONTHS[d.month - 1]} {d.day}, {d.year}",
    "Mar 5th, 2024": lambda d: f"{MONTHS[d.month - 1][:3]} {_ordinal(d.day)}, {d.year}",
    "Tue, 5 Mar 2024": lambda d: f"{WEEKDAYS[d.weekday()]}, {d.day} {MONTHS[d.month - 1][:3]} {d.year}",
}
"""How 5 March 2024 is written in each form, and the function that writes a date so."""

# Digits and START first, as in `lib.seq2seq.pairs`.
DATE_ALPHABET = "0123456789▸-/., 〇一二三四五六七八九十年月日号星期" + "".join(
    sorted(set("".join((*MONTHS, *WEEKDAYS, "stndrdth"))))
)
"""All characters that dates are written with; the number of a token is its place here."""


def encode_text(text: str) -> Tensor:
    """Return the tokens (length,) of a written date; ValueError if a character is not in `DATE_ALPHABET`.

    >>> encode_text("5日").tolist()
    [5, 29]
    """
    if unknown := sorted(set(text) - set(DATE_ALPHABET)):
        raise ValueError(f"text must be written in DATE_ALPHABET, got {text!r} with {unknown}")
    return torch.tensor([DATE_ALPHABET.index(character) for character in text], dtype=torch.long)


def decode_text(tokens: Tensor) -> str:
    """Return the characters of tokens (length,).

    >>> decode_text(torch.tensor([5, 29]))
    '5日'
    """
    if tokens.numel():
        check_tokens("tokens", tokens[None], len(DATE_ALPHABET))
    return "".join(DATE_ALPHABET[token] for token in tokens.tolist())


def date_batch(days: Sequence[date], forms: Sequence[str]) -> PairBatch:
    """Write each day in the form beside it; the target is its ISO 8601 form, ten characters.

    Args:
        days: years with four digits.
        forms: names in `DATE_FORMS`, one a day.

    Raises:
        ValueError: days and forms differ in number, there are none, a year has fewer digits, or a form is unknown.

    >>> batch = date_batch([date(2024, 3, 5)], ["5 March 2024"])
    >>> decode_text(batch.source[0]), decode_text(batch.target[0])
    ('5 March 2024', '2024-03-05')
    """
    if len(days) != len(forms):
        raise ValueError(f"each day needs one form, got {len(days)} days and {len(forms)} forms")
    _check_forms(forms)
    if early := [day for day in days if day.year < 1000]:
        raise ValueError(f"days must be of the years 1000 … 9999, got {early[0].isoformat()}")
    sources = [encode_text(DATE_FORMS[form](day)) for day, form in zip(days, forms, strict=True)]
    return pair_batch(sources, [encode_text(day.isoformat()) for day in days])


def dates(
    batch_size: int,
    *,
    generator: Generator,
    forms: Collection[str] = tuple(DATE_FORMS),
    years: tuple[int, int] = (1950, 2049),
) -> Iterator[PairBatch]:
    """Draw dates in many written forms without end; the target is the ISO 8601 form.

    Args:
        batch_size: pairs a batch.
        generator: source of the random draws.
        forms: names in `DATE_FORMS` to draw from, evenly.
        years: first and last year; each of their days is as likely.

    Raises:
        ValueError: `batch_size` is below 1, a form is unknown or there is none, or the years are not
            1000 ≤ first ≤ last ≤ 9999.

    >>> batch = next(dates(2, generator=torch.Generator().manual_seed(1)))
    >>> [decode_text(tokens) for tokens in batch.target]
    ['2003-03-04', '2025-10-23']
    """
    check_at_least(1, batch_size=batch_size)
    if not 1000 <= years[0] <= years[1] <= 9999:
        raise ValueError(f"years must be (first, last) with 1000 ≤ first ≤ last ≤ 9999, got {years}")
    if not forms:
        raise ValueError("forms must name at least one form, got none")
    _check_forms(forms)
    return _dates(batch_size, generator, list(forms), date(years[0], 1, 1), date(years[1], 12, 31))


def _dates(batch_size: int, generator: Generator, forms: list[str], first: date, last: date) -> Iterator[PairBatch]:
    while True:
        days = torch.randint(first.toordinal(), last.toordinal() + 1, (batch_size,), generator=generator)
        kinds = torch.randint(len(forms), (batch_size,), generator=generator)
        yield date_batch([date.fromordinal(day) for day in days.tolist()], [forms[kind] for kind in kinds.tolist()])


def _check_forms(forms: Collection[str]) -> None:
    if unknown := sorted(set(forms) - set(DATE_FORMS)):
        raise ValueError(f"forms must be among {list(DATE_FORMS)}, got {unknown}")
