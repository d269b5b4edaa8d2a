"""The shape of a GPT: what is filled in, and what is refused."""

from dataclasses import FrozenInstanceError, astuple, replace

import pytest

from lib.gpt import GPTConfig

CONFIG = GPTConfig(vocab_size=11, context_length=9, dim=24, layers=3, heads=6)


def test_key_value_heads_are_the_heads_when_left_out():
    assert CONFIG.key_value_heads == 6
    assert replace(CONFIG, kv_heads=2).key_value_heads == 2
    assert CONFIG.head_dim == 4


def test_with_other_heads_it_stays_multi_head():
    assert replace(CONFIG, heads=12).key_value_heads == 12
    assert replace(CONFIG, heads=3) == GPTConfig(11, 9, 24, 3, heads=3)
    assert replace(CONFIG, kv_heads=2, heads=12).key_value_heads == 2


def test_it_is_frozen():
    with pytest.raises(FrozenInstanceError):
        CONFIG.dim = 3  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("place", range(6))
def test_a_number_below_one_is_named(place: int):
    name = ("vocab_size", "context_length", "dim", "layers", "heads", "kv_heads")[place]
    numbers = [*astuple(CONFIG)]
    numbers[place] = 0
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        GPTConfig(*numbers)


def test_heads_that_do_not_divide_are_named():
    with pytest.raises(ValueError, match="heads must divide dim, got dim = 24 and heads = 5"):
        GPTConfig(11, 9, 24, 3, 5)
    with pytest.raises(ValueError, match="kv_heads must divide heads, got heads = 6 and kv_heads = 4"):
        GPTConfig(11, 9, 24, 3, 6, kv_heads=4)
