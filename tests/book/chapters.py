"""Chapters as their readers run them: code cells of the source, in order, and the explorers that they show."""

from functools import cache
from pathlib import Path
from typing import Any

import jupytext
import matplotlib.pyplot as plt

import lib.explore

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.stem for path in (ROOT / "book" / "zh").glob("*.md") if "Explorer(" in path.read_text("utf-8"))


@cache
def explorers_of(page: str) -> list[lib.explore.Explorer]:
    """Run a chapter's cells in this process and collect its explorers: the numbers that its page has to show."""
    made: list[lib.explore.Explorer] = []

    class Recorded(lib.explore.Explorer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)

    notebook = jupytext.read(ROOT / "book" / "zh" / f"{page}.md")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    original, lib.explore.Explorer = lib.explore.Explorer, Recorded
    try:
        for number, cell in enumerate(notebook.cells):
            if cell.cell_type == "code":
                exec(compile(cell.source, f"{page}.md, cell {number}", "exec"), namespace)
                plt.close("all")
    finally:
        lib.explore.Explorer = original
    return made
