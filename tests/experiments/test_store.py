"""How results are stored and printed."""

import json
from pathlib import Path

import pytest
import torch

from experiments import store


def test_numbers_keep_four_decimals_and_a_row_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    store.save("x", {"seeds": range(2), "three": {0.01: torch.tensor([[1.0, 0.123456], [2.0, 3.0]])}, "word": "一"})
    text = (tmp_path / "x.json").read_text("utf-8")
    assert json.loads(text) == {"seeds": [0, 1], "three": {"0.01": [[1.0, 0.1235], [2.0, 3.0]]}, "word": "一"}
    assert "[1.0, 0.1235]" in text


def test_a_spread_is_the_median_the_smallest_and_the_largest():
    assert store.spread([0.5, 0.25, 1.0]) == "0.50 (0.25–1.00)"
