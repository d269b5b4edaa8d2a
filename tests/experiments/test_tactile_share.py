"""The share of touch, learned again: the first steps of a run that is stored to its end."""

from statistics import median

import pytest

from experiments.tactile_share import MARKS, run
from lib.data import results

STORED = results("tactile_share")
RUNS = STORED["runs"]
STEPS = 48


def last(wiring: str, touches: int, key: str) -> list[float]:
    return [each[key] if isinstance(each[key], float) else each[key][-1] for each in RUNS[wiring][str(touches)]]


@pytest.mark.parametrize("wiring", ["cross", "joint"])
def test_learned_again_it_is_the_same(wiring: str):
    again, stored = run(0, 64, wiring, STEPS), RUNS[wiring]["64"][0]
    count = MARKS.index(STEPS) + 1
    for key in ("share", "accuracy"):
        assert again[key] == pytest.approx(stored[key][:count], abs=0.05)
    assert again["accuracy"][0] < 0.45
    assert again["accuracy"][-1] > 0.95


def test_at_the_start_the_share_is_what_the_number_of_tokens_says():
    for touches in (1, 4, 16, 64):
        for wiring, all_tokens in (("cross", 196 + touches), ("joint", 212 + touches)):
            start = median(each["share"][0] for each in RUNS[wiring][str(touches)])
            assert start == pytest.approx(touches / all_tokens, rel=0.3)


@pytest.mark.parametrize("wiring", ["cross", "joint"])
def test_the_share_grows_and_touch_decides(wiring: str):
    for touches in (4, 16, 64):
        assert min(last(wiring, touches, "share")) > 0.5
        assert min(last(wiring, touches, "accuracy")) > 0.99
        assert max(last(wiring, touches, "without_touch")) < 0.4
        assert min(last(wiring, touches, "without_vision")) > 0.99


@pytest.mark.parametrize("wiring", ["cross", "joint"])
def test_a_single_token_is_learned_by_most_seeds_and_gets_a_share_far_from_all(wiring: str):
    accuracy = last(wiring, 1, "accuracy")
    assert sorted(accuracy)[1] > 0.99
    assert min(accuracy) < 0.9  # one of the five hasn't learned it after 320 steps
    assert median(last(wiring, 1, "share")) < 0.5


@pytest.mark.parametrize("wiring", ["cross", "joint"])
def test_the_fewer_tokens_the_later(wiring: str):
    def learned(run: dict) -> int:
        return next((m for m, a in zip(MARKS, run["accuracy"], strict=True) if a > 0.9), 1000)

    times = [median(learned(each) for each in RUNS[wiring][str(touches)]) for touches in (64, 16, 4, 1)]
    assert times == sorted(set(times))


def test_seeds_and_marks_are_those_of_the_runs():
    assert len(STORED["seeds"]) >= 5
    for by_count in RUNS.values():
        for runs in by_count.values():
            assert len(runs) == len(STORED["seeds"])
            assert all(len(each["share"]) == len(each["accuracy"]) == len(STORED["marks"]) for each in runs)
