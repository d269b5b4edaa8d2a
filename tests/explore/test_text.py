"""Labels: short, and different where the numbers are; text is drawn as it stands."""

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.text import Text

from lib.explore import Explorer, bars, heatmap, lines, picture, readout
from lib.explore.axes import axis
from lib.explore.text import format_for, written

RUNS = {
    "thousands": [1000.0, 1001.0],
    "millions": [1000000, 1000001, 1000002],
    "close": [1.00001, 1.00002, 1.00003],
    "tiny": [2e-10, 2.00001e-10],
    "float neighbours": [0.3, 0.1 + 0.2],
    "training steps": [0, 9950, 10000, 10050],
    "huge": [1e15, 1e15 + 1],
}
each_run = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)


@each_run
def test_numbers_that_differ_get_labels_that_differ_wherever_they_stand(run: list[float]):
    values, count = np.zeros((len(run), len(run))), len(run)
    explorer = Explorer(
        {"s": run},
        [
            heatmap(values, x=run, y=run, sliders=[]),
            bars(values[0], names=run, sliders=[]),
            lines(values[:1], x=run, sliders=[]),
        ],
    )
    squares, shares, curve = explorer.panels
    for labels in (squares["rows"], squares["columns"], shares["names"], explorer.sliders[0]["labels"]):
        assert len(set(labels)) == count, labels
    assert len(set(curve["x"])) == count
    assert len({written(x, curve["x_format"]) for x in curve["x"]}) == count
    np.testing.assert_allclose(curve["x"], run, rtol=1e-6, atol=1e-4 * np.ptp(run))


@given(st.sets(st.floats(-1e12, 1e12), min_size=1, max_size=8), st.integers(1, 6))
def test_a_format_tells_any_numbers_apart_with_the_fewest_digits(numbers: set[float], digits: int):
    spec = format_for(sorted(numbers), digits)
    assert len({written(number, spec) for number in numbers}) == len(numbers)
    if spec.endswith("g") and int(spec[1:-1]) > digits:
        shorter = f".{int(spec[1:-1]) - 1}g"
        assert len({written(number, shorter) for number in numbers}) < len(numbers)


@pytest.mark.parametrize(
    ("low", "high", "log"),
    [
        (0, 5e-13, False),
        (1e6, 1e6 + 2, False),
        (-3e-7, 4e-7, False),
        (2.1e6, 2.9e6, False),
        (0.1, 0.7, False),
        (1e-12, 1e-3, True),
        (2, 8, True),
        (2.2, 2.6, True),
        (7, 7, False),
        (7, 7, True),
        (1e17, 1e17, False),
    ],
)
def test_every_axis_has_ticks_that_differ_inside_its_limits(low: float, high: float, log: bool):
    made = axis(low, high, log=log)
    places, labels = zip(*made["ticks"], strict=True)
    assert len(places) >= 2
    assert len(set(places)) == len(set(labels)) == len(places)
    first, last = made["limits"]
    air = 1e-6 * (last - first)
    assert first < last
    assert all(first - air <= place <= last + air for place in places)
    step = np.diff(places).min() if not log else min(places)
    np.testing.assert_allclose([float(label) for label in labels], places, rtol=1e-9, atol=1e-6 * step)


MARKUP = ["$$", "$x$", "$\\nosuch$", "a$b", "\\$", "_x", "<b>", "&lt;", "{0}", "%s", "^2"]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Figures that are made, drawn as for a reader."""
    made: list[Figure] = []
    monkeypatch.setattr(picture, "Figure", lambda **kwargs: made.append(Figure(**kwargs)) or made[-1])
    return made


def texts_of(figure: Figure) -> set[str]:
    """Every text of a figure as the reader sees it, which must be no formula."""
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_text()]
    seen = [text._preprocess_math(text.get_text()) for text in texts]  # pyright: ignore[reportAttributeAccessIssue]
    assert [text for text, formula in seen if formula] == []
    return {text for text, _ in seen}


@pytest.mark.parametrize("text", MARKUP)
def test_text_that_is_markup_elsewhere_stands_in_the_picture_as_it_is(text: str, drawn: list[Figure]):
    names, values = [text, f"{text} 2"], [[1.0, 2.0], [3.0, 4.0]]
    panels = [
        heatmap(values, x=names, y=names, x_label=f"{text} x", y_label=f"{text} y", label=f"{text} h", sliders=[]),
        lines(values, x=[1, 2], names=names, x_label=f"{text} x", y_label=f"{text} y", label=f"{text} l", sliders=[]),
        bars([1, 2], names=names, label=f"{text} b", sliders=[]),
        readout("say: {w}", w=[text, text], label=text),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Explorer({f"{text} s": names}, panels, label=text).png()
    seen = texts_of(drawn[0])
    wanted: list[Any] = [*names, *(f"{text} {letter}" for letter in "xyhlb"), f"{text} s = {text}", f"say: {text}"]
    assert [word for word in wanted if word not in seen] == []


def test_logarithmic_axes_are_labelled_as_on_the_page(drawn: list[Figure]):
    panel = lines([[1.0, 100.0]], x=[1, 1000], x_log=True, y_log=True, sliders=[])
    Explorer({"s": [1]}, [panel]).png()
    axes = drawn[0].axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        text for _, text in panel.options["x_axis"]["ticks"]
    ]
    assert {"1", "10", "100", "1000"} <= texts_of(drawn[0])
