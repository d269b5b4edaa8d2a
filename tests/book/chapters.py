"""Chapters as the build ran them: their notebooks, and the explorers that they show."""

import pickle
from functools import cache
from pathlib import Path

from jupyter_cache import get_cache
from myst_nb.core.read import read_myst_markdown_notebook
from nbformat import NotebookNode

from lib.explore import Explorer
from tools.execution import WIDGET_VIEW
from tools.page import MYST

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.stem for path in (ROOT / "book" / "zh").glob("*.md") if "Explorer(" in path.read_text("utf-8"))


def cache_folder() -> Path:
    """Where the build keeps what it has run; there is one, of the kernels as they are."""
    (folder,) = (ROOT / "_build" / ".jupyter_cache").glob("*/")
    return folder


def executed(page: Path) -> NotebookNode:
    """The notebook of a page as the build ran it."""
    source = read_myst_markdown_notebook(page.read_text("utf-8"), config=MYST, add_source_map=True, path=page)
    return get_cache(cache_folder()).merge_match_into_notebook(source)[1]


@cache
def explorers_of(page: str) -> list[Explorer]:
    """The explorers of a page in order, made again of what the build made them of: torch's own numbers."""
    outputs = [output for cell in executed(ROOT / "book/zh" / f"{page}.md").cells for output in cell.get("outputs", [])]
    views = [output["data"][WIDGET_VIEW] for output in outputs if WIDGET_VIEW in output.get("data", {})]
    made = [pickle.loads((cache_folder() / "explorers" / f"{view['model_id']}.pickle").read_bytes()) for view in views]
    return [Explorer(*args, **options) for args, options in made]
