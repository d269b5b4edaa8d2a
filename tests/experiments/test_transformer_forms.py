"""The three forms on the same sentences, trained again where that is cheap."""

import pytest

from experiments.transformer_forms import follows_memory, hits, train
from lib.data import results

STORED = results("transformer_forms")


def test_trained_again_it_is_the_same():
    model = train(0, "both")
    assert hits(model, "both") == pytest.approx(STORED["hits"]["both"][0], abs=0.03)
    assert follows_memory(model) == pytest.approx(STORED["follows_memory"][0], abs=0.03)


def test_every_form_has_five_seeds():
    assert {form: len(runs) for form, runs in STORED["hits"].items()} == {"decoder": 5, "encoder": 5, "both": 5}


def test_each_form_knows_what_it_can_see():
    for seen in STORED["hits"]["decoder"]:
        assert max(seen[:4]) < 0.2  # one in eight: the first half can't be known
        assert min(seen[4:]) > 0.95
    assert min(min(seen) for seen in STORED["hits"]["encoder"]) > 0.95
    assert min(min(seen) for seen in STORED["hits"]["both"]) > 0.95
