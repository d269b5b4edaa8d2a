"""What the cells say when the book is built is what the stored notebooks hold: nothing is executed twice for that."""

import re
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from tests.book.chapters import ROOT, executed
from tools.execution import VARIES, texts
from tools.notebooks import pages


def said(notebook: NotebookNode) -> list[dict[str, list[str]]]:
    return [
        texts(cell.outputs, varies=VARIES in cell.metadata.get("tags", []))
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.parametrize("page", pages(), ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_the_build_says_what_the_stored_notebook_holds(site: str, page: Path) -> None:
    stored = said(nbformat.read(page.with_suffix(".ipynb"), as_version=4))
    assert stored[0] == {}  # the cell that installs the book on Colab, which pages don't have
    assert said(executed(page)) == stored[1:]


@pytest.mark.parametrize(
    ("page", "sentence", "least", "most"),
    [
        ("attention", r"答对的比例：前一个词 ([\d.]+)", 0.95, 1),
        ("attention", r"答对的比例：前一个词 [\d.]+，名词 ([\d.]+)", 0.95, 1),
        ("attention", r"最专心的头 ([\d.]+)", 0.9, 1),
        ("attention", r"干扰那一路的份额 ([\d.]+)", 0, 0.005),
    ],
)
def test_what_is_trained_on_a_page_has_learned(site: str, page: str, sentence: str, least: float, most: float) -> None:
    """Where a cell's numbers are the machine's own, they still have to be good."""
    outputs = [cell.outputs for cell in executed(ROOT / "book/zh" / f"{page}.md").cells if cell.cell_type == "code"]
    printed = "\n".join("".join(texts(each).get("stdout", [])) for each in outputs)
    assert [least <= float(number) <= most for number in re.findall(sentence, printed)] == [True]
