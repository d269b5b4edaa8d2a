"""What the build lets through, shown on a small book with this book's configuration."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.book.conftest import ROOT

Build = Callable[[], subprocess.CompletedProcess[str]]
HEAD = """---
jupytext: {text_representation: {extension: .md, format_name: myst}}
kernelspec: {display_name: Python 3, language: python, name: python3}
---
"""
CELL = "```{{code-cell}} ipython3\n{}\n```\n"


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Builds the small book in `tmp_path` as the Makefile builds this one."""
    for name in ("_config.yml", "book/assets", "book/extensions", "book/templates", "book/locale"):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(ROOT / name)
    (tmp_path / "book/references.bib").touch()
    (tmp_path / "book/zh").mkdir()
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: book/zh/index\nchapters:\n- file: book/zh/next\n")
    (tmp_path / "book/zh/next.md").write_text("# 下一页\n\n别处。\n", encoding="utf-8")
    command = [Path(sys.executable).with_name("jupyter-book"), "build", tmp_path, "-W", "-n", "--keep-going"]
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
def test_a_fault_on_a_page_fails_the_build(tmp_path: Path, build: Build, body: str, reasons: list[str]) -> None:
    (tmp_path / "book/zh/index.md").write_text(f"{HEAD}# 首页\n\n{body}\n", encoding="utf-8")
    result = build()
    assert result.returncode != 0
    assert [reason for reason in reasons if reason not in result.stdout + result.stderr] == []


def test_a_page_offers_its_twin_where_the_other_edition_has_it(tmp_path: Path, build: Build) -> None:
    (tmp_path / "book/zh/index.md").write_text("# 首页\n", encoding="utf-8")
    (tmp_path / "book/en").mkdir()
    (tmp_path / "book/en/index.md").write_text("# Home\n")
    assert build().returncode == 0
    html = tmp_path / "_build/html"
    assert 'href="./en/index.html" lang="en"' in (html / "index.html").read_text(encoding="utf-8")
    assert "en/" not in (html / "next.html").read_text(encoding="utf-8")


def test_a_second_build_keeps_the_search_index_of_pages_that_did_not_change(tmp_path: Path, build: Build) -> None:
    page = tmp_path / "book/zh/index.md"
    for words in ("甲", "乙"):
        page.write_text(f"# 首页\n\n{words}\n", encoding="utf-8")
        assert build().returncode == 0
    script = (tmp_path / "_build/html/searchindex.js").read_text(encoding="utf-8")
    index = json.loads(script.removeprefix("Search.setIndex(").removesuffix(")"))
    assert index["docnames"] == ["index", "next"]
    assert index["terms"]["乙"] == 0
    assert index["terms"]["别处"] == 1
    assert not index["terms"].get("甲")


def test_a_second_build_runs_the_cells_again_when_a_kernel_changed(tmp_path: Path, build: Build) -> None:
    cell = CELL.format(f"print(open({str(tmp_path / 'lib/kernel.py')!r}).read())")
    (tmp_path / "book/zh/index.md").write_text(f"{HEAD}# 首页\n\n{cell}\n", encoding="utf-8")
    (tmp_path / "lib").mkdir()
    for kernel in ("scale = 1", "scale = 2"):
        (tmp_path / "lib/kernel.py").write_text(kernel)
        assert build().returncode == 0
        assert kernel in (tmp_path / "_build/html/index.html").read_text(encoding="utf-8")


def test_a_second_build_copies_styles_though_no_page_changed(tmp_path: Path, build: Build) -> None:
    (tmp_path / "book/zh/index.md").write_text("# 首页\n", encoding="utf-8")
    (tmp_path / "book/assets").unlink()
    shutil.copytree(ROOT / "book/assets", tmp_path / "book/assets")
    for rule in ("p { color: red }", "p { color: blue }"):
        (tmp_path / "book/assets/book.css").write_text(rule)
        assert build().returncode == 0
        assert (tmp_path / "_build/html/_static/book.css").read_text() == rule


def test_emphasis_leaves_no_space_behind_chinese_punctuation(tmp_path: Path, build: Build) -> None:
    (tmp_path / "book/zh/index.md").write_text("# 首页\n\n**一句话：** 权重\n的和是 `a b`\n一。\n", encoding="utf-8")
    assert build().returncode == 0
    html = (tmp_path / "_build/html/index.html").read_text(encoding="utf-8")
    assert "<strong>一句话：</strong>权重的和是 " in html
