"""What the build lets through, shown on a small book with this book's configuration."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.book.conftest import ROOT

Build = Callable[[], subprocess.CompletedProcess[str]]
HEAD = """---
jupytext: {text_representation: {extension: .md, format_name: myst}}
kernelspec: {display_name: Python 3, language: python, name: python3}
---
"""
CELL = "```{{code-cell}} ipython3\n{}\n```\n"


EMPHASIS = "# 首页\n\n**一句话：** 权重\n的和是 `a b`\n一。\n\n"


def book(folder: Path, **pages: str) -> Build:
    """Writes a small book with this book's configuration, and gives what builds it as the Makefile builds this one."""
    for name in ("_config.yml", "book/extensions", "book/templates", "book/locale"):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(ROOT / name)
    shutil.copytree(ROOT / "book/assets", folder / "book/assets")
    (folder / "book/references.bib").touch()
    (folder / "book/zh").mkdir()
    for name, text in pages.items():
        (folder / f"book/zh/{name}.md").write_text(text, encoding="utf-8")
    root, *others = pages
    files = "".join(f"\n- file: book/zh/{name}" for name in others)
    (folder / "_toc.yml").write_text(f"format: jb-book\nroot: book/zh/{root}\nchapters:{files}\n")
    command = [Path(sys.executable).with_name("jupyter-book"), "build", folder, "-W", "-n", "--keep-going"]
    return lambda: subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("body", "reasons"),
    [
        (CELL.format("1 / 0"), ["ZeroDivisionError"]),
        (r"$\nosuchmacro$", ["nosuchmacro"]),
        ("[x](gone.md) [x](#lost) {cite:p}`nobody`\n\n```{nosuch}\n```", ["gone", "lost", "nobody", "nosuch"]),
    ],
    ids=["cell", "formula", "references"],
)
def test_a_fault_on_a_page_fails_the_build(tmp_path: Path, body: str, reasons: list[str]) -> None:
    result = book(tmp_path, index=f"{HEAD}# 首页\n\n{body}\n", next="# 下一页\n")()
    assert result.returncode != 0
    assert [reason for reason in reasons if reason not in result.stdout + result.stderr] == []


class Built(NamedTuple):
    """The pages, the search index and the styles of a small book after a build."""

    pages: dict[str, str]
    found: dict[str, Any]
    styles: str


@pytest.fixture(scope="module")
def thrice(tmp_path_factory: pytest.TempPathFactory) -> list[Built]:
    """A book built, built again after a word and what a cell reads changed, and with new styles."""
    folder = tmp_path_factory.mktemp("thrice")
    kernel, html, styles = folder / "lib/kernel.py", folder / "_build/html", folder / "book/assets/book.css"
    cell = CELL.format(f"print(open({str(kernel)!r}).read())")
    build = book(folder, index=HEAD + EMPHASIS + cell, next="# 下一页\n\n别处。\n", last="")
    kernel.parent.mkdir()
    (folder / "book/en").mkdir()
    (folder / "book/en/index.md").write_text("# Home\n")
    built = []
    for word, scale, colour in (("甲", 1, "red"), ("乙", 2, "red"), ("乙", 2, "blue")):
        (folder / "book/zh/last.md").write_text(f"# 末页\n\n{word}\n", encoding="utf-8")
        kernel.write_text(f"scale = {scale}")
        styles.write_text(f"p {{ color: {colour} }}")
        result = build()
        assert result.returncode == 0, result.stdout + result.stderr
        index = (html / "searchindex.js").read_text("utf-8").removeprefix("Search.setIndex(").removesuffix(")")
        pages = {path.stem: path.read_text("utf-8") for path in html.glob("*.html")}
        built.append(Built(pages, json.loads(index), (html / "_static/book.css").read_text()))
    return built


def test_a_page_offers_its_twin_where_the_other_edition_has_it(thrice: list[Built]) -> None:
    assert 'href="./en/index.html" lang="en"' in thrice[0].pages["index"]
    assert "en/" not in thrice[0].pages["next"]


def test_emphasis_leaves_no_space_behind_chinese_punctuation(thrice: list[Built]) -> None:
    assert "<strong>一句话：</strong>权重的和是 " in thrice[0].pages["index"]


def test_a_second_build_keeps_the_search_index_of_pages_that_did_not_change(thrice: list[Built]) -> None:
    terms = thrice[1].found["terms"]
    assert thrice[1].found["docnames"] == ["index", "last", "next"]
    assert (terms["乙"], terms["别处"]) == (1, 2)
    assert not terms.get("甲")


def test_a_second_build_runs_the_cells_again_when_a_kernel_changed(thrice: list[Built]) -> None:
    assert ["scale = 2" in built.pages["index"] for built in thrice] == [False, True, True]


def test_a_build_copies_styles_though_no_page_changed(thrice: list[Built]) -> None:
    assert [built.styles for built in thrice] == ["p { color: red }", "p { color: red }", "p { color: blue }"]
