"""Dictionaries in a prompt: what the texts are, and one seed trained again."""

import pytest
import torch
from torch import Generator

from experiments.in_context import KEYS, KINDS, PAIRS, SEEDS, examine, only_dictionary, run, texts
from lib.data import results

STORED = results("in_context")["runs"]


def test_trained_again_it_is_the_same():
    assert run("one layer", 0)["new"] == pytest.approx(STORED["one layer"][0]["new"], abs=0.06)


def test_a_key_has_one_value_in_a_text_and_half_of_the_keys_are_shown():
    for row in texts(20, Generator().manual_seed(1)).view(20, PAIRS, 2).tolist():
        assert len({key for key, _ in row}) == len(set(map(tuple, row))) <= KEYS // 2
        assert all(key < KEYS <= value < 2 * KEYS for key, value in row)


def test_the_only_dictionary_is_in_every_text():
    dictionary = only_dictionary(3)
    rows = texts(20, Generator().manual_seed(1), dictionary)
    assert torch.equal(rows[:, 1::2], dictionary[rows[:, ::2]])


def test_who_looks_the_key_up_is_right_as_soon_as_it_stood_before():
    def look_up(tokens: torch.Tensor) -> torch.Tensor:
        """Says what followed the key where it stood last; 0 where it didn't."""
        logits = torch.zeros(*tokens.shape, 2 * KEYS)
        for row, line in enumerate(tokens.tolist()):
            seen = dict(zip(line[::2], line[1::2], strict=False))
            for place in range(0, len(line), 2):
                known = line[place] in line[:place:2]
                logits[row, place, seen[line[place]] if known else 0] = 1
        return logits

    assert examine(look_up, texts(50, Generator().manual_seed(2))) == [0, 1, 1]


def test_five_seeds_each_find_what_stands_in_the_prompt():
    assert {kind: len(runs) for kind, runs in STORED.items()} == dict.fromkeys(KINDS, len(SEEDS))
    for many, one in zip(STORED["many"], STORED["one"], strict=True):
        assert min(many["new"][1:]) > 0.9 > 0.3 > max(one["new"])
        assert min(one["own"]) == 1
