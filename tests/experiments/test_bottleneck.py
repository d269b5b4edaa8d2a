"""One vector against attention over steps, width and length, trained again for a few steps."""

from statistics import median

import pytest

from experiments.bottleneck import EACH, KINDS, LENGTHS, MARKS, RATE, RATES, TUNING_STEPS, run
from lib.data import results

STORED = results("bottleneck")["runs"]


def middle(kind: str, step: int, length: int) -> float:
    return median(each[MARKS.index(step)][length - 1] for each in STORED[kind])


def test_trained_again_it_is_the_same():
    (again,) = run(0, "vector 64", steps=MARKS[0])
    assert again == pytest.approx(STORED["vector 64"][0][0], abs=4 / EACH)


def test_every_kind_has_five_seeds_all_marks_and_lengths():
    assert list(STORED) == list(KINDS)
    for kind, (_, _, steps) in KINDS.items():
        marks = [step for step in MARKS if step <= steps]
        assert [[len(found) for found in each] for each in STORED[kind]] == [[len(LENGTHS)] * len(marks)] * 5


def test_after_as_many_steps_attention_is_ahead_and_the_wider_vector_before_the_narrower():
    for length in (8, 10):
        at_500 = [middle(kind, 500, length) for kind in ("attention 64", "vector 128", "vector 64")]
        assert at_500 == sorted(at_500, reverse=True)


def test_one_vector_is_still_learning_where_its_training_ends():
    for each in STORED["vector 64"]:
        assert each[MARKS.index(1500)][7] > each[MARKS.index(500)][7] + 0.1


def test_the_models_with_one_vector_were_tried_at_other_rates():
    assert RATE in RATES
    marks = [step for step in MARKS if step <= TUNING_STEPS]
    tuning = results("bottleneck")["tuning"]
    assert list(tuning) == [kind for kind, (attention, _, _) in KINDS.items() if not attention]
    for each in tuning.values():
        assert [[len(found) for found in at_rate] for at_rate in each] == [[len(LENGTHS)] * len(marks)] * len(RATES)
