"""Results of the book's trained claims, and the tiny decoder whose numbers run through the chapters."""

import json
from importlib.resources import files
from typing import Any, NamedTuple

import torch
from torch import Tensor


class RunningExample(NamedTuple):
    """A sentence and the weights of a decoder of width 4, each with one decimal: small enough to count by hand.

    A vector is a row, multiplied from the left: the queries are `embedding[tokens] @ w_q`. There are no positions, no
    biases and no norms; attention and feed-forward network are each added to what they read.
    """

    words: tuple[str, ...]
    """The vocabulary, in the order of the tokens."""
    tokens: Tensor
    """(time,) what is read: 一岁一枯荣"""
    targets: Tensor
    """(time,) what comes next: 岁一枯荣。"""
    embedding: Tensor
    """(vocabulary, dim)"""
    w_q: Tensor
    """(dim, dim)"""
    w_k: Tensor
    """(dim, dim)"""
    w_v: Tensor
    """(dim, dim)"""
    w_1: Tensor
    """(dim, hidden), before the ReLU"""
    w_2: Tensor
    """(hidden, dim), after the ReLU"""
    unembedding: Tensor
    """(dim, vocabulary), the embedding transposed: logits are dot products with the characters' vectors"""


def results(name: str) -> dict[str, Any]:
    """Return what a script in `experiments/` found, as it stored it; its docstring says what was trained, and how.

    Args:
        name: of the script, such as "head_roles".

    Raises:
        ValueError: there are no results of that name; says which there are.

    >>> results("running_example")["words"]
    ['一', '岁', '枯', '荣', '。']
    """
    folder = files("lib.data").joinpath("results")
    known = sorted(file.name.removesuffix(".json") for file in folder.iterdir())
    if name not in known:
        raise ValueError(f"name must be one of {', '.join(known)}, got {name!r}")
    return json.loads(folder.joinpath(f"{name}.json").read_text("utf-8"))


def running_example() -> RunningExample:
    """Return the trained decoder that the book follows number by number, from characters to probabilities.

    >>> example = running_example()
    >>> "".join(example.words[token] for token in example.tokens)
    '一岁一枯荣'
    >>> x = example.embedding[example.tokens]
    >>> x.shape, example.w_q.shape, example.w_1.shape, example.unembedding.shape
    (torch.Size([5, 4]), torch.Size([4, 4]), torch.Size([4, 8]), torch.Size([4, 5]))
    >>> x @ example.w_q
    tensor([[-0.5200,  1.3300,  0.3800,  0.0000],
            [ 0.3400, -0.9500, -0.3400,  0.0000],
            [-0.5200,  1.3300,  0.3800,  0.0000],
            [ 0.4600, -1.1800, -0.3200,  0.0000],
            [-0.4900,  1.2300,  0.4200,  0.0000]])
    """
    stored = results("running_example")
    weights = {name: torch.tensor(rows) for name, rows in stored["weights"].items()}
    tokens, targets = torch.tensor(stored["tokens"]), torch.tensor(stored["targets"])
    return RunningExample(tuple(stored["words"]), tokens, targets, **weights, unembedding=weights["embedding"].T)
