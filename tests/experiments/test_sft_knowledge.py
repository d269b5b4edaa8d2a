"""Fine-tuning on first halves, trained again where that is cheap."""

import pytest
import torch

from experiments.sft_knowledge import CHAT, QUATRAINS, SOURCES, run, talks
from lib.data import results

STORED = results("sft_knowledge")["runs"]


def test_trained_again_it_is_the_same():
    again, stored = run(0, "nothing"), STORED["nothing"][0]
    assert again["first"] == stored["first"] == 4
    assert again["before"] == pytest.approx(stored["before"], abs=0.01)
    assert again["loss"][:6] == pytest.approx(stored["loss"][:6], abs=0.1)


def test_the_dialogues_hold_no_second_half():
    tokens, answer = talks()
    for row, marks, (title, verse) in zip(tokens, answer, QUATRAINS.items(), strict=True):
        assert CHAT.decode(row[marks].tolist()) == verse[:12]
        assert CHAT.decode(row[: len(title) + 14].tolist()) == f"问{title}答{verse[:12]}"
        assert not torch.any(row[len(title) + 14 :])


def test_five_seeds_each_learn_the_dialogues():
    assert {source: len(STORED[source]) for source in SOURCES} == dict.fromkeys(SOURCES, 5)
    assert {found["first"] for source in SOURCES for found in STORED[source]} == {4}
    assert {found["asked"]["first"] for source in SOURCES for found in STORED[source]} == {0}  # not before


def test_the_second_half_comes_from_pretraining():
    second = {source: [found["second"] for found in STORED[source]] for source in SOURCES}
    assert min(second["whole"]) >= 0.5
    assert set(second["first halves"] + second["nothing"]) == {0}


def test_fine_tuning_costs_some_of_what_was_read():
    assert all(found["after"] > 5 * found["before"] for found in STORED["whole"])


def test_four_bits_are_enough_and_two_are_not():
    for found in STORED["whole"]:
        assert found["bits"]["8"] == pytest.approx(found["before"], abs=1e-3)
        assert found["bits"]["4"] == pytest.approx(found["before"], abs=5e-3)
        assert found["bits"]["2"] > 5 * found["before"]
