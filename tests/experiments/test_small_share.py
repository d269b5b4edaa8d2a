"""A share that can't change, trained again: the first steps of a run that is stored to its end."""

from statistics import median

import pytest

from experiments.small_share import FACTORS, MARKS, RATES, ceiling, run
from lib.data import results

STORED = results("small_share")
STEPS = 80


@pytest.mark.parametrize("factor", [1, 20])
def test_learned_again_it_is_the_same(factor: int):
    again, stored = run(0, factor, 1e-2, STEPS), STORED["runs"][str(factor)]["0.01"][0]
    count = MARKS.index(STEPS) + 1
    for key in ("accuracy", "without_touch"):
        assert again[key] == pytest.approx(stored[key][:count], abs=0.06)
    assert again["share"] == pytest.approx(4 / 216, abs=1e-6)


def at(factor: int, lr: float, key: str, mark: int = MARKS[-1]) -> list[float]:
    return [
        each[key] if isinstance(each[key], float) else each[key][MARKS.index(mark)]
        for each in STORED["runs"][str(factor)][str(lr)]
    ]


@pytest.mark.parametrize("lr", RATES)
def test_loud_readings_are_learned_sooner_at_every_rate(lr: float):
    early = [median(at(factor, lr, "accuracy", 40)) for factor in FACTORS]
    assert early == sorted(early)
    assert early[0] < 0.4
    assert early[2] > 0.95


@pytest.mark.parametrize("lr", RATES)
def test_without_loudness_touch_decides_as_well_up_to_what_an_even_average_allows(lr: float):
    assert 0.88 < median(at(1, lr, "accuracy")) < STORED["ceilings"]["1"] + 0.02
    assert STORED["ceilings"]["1"] == pytest.approx(ceiling(1), abs=0.01)
    assert median(at(5, lr, "accuracy")) > 0.99
    for factor in FACTORS:
        assert max(at(factor, lr, "without_touch")) < 0.4
        assert at(factor, lr, "share") == pytest.approx([4 / 216] * 5, abs=1e-4)


@pytest.mark.parametrize("lr", RATES)
def test_training_makes_the_values_of_touch_long_and_their_length_is_what_decides(lr: float):
    before, after = zip(*(each["value_ratio"] for each in STORED["runs"]["1"][str(lr)]), strict=True)
    assert median(before) == pytest.approx(1, abs=0.1)
    assert median(after) > 5
    assert 0.08 < median(at(1, lr, "weighted_share")) < 0.1
    assert median(at(1, lr, "shrunk")) < 0.45
