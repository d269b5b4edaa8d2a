"""The three forms on the same sentences: what is stored, and the first steps again."""

import pytest

from experiments.transformer_forms import early
from lib.data import results

STORED = results("transformer_forms")


def test_trained_again_it_begins_the_same():
    assert early("both") == pytest.approx(STORED["early"]["both"], abs=0.02)


def test_every_form_has_five_seeds():
    assert {form: len(runs) for form, runs in STORED["hits"].items()} == {"decoder": 5, "encoder": 5, "both": 5}


def test_each_form_knows_what_it_can_see():
    for seen in STORED["hits"]["decoder"]:
        assert max(seen[:4]) < 0.2  # one in eight: the first half can't be known
        assert min(seen[4:]) > 0.95
    assert min(min(seen) for seen in STORED["hits"]["encoder"]) > 0.95
    assert min(min(seen) for seen in STORED["hits"]["both"]) > 0.95
