"""What counts as the same output, for the tests here and for a person who types `pytest --nbval book`."""

import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tools.execution import WIDGET_VIEW, texts
from tools.site import ROOT


def stream(text: str, name: str = "stdout") -> NotebookNode:
    return new_output("stream", name=name, text=text)


def result(**data: object) -> NotebookNode:
    return new_output("execute_result", data={name.replace("_", "/"): value for name, value in data.items()})


def test_a_stream_counts_as_a_whole_and_a_picture_as_a_picture() -> None:
    assert texts([stream("a\n"), stream("b\n")]) == texts([stream("a\nb\n")])
    assert texts([result(image_png="AA==")]) == texts([result(image_png="BB==")])
    live = result(text_plain="x")
    live["data"][WIDGET_VIEW] = {"model_id": "7"}
    assert texts([live]) == texts([result(text_plain="x")])


@pytest.mark.parametrize(
    "other",
    [[], [stream("1.5")], [stream("1.50", "stderr")], [stream("1.50"), result(text_plain="2")], [result(image_png="")]],
)
def test_another_digit_another_stream_or_one_more_output_counts(other: list[NotebookNode]) -> None:
    assert texts([stream("1.50")]) != texts(other)


@pytest.mark.parametrize(("printed", "passes"), [("2\n", True), ("3\n", False)])
def test_nbval_compares_what_a_notebook_prints_with_what_it_stores(tmp_path: Path, printed: str, passes: bool) -> None:
    (tmp_path / "book").mkdir()
    shutil.copy(ROOT / "book/conftest.py", tmp_path / "book")
    cell = new_code_cell("print(1 + 1)", execution_count=1, outputs=[stream(printed)])
    nbformat.write(new_notebook(cells=[cell]), tmp_path / "book/page.ipynb")
    command = [sys.executable, "-m", "pytest", "--nbval", "-p", "no:cacheprovider", "book"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (f"1 {'passed' if passes else 'failed'}") in result.stdout, result.stdout + result.stderr
