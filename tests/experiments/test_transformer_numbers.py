"""Numbers read aloud, trained again with few of them."""

import pytest
import torch

from experiments.transformer_numbers import run
from experiments.transformer_numbers_model import digit_places, pairs, reading
from lib.data import results

STORED = results("transformer_numbers")["runs"]


def test_readings():
    assert [reading(n) for n in (1000, 3005, 3050, 3456)] == ["一千", "三千零五", "三千零五十", "三千四百五十六"]
    source, target = pairs()
    assert len({tuple(row) for row in target.tolist()}) == len(source) == 9000
    assert digit_places(source[2050:2051], target[2050:2051]).tolist() == [[0, -1, -1, 2, -1, -1, -1, -1]]
    assert torch.equal(target[2050, 5:], torch.full((3,), 13))


def test_trained_again_it_is_the_same():
    again, stored = run(0, 300), STORED["300"][0]
    assert again["exact"][-1] == pytest.approx(stored["exact"][-1], abs=0.03)
    assert again["loss"][:5] == pytest.approx(stored["loss"][:5], abs=0.1)


def test_each_count_has_five_seeds_and_the_memory_decides_what_is_written():
    assert {count: len(runs) for count, runs in STORED.items()} == {"100": 5, "300": 5, "1000": 5, "8000": 5}
    for each in STORED["8000"]:
        assert each["exact"][-1] > 0.99
        assert each["swapped_own"] == 0
        assert each["swapped_other"] == each["exact"][-1]
