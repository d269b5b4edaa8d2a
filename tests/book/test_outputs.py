"""What the cells say when the book is built is what the stored notebooks hold: nothing is executed twice for that."""

from pathlib import Path

import nbformat
import pytest
from jupyter_cache import get_cache
from myst_nb.core.read import read_myst_markdown_notebook
from nbformat import NotebookNode

from tests.book.conftest import ROOT
from tools.execution import VARIES, texts
from tools.notebooks import pages
from tools.page import MYST


def executed(page: Path) -> NotebookNode:
    """The notebook of a page as the build ran it, out of the build's cache."""
    (folder,) = (ROOT / "_build" / ".jupyter_cache").glob("*/")
    source = read_myst_markdown_notebook(page.read_text("utf-8"), config=MYST, add_source_map=True, path=page)
    return get_cache(folder).merge_match_into_notebook(source)[1]


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
