"""A Transformer beside the recurrent pair, trained again on the seed that its rate was chosen on."""

import pytest

from experiments.seq2seq_transformer import EVERY, MODELS, RATES, STEPS, TUNING_SEED, run
from lib.data import results

STORED = results("seq2seq_transformer")
KEYS = [f"{task} {model}" for task in STEPS for model in MODELS]


def test_trained_again_it_is_the_same():
    rate = STORED["best"]["digits transformer"]
    again = run(TUNING_SEED, "transformer", "digits", rate, STEPS["digits"] // 2)["exact"]
    assert again == pytest.approx(STORED["tuning"]["digits transformer"][RATES.index(rate)], abs=0.1)


@pytest.mark.parametrize("key", KEYS)
def test_the_rate_is_the_best_of_the_same_four_and_each_has_five_seeds(key: str):
    tuning, steps = STORED["tuning"][key], STEPS[key.split()[0]]
    assert [len(each) for each in tuning] == [steps // 2 // EVERY] * len(RATES)
    assert sum(tuning[RATES.index(STORED["best"][key])]) == max(sum(each) for each in tuning)
    assert [len(each["exact"]) for each in STORED["runs"][key]] == [steps // EVERY] * 5


def test_both_are_of_like_size():
    for task in STEPS:
        sizes = [STORED["parameters"][f"{task} {model}"] for model in MODELS]
        assert max(sizes) < 1.15 * min(sizes)
