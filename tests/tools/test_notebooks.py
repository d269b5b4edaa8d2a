"""The exported notebooks: made from their pages alone, the same each time, with outputs that last."""

import ast
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

from tools.drawings import PICTURE, PNG, SVG
from tools.notebooks import convert, drift, main, pages, store
from tools.site import Site

Write = Callable[..., Path]

TWO_CELLS = """
# 标题 {cite:p}`hochreiter1997long`

```{code-cell} ipython3
print("一")
```

## 二

```{code-cell} ipython3
:tags: [solution, hide-cell]
print("一")
```
"""

DRAWING = """
```{schematic} look
:alt: 一个查询
query: 查询
```

```{code-cell} ipython3
1
```
"""

FIGURE_AND_WIDGET = """
```{code-cell} ipython3
import sys
import matplotlib.pyplot as plt
from ipywidgets import IntSlider
from tqdm import tqdm

for step in tqdm(range(3)):
    print(step, flush=True)
_ = plt.plot([1, 3, 2])
```

```{code-cell} ipython3
IntSlider(7)
```
"""


# the machinery, on small pages


def test_cells_follow_the_page_between_the_installation_and_the_references(site: Site, write: Write) -> None:
    title, install, first, middle, solution, references = convert(write(TWO_CELLS), site).cells
    assert title.source.startswith("# 标题 ([Hochreiter")
    assert install.source.splitlines()[0] == "# 在 Colab 上安装本书的代码；在别处什么也不做"
    assert install.source.endswith("%pip install -q git+https://github.com/Reader/small-book@trunk")
    assert first.source == solution.source == 'print("一")'
    assert (middle.source, references.source.splitlines()[0]) == ("## 二", "## 参考文献")
    assert solution.metadata["tags"] == ["solution", "hide-cell"]
    assert solution.metadata["jupyter"] == {"source_hidden": True, "outputs_hidden": True}


def test_a_page_is_its_own_edition(site: Site, write: Write) -> None:
    english = convert(write(TWO_CELLS, language="en"), site).cells
    assert english[1].source.startswith("# Installs")
    assert english[-1].source.startswith("## References")


def test_cell_ids_are_unique_and_stay_when_a_cell_is_inserted(site: Site, write: Write) -> None:
    before = [cell.id for cell in convert(write(TWO_CELLS), site).cells]
    longer = TWO_CELLS.replace("## 二", "## 二\n\n```{code-cell} ipython3\nnew = 1\n```\n\n三")
    after = [cell.id for cell in convert(write(longer), site).cells]
    assert len(set(after)) == len(after) == len(before) + 2
    assert set(before) <= set(after)


def test_an_error_names_the_line_of_the_page(site: Site, write: Write) -> None:
    path = write(TWO_CELLS + "\n\n段落\n\n{unknown}`role`\n")
    line = path.read_text("utf-8").splitlines().index("{unknown}`role`") + 1
    with pytest.raises(ValueError, match=rf"page\.md:{line}: unknown role"):
        convert(path, site)


def test_only_pages_with_code_become_notebooks(site: Site, write: Write) -> None:
    assert pages(site.root) == []
    path = write(TWO_CELLS)
    assert pages(site.root) == [path]


