"""The tiny decoder, trained again, is the stored one."""

import math

import pytest
import torch

from experiments.running_example import SEED, TARGETS, decode, one_decimal, run
from lib.data import results

STORED = results("running_example")


@pytest.fixture(scope="module")
def again() -> dict:
    return run(SEED)


def test_trained_again_it_is_the_same(again: dict):
    for name, rows in STORED["weights"].items():
        assert torch.allclose(again["weights"][name], torch.tensor(rows), atol=0.11)  # a tenth, where rounding is close
    for name in ("probabilities", "attention"):
        assert torch.allclose(again[name], torch.tensor(STORED[name]), atol=0.03)


def test_stored_answers_are_those_of_the_stored_weights():
    weights = {name: torch.tensor(rows) for name, rows in STORED["weights"].items()}
    logits, seen = decode(weights)
    assert torch.allclose(logits.softmax(-1), torch.tensor(STORED["probabilities"]), atol=1e-4)
    assert torch.allclose(seen, torch.tensor(STORED["attention"]), atol=1e-4)


def test_without_attention_half_of_what_follows_yi_is_the_best(again: dict):
    for losses in (again["control_losses"], STORED["control_losses"]):
        assert 2 * math.log(2) / 5 - 1e-6 < losses["none"] < 0.29
        assert losses["learned"] < 0.01
        assert losses["equal"] < 0.01  # any mixture of what came before will do
    answers = torch.as_tensor(again["control_answers"]["none"])
    assert torch.equal(answers[0], answers[2])
    assert answers[0, TARGETS[[0, 2]]].tolist() == pytest.approx([0.5, 0.5], abs=0.05)


def test_most_seeds_read_sui():
    reads = torch.tensor(STORED["reads"])
    assert len(reads) == 28
    assert reads.median() > 0.7
    assert reads.min() < 0.5  # but not all


def test_rounding_lets_the_gradient_through():
    w = torch.tensor([0.26, -1.04], requires_grad=True)
    rounded = one_decimal({"w": w})["w"]
    rounded.sum().backward()
    assert rounded.tolist() == pytest.approx([0.3, -1.0])
    assert w.grad is not None
    assert w.grad.tolist() == [1, 1]
