"""Four quatrains by heart, learned again by one seed."""

import pytest

from experiments.gpt_by_heart import run
from lib.data import results


def test_trained_again_it_is_the_same():
    again, stored = run(0), results("gpt_by_heart")["runs"][0]
    assert again["right"] == stored["right"] == 96
    assert again["loss"] == pytest.approx(stored["loss"], abs=0.01)
    assert again["early"] == pytest.approx(stored["early"], abs=0.05)
