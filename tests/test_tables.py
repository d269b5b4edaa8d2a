"""Tables of numbers: every number under its name, in text and in HTML."""

import math

import pytest
import torch
from bs4 import BeautifulSoup

from lib.tables import Table

TALL = torch.tensor([[0.5, -0.25], [-math.inf, 12.0], [-0.001, 1.0]])


def test_text_stands_in_columns_and_a_chinese_character_is_two_wide():
    lines = repr(Table(TALL, rows=["一", "岁荣", "x"], columns=["键", "k"], corner="q")).splitlines()
    assert lines == ["   q    键      k", "  一  0.50  −0.25", "岁荣    −∞  12.00", "   x  0.00   1.00"]


def test_html_has_headings_and_the_same_cells():
    table = Table(TALL, rows=["a<b", "b", "c"], columns=["k", "l"], digits=1)
    page = BeautifulSoup(table._repr_html_(), "html.parser")
    assert [th.get_text() for th in page.select("th[scope=col]")] == ["k", "l"]
    assert [th.get_text() for th in page.select("th[scope=row]")] == ["a<b", "b", "c"]
    cells = [td.get_text() for td in page.select("tbody td")]
    assert cells == ["0.5", "−0.2", "−∞", "12.0", "0.0", "1.0"]


def test_whole_numbers_have_no_decimals_and_truth_is_a_tick():
    assert repr(Table([[1, 20], [300, -4]])) == "    1  20\n  300  −4"
    assert repr(Table(torch.eye(2, dtype=torch.bool), columns="ab")).split() == ["a", "b", "✓", "·", "·", "✓"]


def test_a_vector_is_one_row():
    assert repr(Table(torch.tensor([0.25, 0.75], requires_grad=True), ["w"])) == "w  0.25  0.75"


@pytest.mark.parametrize(
    ("values", "names", "message"),
    [
        (torch.tensor(1.0), {}, r"values must have 1 or 2 axes, got shape \(\)"),
        (torch.zeros(1, 2, 3), {}, r"values must have 1 or 2 axes, got shape \(1, 2, 3\)"),
        (TALL, {"rows": "ab"}, "rows must name each of the 3, got 2 names"),
        (TALL, {"columns": "abc"}, "columns must name each of the 2, got 3 names"),
        (TALL, {"digits": -1}, "digits must be at least 0, got -1"),
    ],
)
def test_bad_input_is_named(values: torch.Tensor, names: dict[str, object], message: str):
    with pytest.raises(ValueError, match=message):
        Table(values, **names)  # pyright: ignore[reportArgumentType]
