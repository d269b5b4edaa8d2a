"""What heads do, learned again."""

from typing import Any

import pytest
import torch
from torch import Generator

from experiments.head_roles import Reader, accuracy, run, sentences, without
from lib.data import results

STORED = results("head_roles")


@pytest.mark.parametrize(("kind", "heads"), [("four", 4), ("one", 1)])
def test_learned_again_it_is_the_same(kind: str, heads: int):
    again, stored = run(0, heads, STORED["lr"]), STORED[kind][0]
    assert again["accuracy"] == pytest.approx(stored["accuracy"], abs=0.02)
    for key in ("previous", "referent"):
        assert torch.tensor(again[key]).flatten().tolist() == pytest.approx(
            torch.tensor(stored[key]).flatten().tolist(), abs=0.1
        )


def found(kind: str, key: str) -> torch.Tensor:
    """(seed, head), and for the accuracies without each head (seed, head, question)."""
    return torch.tensor([each[key] for each in STORED[kind]]).flatten(1, 2)


def test_some_head_reads_the_word_before_for_every_seed_and_another_one_the_noun():
    previous, referent = found("four", "previous"), found("four", "referent")
    assert previous.amax(1).min() > 0.95
    assert 0.5 < referent.amax(1).median() < 0.7
    assert referent.amax(1).min() < 0.5 < 0.8 < referent.amax(1).max()  # a seed may show anything
    assert (previous.argmax(1) != referent.argmax(1)).all()


@pytest.mark.parametrize(("question", "key"), [(0, "previous"), (1, "referent")])
def test_the_clearest_head_is_needed_for_its_question_only_and_not_alone(question: int, key: str):
    weights, cut = found("four", key), found("four", "without")
    rows, clearest = torch.arange(len(weights)), found("four", key).argmax(1)
    own, other = cut[rows, clearest, question], cut[rows, clearest, 1 - question]
    assert 0.4 < own.min() < own.median() < 0.9  # something is lost, and never all: chance is 1/6 and 1/4
    assert other.min() > 0.99
    assert cut[..., question].median() > 0.98  # most heads cost next to nothing
    assert (cut[..., question].argmin(1) == clearest).float().mean() < 0.8  # another one may cost more


def test_one_head_a_layer_answers_as_well_and_the_layers_divide_the_work():
    for kind in ("four", "one"):
        assert found_accuracy(kind).min() > 0.99
    previous, referent, cut = (found("one", key) for key in ("previous", "referent", "without"))
    assert (previous.argmax(1) == 1 - referent.argmax(1)).all()
    rows = torch.arange(len(previous))
    assert cut[rows, previous.argmax(1), 0].median() < 0.2
    assert cut[rows, referent.argmax(1), 1].median() < 0.3


def found_accuracy(kind: str) -> torch.Tensor:
    return torch.tensor([each["accuracy"] for each in STORED[kind]])


def test_a_pronoun_means_a_noun_of_its_kind():
    tokens, referents = sentences(50, Generator().manual_seed(0))
    nouns, pronouns = tokens.gather(1, referents), tokens[:, 6::2]
    assert torch.equal(nouns // 4, pronouns - 12)
    assert (tokens[:, 1::2] >= 15).all()


def test_a_head_set_to_zero_says_nothing():
    torch.manual_seed(0)
    reader, test = Reader(), sentences(100, Generator().manual_seed(0))
    layer: Any = reader.layers[1]
    removed = without(reader, 1, 2, test)
    with torch.no_grad():
        layer.v_proj.weight[16:24] = 0  # the third head's values
    assert accuracy(reader, *test) == pytest.approx(removed)