def test_stored_outputs_are_the_same_each_time_and_hold_no_widget(
    site: Site, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    path = write(FIGURE_AND_WIDGET)
    stored = []
    for _ in range(2):
        store(path, site)
        stored.append(path.with_suffix(".ipynb").read_bytes())
    assert stored[0] == stored[1]
    assert drift(path, site) is None
    _, plot, slider = code_cells(path)
    assert [output.output_type for output in plot.outputs] == ["stream", "display_data"]
    assert plot.outputs[0].text == "0\n1\n2\n"
    assert set(plot.outputs[1].data) == {"text/plain", "image/png"}
    assert [dict(output.data) for output in slider.outputs] == [{"text/plain": "IntSlider(value=7)"}]


def test_a_failing_cell_stores_nothing(site: Site, write: Write) -> None:
    path = write("```{code-cell} ipython3\n1 / 0\n```\n")
    with pytest.raises(Exception, match="ZeroDivisionError"):
        store(path, site)
    assert not path.with_suffix(".ipynb").exists()


@pytest.fixture
def stored(site: Site, write: Write) -> Path:
    """A page with a notebook that is in step with it."""
    path = write(TWO_CELLS)
    nbformat.write(convert(path, site), path.with_suffix(".ipynb"))
    assert drift(path, site) is None
    return path


def test_a_missing_notebook_is_out_of_step(site: Site, stored: Path) -> None:
    stored.with_suffix(".ipynb").unlink()
    assert drift(stored, site) == f"{stored.with_suffix('.ipynb')}: missing"


@pytest.mark.parametrize(
    ("old", "new", "cell"), [("## 二", "## 三", 3), ("solution, ", "", 4), ("# 标题", "# 题目", 0), ("## 二", "", 3)]
)
def test_the_first_cell_out_of_step_is_named(site: Site, stored: Path, old: str, new: str, cell: int) -> None:
    stored.write_text(stored.read_text("utf-8").replace(old, new), "utf-8")
    assert f"page.ipynb: cell {cell} differs from page.md" in str(drift(stored, site))


def test_a_lost_last_cell_is_out_of_step(site: Site, stored: Path) -> None:
    notebook = nbformat.read(stored.with_suffix(".ipynb"), as_version=4)
    notebook.cells.pop()
    nbformat.write(notebook, stored.with_suffix(".ipynb"))
    assert "cell 5 differs" in str(drift(stored, site))


def test_another_output_is_not_out_of_step(site: Site, stored: Path) -> None:
    notebook = nbformat.read(stored.with_suffix(".ipynb"), as_version=4)
    notebook.cells[2].update(execution_count=9, outputs=[nbformat.v4.new_output("stream", text="2")])
    nbformat.write(notebook, stored.with_suffix(".ipynb"))
    assert drift(stored, site) is None


def test_the_check_passes_in_step_and_fails_out_of_step(
    site: Site, stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--check"], site.root) == 0
    stored.write_text(stored.read_text("utf-8") + "\n新的一段\n", "utf-8")
    assert main(["--check"], site.root) == 1
    assert "page.ipynb: cell 5 differs" in capsys.readouterr().err


# the notebooks of the book


def code_cells(path: Path) -> list[NotebookNode]:
    stored = nbformat.read(path.with_suffix(".ipynb"), as_version=4)
    return [cell for cell in stored.cells if cell.cell_type == "code"]


class Calls(ast.NodeVisitor):
    """Whether a cell prints when it runs: calls inside the functions that it defines don't count."""

    prints = False

    def visit_Call(self, node: ast.Call) -> None:
        self.prints |= isinstance(node.func, ast.Name) and node.func.id == "print"
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        pass


def shows_something(source: str) -> bool:
    """Whether a cell prints, or ends in a value: a name, an operation or a new object."""
    statements = ast.parse(TransformerManager().transform_cell(source)).body
    calls = Calls()
    for statement in statements:
        calls.visit(statement)
    if calls.prints:
        return True
    last = statements[-1] if statements else None
    if not isinstance(last, ast.Expr):
        return False
    made = last.value.func if isinstance(last.value, ast.Call) else None
    return made is None or (isinstance(made, ast.Name) and made.id[0].isupper())


@pytest.mark.parametrize(
    ("source", "shows"),
    [
        ("print(1)", True),
        ("for i in x:\n    print(i)", True),
        ("def f():\n    print(1)", False),
        ("x = 1", False),
        ("x = 1\nx[0]", True),
        ("Explorer(sliders={})", True),
        ("use_style()", False),
        ("if a:\n    %pip install b", False),
        ("# nothing", False),
    ],
)
def test_cells_that_show_something_are_told_apart(source: str, shows: bool) -> None:
    assert shows_something(source) is shows


def test_a_notebook_is_what_its_page_makes(book_page: Path) -> None:
    assert drift(book_page, Site.read()) is None


def test_every_cell_has_run_and_stores_what_it_shows(book_page: Path) -> None:
    cells = code_cells(book_page)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert [cell.source for cell in cells if shows_something(cell.source) and not cell.outputs] == []


def test_stored_outputs_hold_no_error_no_warning_no_bar_and_no_widget(book_page: Path) -> None:
    outputs = [output for cell in code_cells(book_page) for output in cell.outputs]
    assert [output for output in outputs if output.output_type == "error"] == []
    assert [output.text for output in outputs if output.get("name") == "stderr"] == []
    assert [output for output in outputs if "it/s]" in output.get("data", {}).get("text/plain", "")] == []
    assert "jupyter.widget" not in book_page.with_suffix(".ipynb").read_text("utf-8")


@pytest.fixture
def template(site: Site) -> Path:
    (site.root / "book/schematics").mkdir()
    (site.root / "book/assets/colours.css").write_text('html[data-theme="light"] {\n  --paper: #fff;\n}\n')
    file = site.root / "book/schematics/look.svg"
    file.write_text('<svg viewBox="0 0 40 20"><text y="9">{{ query }}</text></svg>')
    return file


def pictures(file: Path) -> list[str]:
    return PICTURE.findall(nbformat.read(file.with_suffix(".ipynb"), as_version=4).cells[0].source)


def test_a_schematic_is_stored_as_a_picture_that_is_made_anew_when_it_changes(
    site: Site, write: Write, template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(DRAWING)
    store(path, site)
    (first,) = pictures(path)
    assert first.startswith(PNG)
    assert drift(path, site) is None
    template.write_text(template.read_text().replace("9", "12"))
    assert "cell 0 differs" in (drift(path, site) or "")
    store(path, site)
    assert drift(path, site) is None
    (second,) = pictures(path)
    assert second != first
    monkeypatch.setattr("tools.browser.NAMES", ("no-such-browser",))
    store(path, site)
    assert pictures(path) == [second]


def test_without_a_browser_a_schematic_stays_an_svg(
    site: Site, write: Write, template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.browser.NAMES", ("no-such-browser",))
    path = write(DRAWING)
    store(path, site)
    assert [found[: len(SVG)] for found in pictures(path)] == [SVG]
    assert drift(path, site) is None
