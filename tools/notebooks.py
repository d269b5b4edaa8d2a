"""Make the notebooks that Colab opens, from the pages with code: `python -m tools.notebooks`."""

import argparse
import hashlib
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import nbformat
from myst_nb.core.read import is_myst_markdown_notebook, read_myst_markdown_notebook
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools.drawings import digests, paint, without_pictures
from tools.execution import execute
from tools.markdown import plain_markdown
from tools.page import MYST, Page
from tools.references import Bibliography
from tools.site import EDITIONS, ROOT, Site

# Tags that fold a cell on the page, and how JupyterLab and Colab are told the same.
FOLDED = {
    "hide-input": {"jupyter": {"source_hidden": True}, "cellView": "form"},
    "hide-cell": {"jupyter": {"source_hidden": True, "outputs_hidden": True}, "cellView": "form"},
}


def pages(root: Path = ROOT) -> list[Path]:
    """The pages with code, in all editions."""
    candidates = sorted(root.glob("book/*/*.md"))
    return [path for path in candidates if is_myst_markdown_notebook(path.read_text("utf-8"))]


def convert(path: Path, site: Site) -> NotebookNode:
    """The notebook of a page, not executed yet."""
    edition = EDITIONS[path.parent.name]
    bibliography = Bibliography(site.root / "book" / "references.bib", edition)
    page = Page(path, path.read_text("utf-8"), site, bibliography)
    source = read_myst_markdown_notebook(page.text, config=MYST, add_source_map=True, path=path)
    cells = [
        code_cell(cell) if cell.cell_type == "code" else markdown_cell(cell, start, page)
        for cell, start in zip(source.cells, source.metadata.source_map, strict=True)
    ]
    first_code = next(index for index, cell in enumerate(cells) if cell.cell_type == "code")
    cells.insert(first_code, new_code_cell(installation(edition.install, site)))
    if page.cited:
        cells.append(new_markdown_cell(f"## {edition.references}\n\n{bibliography.listing(page.cited)}"))
    name_by_source(cells)
    kernel = {"kernelspec": source.metadata.kernelspec, "language_info": {"name": "python"}}
    return new_notebook(cells=cells, metadata=kernel)


def code_cell(cell: NotebookNode) -> NotebookNode:
    """The cell with its tags; what the page folds is folded in the notebook too."""
    metadata = dict(cell.metadata)
    for tag in metadata.get("tags", []):
        metadata |= FOLDED.get(tag, {})
    return new_code_cell(cell.source, metadata=metadata)


def markdown_cell(cell: NotebookNode, start: int, page: Page) -> NotebookNode:
    """The cell in plain Markdown; `start` counts the lines above it and above its leading blank lines."""
    while not page.text.splitlines()[start].strip():
        start += 1
    source = plain_markdown(cell.source, start + 1, page)
    drawings = digests(source)
    return new_markdown_cell(source, metadata={"drawings": drawings} if drawings else {})


def installation(comment: str, site: Site) -> str:
    """The first code cell. The package asks for no exact versions, so that Colab keeps its own torch."""
    return (
        f"# {comment}\n"
        "import sys\n\n"
        'if "google.colab" in sys.modules:\n'
        f"    %pip install -q git+{site.repository}@{site.branch}"
    )


def name_by_source(cells: Sequence[NotebookNode]) -> None:
    """Give each cell an id that stays as long as its source does."""
    seen: Counter[str] = Counter()
    for cell in cells:
        digest = hashlib.sha256(cell.source.encode()).hexdigest()[:12]
        cell.id = f"{digest}-{seen[digest]}" if seen[digest] else digest
        seen[digest] += 1


def without_outputs(notebook: NotebookNode) -> list[dict[str, object]]:
    """What a notebook takes from its page: all of the cells but what running and painting them added."""
    added = ("outputs", "execution_count")
    return [
        {key: without_pictures(value) if key == "source" else value for key, value in cell.items() if key not in added}
        for cell in notebook.cells
    ]


def drift(path: Path, site: Site) -> str | None:
    """Where the stored notebook of a page departs from the page, or None."""
    stored_path = path.with_suffix(".ipynb")
    if not stored_path.exists():
        return f"{stored_path}: missing"
    stored, fresh = nbformat.read(stored_path, as_version=4), convert(path, site)
    for number, (old, new) in enumerate(zip_longest(without_outputs(stored), without_outputs(fresh))):
        if old != new:
            source = (new or old or {}).get("source", "")
            return f"{stored_path}: cell {number} differs from {path.name}:\n{source}"
    if stored.metadata != fresh.metadata:
        return f"{stored_path}: the metadata differs from {path.name}"
    return None


def store(path: Path, site: Site) -> None:
    """Convert, run and illustrate a page, and store the notebook beside it."""
    notebook, file = convert(path, site), path.with_suffix(".ipynb")
    execute(notebook)
    paint(notebook.cells, nbformat.read(file, as_version=4).cells if file.exists() else ())
    nbformat.write(notebook, file)


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks", description=__doc__)
    parser.add_argument("pages", nargs="*", type=Path, help="Markdown pages; all with code if none is named")
    parser.add_argument("--check", action="store_true", help="only compare, and fail if one is out of step")
    options = parser.parse_args(arguments)
    site = Site.read(root)
    paths = [path.resolve() for path in options.pages] or pages(root)
    if options.check:
        drifts = [message for path in paths if (message := drift(path, site))]
        for message in drifts:
            print(message, file=sys.stderr)
        return int(bool(drifts))
    for path in paths:
        print(path.with_suffix(".ipynb"), flush=True)
        store(path, site)
    return 0


if __name__ == "__main__":
    sys.exit(main())
