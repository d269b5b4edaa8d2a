"""Numbers read aloud: what is stored, and the first steps again."""

import pytest
import torch

from experiments.training import first_losses, tens
from experiments.transformer_numbers import one_row, prepare
from experiments.transformer_numbers_model import Speller, digit_places, pairs, reading
from lib.data import results

STORED = results("transformer_numbers")["runs"]


def test_readings():
    assert [reading(n) for n in (1000, 3005, 3050, 3456)] == ["一千", "三千零五", "三千零五十", "三千四百五十六"]
    source, target = pairs()
    assert len({tuple(row) for row in target.tolist()}) == len(source) == 9000
    assert digit_places(source[2050:2051], target[2050:2051]).tolist() == [[0, -1, -1, 2, -1, -1, -1, -1]]
    assert torch.equal(target[2050, 5:], torch.full((3,), 13))


def test_trained_again_it_begins_the_same():
    model, options, _, _ = prepare(0, 8000)
    assert tens(first_losses(model, count=20, **options)) == pytest.approx(STORED["8000"][0]["loss"][:2], abs=0.02)


def test_a_model_that_has_learned_nothing_fails_where_one_row_of_the_memory_is_exchanged():
    torch.manual_seed(0)
    assert one_row(Speller(), pairs()[0][2345:2365])["both"] < 0.1


def test_each_count_has_five_seeds_and_a_row_of_the_memory_decides_its_digit_alone():
    assert {count: len(runs) for count, runs in STORED.items()} == {"100": 5, "300": 5, "1000": 5, "8000": 5}
    for each in STORED["8000"]:
        assert each["exact"][-1] > 0.99
        assert min(each["one_row"].values()) > 0.99
