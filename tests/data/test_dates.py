"""Dates: each written form is what it is called after, and means one day."""

import calendar
from datetime import date, timedelta

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator

from lib.data import DATE_ALPHABET, DATE_FORMS, date_batch, dates, decode_text, encode_text
from lib.data.dates import chinese_number
from lib.seq2seq import START

DAYS = [date(1950, 1, 1) + timedelta(days=97 * step) for step in range(376)]  # to 2049, every month and weekday


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


@pytest.mark.parametrize("form", DATE_FORMS)
def test_a_form_is_called_after_what_it_writes(form: str):
    assert DATE_FORMS[form](date(2024, 3, 5)) == form


@pytest.mark.parametrize("form", DATE_FORMS)
def test_a_form_writes_different_days_differently_and_within_the_alphabet(form: str):
    written = {DATE_FORMS[form](day) for day in DAYS}
    assert len(written) == len(DAYS)
    assert set("".join(written)) <= set(DATE_ALPHABET)


def test_no_text_means_two_days():
    meaning: dict[str, date] = {}
    for day in DAYS:
        for write in DATE_FORMS.values():
            assert meaning.setdefault(write(day), day) == day


@pytest.mark.parametrize(
    ("day", "form", "text"),
    [
        (date(2021, 12, 31), "二〇二四年三月五日", "二〇二一年十二月三十一日"),
        (date(1987, 10, 20), "2024年3月5号星期二", "1987年10月20号星期二"),
        (date(2000, 9, 22), "Mar 5th, 2024", "Sep 22nd, 2000"),
        (date(1999, 11, 11), "Mar 5th, 2024", "Nov 11th, 1999"),
        (date(2021, 7, 13), "Mar 5th, 2024", "Jul 13th, 2021"),
        (date(2030, 5, 3), "Mar 5th, 2024", "May 3rd, 2030"),
        (date(1976, 8, 1), "Tue, 5 Mar 2024", "Sun, 1 Aug 1976"),
        (date(2008, 2, 29), "05.03.2024", "29.02.2008"),
    ],
)
def test_forms_are_written_as_people_do(day: date, form: str, text: str):
    assert DATE_FORMS[form](day) == text


def test_names_are_those_of_the_calendar():
    for day in DAYS:
        assert DATE_FORMS["Tue, 5 Mar 2024"](day).startswith(calendar.day_abbr[day.weekday()])
        assert calendar.month_name[day.month] in DATE_FORMS["March 5, 2024"](day)


def test_chinese_numbers_differ_and_are_read_as_usual():
    assert len({chinese_number(number) for number in range(1, 100)}) == 99
    assert [chinese_number(n) for n in (1, 10, 11, 20, 21, 30)] == ["一", "十", "十一", "二十", "二十一", "三十"]


def test_the_alphabet_begins_with_digits_and_start_and_repeats_nothing():
    assert [DATE_ALPHABET.index(str(digit)) for digit in range(10)] == list(range(10))
    assert DATE_ALPHABET[START] not in "".join(DATE_FORMS)
    assert len(set(DATE_ALPHABET)) == len(DATE_ALPHABET)


@given(st.text(DATE_ALPHABET))
def test_text_survives_the_way_to_tokens_and_back(text: str):
    tokens = encode_text(text)
    assert tokens.shape == (len(text),)
    assert tokens.dtype == torch.int64
    assert decode_text(tokens) == text


@given(st.dates(date(1000, 1, 1)), st.sampled_from(list(DATE_FORMS)))
def test_a_day_of_any_year_is_written_and_read_back(day: date, form: str):
    batch = date_batch([day], [form])
    assert decode_text(batch.source[0]) == DATE_FORMS[form](day)
    assert date.fromisoformat(decode_text(batch.target[0])) == day


@pytest.mark.parametrize("tokens", [[-100], [-1], [len(DATE_ALPHABET)], [[1, 2]], 3, [1.0]])
def test_tokens_that_stand_for_no_text_are_named(tokens: list | int):
    with pytest.raises(ValueError, match="tokens must"):
        decode_text(torch.tensor(tokens))


@pytest.mark.parametrize("number", [0, -3, 100])
def test_numbers_that_are_not_written_are_named(number: int):
    with pytest.raises(ValueError, match=f"number must lie in 1 … 99, got {number}"):
        chinese_number(number)


def test_years_before_1000_are_named():
    with pytest.raises(ValueError, match="days must be of the years 1000 … 9999, got 0999-12-31"):
        date_batch([date(2024, 3, 5), date(999, 12, 31)], ["2024/3/5"] * 2)


def test_batches_hold_what_is_written_and_what_it_means():
    batch = next(dates(40, generator=seeded()))
    assert batch.target.shape == (40, 10)
    for source, length, target in zip(batch.source, batch.source_lengths.tolist(), batch.target, strict=True):
        day = date.fromisoformat(decode_text(target))
        assert 1950 <= day.year <= 2049
        assert decode_text(source[:length]) in {write(day) for write in DATE_FORMS.values()}
        assert (source[length:] == START).all()


def test_forms_and_years_can_be_chosen():
    batch = next(dates(60, generator=seeded(), forms=["March 5, 2024"], years=(2024, 2024)))
    days = {date.fromisoformat(decode_text(target)) for target in batch.target}
    assert {day.year for day in days} == {2024}
    assert len({day.month for day in days}) > 8
    assert all(" " in decode_text(source) for source in batch.source)


def test_days_are_drawn_evenly_from_the_first_year_to_the_last():
    batch = next(dates(2000, generator=seeded(), years=(1999, 2001)))
    days = [date.fromisoformat(decode_text(target)) for target in batch.target]
    shares = [sum(day.year == year for day in days) / 2000 for year in (1999, 2000, 2001)]
    assert shares == pytest.approx([1 / 3] * 3, abs=0.04)
    assert len({(day.year, day.month) for day in days}) == 36


def test_the_seed_decides():
    one, same, other = (next(dates(5, generator=seeded(seed))) for seed in (1, 1, 2))
    assert torch.equal(one.source, same.source)
    assert not torch.equal(one.target, other.target)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"forms": []}, "forms must name at least one form, got none"),
        ({"forms": ["3/5/24"]}, r"forms must be among .* got \['3/5/24'\]"),
        ({"years": (2000, 1999)}, r"1000 ≤ first ≤ last ≤ 9999, got \(2000, 1999\)"),
        ({"years": (999, 2000)}, "1000 ≤ first"),
    ],
)
def test_bad_settings_are_refused_at_the_call(options: dict, message: str):
    with pytest.raises(ValueError, match=message):
        dates(**({"batch_size": 2, "generator": seeded()} | options))


def test_texts_outside_the_alphabet_and_uneven_batches_are_refused():
    with pytest.raises(ValueError, match="got '5 März'"):
        encode_text("5 März")
    with pytest.raises(ValueError, match="1 days and 2 forms"):
        date_batch([date(2024, 3, 5)], ["2024/3/5", "2024/3/5"])
