"""What counts as the same output, for the tests here and for a person who types `pytest --nbval book`."""

import re
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


def test_the_last_digit_of_a_float32_is_the_machines_own() -> None:
    assert texts([stream("最大差 0e+00")]) == texts([stream("最大差 5e-07")])
    assert texts([stream("最大差 0e+00")]) != texts([stream("最大差 5e-05")])
    assert texts([stream("1e-07 2")]) != texts([stream("1e-07 3")])


def test_where_a_cell_varies_its_words_count_and_its_numbers_do_not() -> None:
    assert texts([stream("损失 0.12")], varies=True) == texts([stream("损失 1.5")], varies=True)
    assert texts([stream("损失 0.12")], varies=True) != texts([stream("准确率 0.12")], varies=True)


def test_nbval_compares_what_a_notebook_prints_with_what_it_stores(tmp_path: Path) -> None:
    (tmp_path / "book").mkdir()
    for name in ("conftest.py", "rounding.cfg"):
        shutil.copy(ROOT / "book" / name, tmp_path / "book")
    stored = {"same": "2 1e-07\n", "rounding": "2 9e-08\n", "other": "3 1e-07\n", "far": "2 1e-05\n"}
    for name, printed in stored.items():
        cell = new_code_cell("print(1 + 1, '1e-07')", execution_count=1, outputs=[stream(printed)])
        nbformat.write(new_notebook(cells=[cell]), tmp_path / f"book/{name}.ipynb")
    command = [sys.executable, "-m", "pytest", "--nbval", "-rA", "-p", "no:cacheprovider", "book"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    said = {name: word for word, name in re.findall(r"^(PASSED|FAILED) book/(\w+)\.ipynb", result.stdout, re.MULTILINE)}
    assert said == {"same": "PASSED", "rounding": "PASSED", "other": "FAILED", "far": "FAILED"}, result.stdout
