"""What greedy repeats, measured again for one seed."""

import pytest

from experiments.greedy_repeats import SEEDS, STEPS, run
from lib.data import results

STORED = results("greedy_repeats")["runs"]


def test_trained_again_it_is_the_same():
    again, stored = run(0, 60), STORED["60"][0]
    assert again["loss"] == pytest.approx(stored["loss"], abs=0.05)
    assert again["greedy"] == pytest.approx(stored["greedy"], abs=0.2)


def test_both_lengths_of_training_have_five_seeds():
    assert {steps: len(runs) for steps, runs in STORED.items()} == {str(steps): len(SEEDS) for steps in STEPS}


def test_every_seed_repeats_itself_greedily_and_not_when_sampled():
    for each in STORED["60"]:
        assert each["greedy"] > 0.5 > each["one drawn"] > 0.1
        assert max(each["0.5"], each["0.75"], each["1"], each["top-p 0.9"]) < 0.02
