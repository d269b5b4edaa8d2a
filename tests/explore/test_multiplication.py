"""A matrix product's Python side: its numbers, its sentence, what it refuses, its picture."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from lib.explore import Explorer, heatmap, picture, product, readout
from lib.explore.multiplication import multiplied_out, printed
from lib.explore.panel import Panel
from lib.explore.text import number_of

MODULE = Path(__file__).parents[2] / "lib" / "explore" / "explorer.js"
HEADS, ROWS, INNER, COLUMNS = 2, 3, 4, 5
GENERATOR = torch.Generator().manual_seed(0)
Q, K = torch.randn(HEADS, ROWS, INNER, generator=GENERATOR), torch.randn(HEADS, COLUMNS, INNER, generator=GENERATOR)
CAUSAL = torch.ones(ROWS, COLUMNS, dtype=torch.bool).tril(1)


def scores(**options: Any) -> Panel:
    return product(Q, K.mT, rows="一岁枯", columns="离离原上草", divide_by=2.0, mask=CAUSAL, **options)


def now(panel: Panel, position: int = 0) -> dict[str, np.ndarray]:
    heads = {"头": range(1, 1 + HEADS)}
    return Explorer(heads, [panel], start={"头": position}).shown()[0]


def said(panel: Panel, cell: tuple[int, int] = (0, 0), position: int = 0, language: str = "zh") -> str:
    return "".join(multiplied_out({**panel.options, "start": cell}, now(panel, position), language))


def test_the_result_is_that_of_torch_at_every_slider_position():
    panel = scores()
    for head in range(HEADS):
        shown = now(panel, head)
        np.testing.assert_allclose(shown["products"], Q[head] @ K[head].T, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(shown["values"], Q[head] @ K[head].T / 2, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(shown["mask"].astype(bool), CAUSAL)


def test_a_matrix_that_is_the_same_at_every_position_is_shipped_once():
    explorer = Explorer({"头": [1, 2]}, [product(Q, K[0].T)])
    arrays = explorer.panels[0]["arrays"]
    assert arrays["right"]["shape"] == [1, INNER, COLUMNS]
    assert arrays["left"]["dtype"] == arrays["values"]["dtype"] == "float32"
    np.testing.assert_allclose(now(product(Q, K[0].T), 1)["values"], Q[1] @ K[0].T, rtol=1e-5, atol=1e-6)


def test_a_cell_is_multiplied_out_with_its_division_and_its_mask():
    panel = product(
        [[0.3, -0.5], [1, 2], [0, 4]],
        [[1.2, 1, 0, -1], [0.4, 2, 1, 3]],
        rows="一岁枯",
        columns="春夏秋冬",
        format=".2f",
        divide_by=2,
        mask=np.tri(3, 4) > 0,
        sliders=[],
    )
    assert said(panel, (0, 0)) == "「一」·「春」 = 0.30 × 1.20 + (−0.50) × 0.40 = 0.16，÷ 2 = 0.08"
    assert said(panel, (1, 3)) == "「岁」·「冬」 = 1.00 × (−1.00) + 2.00 × 3.00 = 5.00，÷ 2 = 2.50，这一格被遮住"
    plain = product([[1, 2]], [[3], [4]], format="d", sliders=[])
    assert said(plain, language="en") == "row 0 · column 0 = 1 × 3 + 2 × 4 = 11"


def test_the_page_says_the_same_sentence_as_the_picture():
    panels = [scores(), scores(format=".1%"), scores(format=".3g"), product(Q, K.mT)]
    cells = [(i, j) for i in range(ROWS) for j in range(COLUMNS)]
    jobs = [
        {"panel": p.options, "now": {k: v.ravel().tolist() for k, v in now(p).items()}, "cell": cell}
        for p in panels
        for cell in cells
    ]
    script = """import { multipliedOut, WORDS } from "MODULE"; import { readFileSync } from "node:fs";
    const say = ({ panel, now, cell }) => multipliedOut(panel, now, cell, WORDS.zh).map(([text]) => text).join("");
    console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(say)));"""
    run = subprocess.run(
        ["node", "--input-type=module", "--eval", script.replace("MODULE", MODULE.as_uri())],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(run.stdout) == [said(panel, cell) for panel in panels for cell in cells]


@given(st.integers(0, 2**32 - 1), st.sampled_from([".1f", ".2f", ".1%", "d"]), st.sampled_from([None, 0.7, 8**0.5]))
def test_what_a_reader_reckons_from_the_sentence_is_its_result(seed: int, spec: str, divisor: float | None):
    random = np.random.default_rng(seed)
    panel = product(random.normal(size=(3, 4)), random.normal(size=(4, 5)), format=spec, divide_by=divisor, sliders=[])
    unit = {".1f": 0.1, ".2f": 0.01, ".1%": 0.001, "d": 1.0}[spec] * (1 + 1e-6)
    for cell in np.ndindex(3, 5):
        equation = said(panel, cell).replace("−", "-").split(" = ")[1:]
        terms = [[number_of(text.strip("()")) for text in pair.split(" × ")] for pair in equation[0].split(" + ")]
        totals = [number_of(text.split("，")[0]) for text in equation[1:]]
        if divisor is None:
            assert abs(sum(a * b for a, b in terms) - totals[0]) <= unit
        else:
            assert abs(sum(a * b for a, b in terms) - totals[0]) <= unit
            assert abs(totals[0] / divisor - totals[1]) <= unit


@pytest.mark.parametrize(("divide_by", "text"), [(2, "2"), (8**0.5, "√8"), (2.5, "2.5"), (2**0.5, "√2"), (0.1, "0.1")])
def test_a_square_root_is_written_as_one(divide_by: float, text: str):
    assert product([[1.0]], [[2.0]], divide_by=divide_by).options["divisor"] == text


WRONG: Any = (0, "b")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: product(Q, K), "left must have as many columns as right has rows, got shapes (2, 3, 4) and (2, 5, 4)"),
        (lambda: product(Q, torch.zeros(3, 4, 5)), "left and right must have the same slider axes (or 1), got shapes"),
        (lambda: product(Q, [1, 2]), "right needs at least 2 axes of its own, got shape (2,)"),
        (lambda: product([[1e200]], [[1e200]]), "left @ right must be finite, got numbers up to 1e+200 and 1e+200"),
        (lambda: scores(inner="ab"), "inner must name the 4 columns of left, got 2 labels"),
        (lambda: scores(names=["Q", "K"]), "names must be 3 texts, for left, right and the result, got 2: ['Q', 'K']"),
        (lambda: scores(notes="ab"), "notes must be 3 texts"),
        (lambda: product(Q, K.mT, divide_by=0), "divide_by must be a positive number, got 0"),
        (lambda: product(Q, K.mT, divide_by=float("nan")), "divide_by must be a positive number, got nan"),
        (lambda: product(Q, K.mT, mask=CAUSAL.int()), "mask must hold booleans, True = may attend, got int32"),
        (lambda: product(Q, K.mT, mask=CAUSAL.T), "mask must have the result's shape (2, 3, 5), got (5, 3)"),
        (lambda: product(Q, K.mT, mask=CAUSAL.expand(3, -1, -1)), "mask must have the result's shape (2, 3, 5), got"),
        (lambda: scores(start=(3, 0)), "start must be (row, column) in 0…2 and 0…4, got (3, 0)"),
        (lambda: scores(start=WRONG), "start must be (row, column) in 0…2 and 0…4, got (0, 'b')"),
        (lambda: scores(format="x"), "format must be one of"),
        (
            lambda: Explorer({"头": [1, 2, 3]}, [scores()]),
            "panel 0 (product): left has 2 positions on '头', expected 3",
        ),
    ],
)
def test_bad_arguments_say_what_was_expected_and_what_came(build: Any, message: str):
    with pytest.raises(ValueError, match=re.escape(message)):
        build()


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    made: list[Figure] = []
    monkeypatch.setattr(picture, "Figure", lambda **kwargs: made.append(Figure(**kwargs)) or made[-1])
    return made


def test_the_picture_has_three_matrices_and_the_sentence_without_javascript(drawn: list[Figure]):
    panel = scores(start=(1, 3), names=["Q$", "Kᵀ", "QKᵀ"], label="打分")
    explorer = Explorer({"头": [1, 2]}, [readout("{头}"), panel, heatmap(Q)])
    first = explorer.png()
    texts = [text for text in drawn[0].axes[0].findobj(Text) if isinstance(text, Text) and text.get_text()]
    written = [text._preprocess_math(text.get_text())[0] for text in texts]  # pyright: ignore[reportAttributeAccessIssue]
    shown = explorer.shown()[1]
    numbers = [printed(x, ".2f") for name in ("left", "right", "values") for x in shown[name].ravel()]
    assert sorted(set(numbers) - set(written)) == []
    assert {"Q$", "Kᵀ", "QKᵀ", *"一岁枯离原上草"} <= set(written)
    assert said(panel, (1, 3)) in {text.replace("\n", " ") for text in written}
    cells = [patch for patch in drawn[0].axes[0].patches if isinstance(patch, Rectangle)]
    assert sum(bool(cell.get_hatch()) for cell in cells) == int((~CAUSAL).sum())
    across = {cell.get_x() for cell in cells}
    assert len(across) == INNER + COLUMNS  # the columns of the right matrix stand above those of the result
    explorer.slider_0 = 1
    assert explorer.png() != first
