"""Stored results, and the decoder whose numbers run through the chapters."""

import math
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor

import lib.data
from lib.data import results, running_example

SCRIPTS = Path(__file__).parents[2] / "experiments"
NAMES = sorted(path.stem for path in (Path(lib.data.__file__).parent / "results").glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_results_come_from_the_script_of_that_name(name: str):
    assert results(name)
    source = (SCRIPTS / f"{name}.py").read_text("utf-8")
    assert re.search(rf'\bsave\(\s*"{name}",', source)
    assert len(source.splitlines()) <= 150


def test_results_can_be_changed_without_changing_what_is_stored():
    results("running_example")["words"].clear()
    assert results("running_example")["words"]


def test_unknown_results_are_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match=r"name must be one of .*running_example.*, got '\.\./poems'"):
        results("../poems")


def decode(attend: bool = True) -> tuple[Tensor, Tensor]:
    """By hand, without anything from lib: probabilities and attention weights."""
    e = running_example()
    x = e.embedding[e.tokens]
    scores = (x @ e.w_q) @ (x @ e.w_k).T / 2
    weights = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf).softmax(-1)
    x = x + weights @ (x @ e.w_v) if attend else x
    x = x + (x @ e.w_1).relu() @ e.w_2
    return (x @ e.unembedding).softmax(-1), weights


def test_the_running_example_can_be_counted_by_hand():
    e = running_example()
    assert [e.words[t] for t in e.tokens] == list("一岁一枯荣")
    assert [e.words[t] for t in e.targets] == list("岁一枯荣。")
    assert torch.equal(e.unembedding, e.embedding.T)
    for weights in e[3:]:
        assert torch.allclose(10 * weights, (10 * weights).round(), atol=1e-5)
        assert weights.abs().max() <= 2


def test_each_next_character_of_the_running_example_is_right_and_none_is_certain():
    probabilities, _ = decode()
    right = probabilities[range(5), running_example().targets]
    assert (right > 0.9).all()
    assert (right < 0.97).all()


def test_the_second_yi_of_the_running_example_reads_sui():
    _, weights = decode()
    assert weights[2, 1] > 0.75
    assert weights[0, 0] == 1


def test_without_attention_both_yi_of_the_running_example_answer_alike():
    probabilities, _ = decode(attend=False)
    assert torch.equal(probabilities[0], probabilities[2])
