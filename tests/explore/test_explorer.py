"""The explorer's Python side: what it ships, what it refuses, how it follows its sliders."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from ipywidgets import IntSlider, jslink

from lib.explore import Explorer, bars, heatmap, image, lines, readout
from lib.explore.layout import at, slider_axes
from lib.explore.picture import sentence

SIGMAS = [0.1, 0.5, 1.0, 2.0]
KINDS = ["a", "b", "c"]


def decoded(explorer: Explorer, panel: int, name: str = "values") -> np.ndarray:
    """What the browser will read: the inverse of the encoding, as explorer.js does it."""
    spec = explorer.panels[panel]["arrays"][name]
    dtype = {"uint8": "u1", "float16": "<f2", "float32": "<f4", "float64": "<f8"}[spec["dtype"]]
    return spec["scale"] * np.frombuffer(explorer.buffers[spec["buffer"]], dtype).astype(float).reshape(spec["shape"])


def test_every_number_arrives_within_its_precision():
    values = torch.randn(4, 3, 5, 7, generator=torch.Generator().manual_seed(0))
    sliders = {"σ": SIGMAS, "kind": KINDS}
    explorer = Explorer(sliders, [heatmap(values), lines(values, x=range(7), names=list("abcde"))])
    np.testing.assert_allclose(decoded(explorer, 0), values, rtol=0, atol=np.ptp(values.numpy()) / 1024)
    np.testing.assert_allclose(decoded(explorer, 1), values, rtol=2**-24)


def test_a_panel_that_leaves_out_a_slider_serves_all_its_positions():
    values = torch.arange(3.0 * 2 * 5).reshape(3, 2, 5)
    explorer = Explorer({"σ": SIGMAS, "kind": KINDS}, [heatmap(values, sliders=["kind"]), heatmap(values[None])])
    assert explorer.panels[0] == explorer.panels[1]
    assert explorer.panels[0]["arrays"]["values"]["shape"] == [1, 3, 2, 5]
    np.testing.assert_array_equal(at(decoded(explorer, 0), (3, 2)), values[2])


def test_arrays_with_the_same_bytes_are_shipped_once():
    weights = torch.rand(4, 6, 8, generator=torch.Generator().manual_seed(0))
    fit = lines(torch.zeros(4, 6, 1, 5), x=range(5), dots=(range(8), range(8)), dot_weights=weights)
    explorer = Explorer({"σ": SIGMAS, "x": range(6)}, [fit, heatmap(weights, sliders=["σ"], mark_row="x")])
    assert len(explorer.buffers) == 2


def test_bfloat16_and_tensors_that_require_grad_are_taken():
    values = torch.rand(4, 2, 3, requires_grad=True, generator=torch.Generator().manual_seed(0))
    explorer = Explorer({"σ": SIGMAS}, [heatmap(values), heatmap(values.bfloat16())])
    np.testing.assert_allclose(decoded(explorer, 0), decoded(explorer, 1), atol=2**-8)


ONE = {"σ": SIGMAS}
BETWEEN: Any = 1.5
NO_PANEL: Any = 3
TWO = {"σ": SIGMAS, "kind": KINDS}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Explorer({}, [heatmap(torch.zeros(2, 3))]), "sliders must hold 1 to 6 sliders, got 0"),
        (
            lambda: Explorer({name: [1] for name in "abcdefg"}, [readout("x")]),
            "sliders must hold 1 to 6 sliders, got 7",
        ),
        (lambda: Explorer(ONE, []), "panels must hold at least one panel, got none"),
        (lambda: Explorer({"σ": []}, [readout("x")]), "slider 'σ' must be one row of values, got shape (0,)"),
        (lambda: Explorer({"σ": [1, float("nan")]}, [readout("x")]), "slider 'σ' must hold finite numbers or strings"),
        (lambda: Explorer(ONE, [readout("x")], start={"σ": 4}), "start of slider 'σ' must be a position in 0…3, got 4"),
        (
            lambda: Explorer(ONE, [readout("x")], start={"T": 0}),
            "start names the slider 'T', but the sliders are ['σ']",
        ),
        (
            lambda: Explorer(ONE, [readout("x")], start={"σ": BETWEEN}),
            "start of slider 'σ' must be a position in 0…3, got 1.5",
        ),
        (
            lambda: Explorer(ONE, [NO_PANEL]),
            "panels must be made by heatmap, lines, bars, image, product or readout, got int",
        ),
        (lambda: Explorer(ONE, [readout("x")], play="T"), "play names the slider 'T', but the sliders are ['σ']"),
        (lambda: Explorer(ONE, [readout("x")], formats={"σ": "x"}), "slider 'σ': format must be one of"),
        (
            lambda: Explorer(ONE, [heatmap(torch.zeros(3, 5, 7), label="w")]),
            "panel 0 (heatmap \"w\"): values has 3 positions on 'σ', expected 4 (or 1), shape (3, 5, 7)",
        ),
        (
            lambda: Explorer(TWO, [heatmap(torch.zeros(4, 5, 7))]),
            "panel 0 (heatmap): values must have 2 slider axes ['σ', 'kind'] and 2 of its own, got shape (4, 5, 7)",
        ),
        (
            lambda: Explorer(ONE, [heatmap(torch.zeros(4, 5, 7), sliders=["T"])]),
            "sliders names 'T', but the sliders are",
        ),
        (lambda: Explorer(TWO, [readout("x", sliders=["kind", "σ"])]), "sliders must follow the explorer's order"),
        (lambda: heatmap(torch.zeros(4, 5, 7), sliders="σ"), "sliders must be a sequence of names such as ('σ',)"),
        (
            lambda: heatmap(torch.full((4, 5), torch.nan)),
            "heatmap: values must be finite, got 20 NaN or infinite of 20",
        ),
        (lambda: heatmap(torch.zeros(5)), "heatmap: values needs at least 2 axes of its own, got shape (5,)"),
        (lambda: heatmap(torch.zeros(0, 5)), "heatmap: values is empty, shape (0, 5)"),
        (lambda: heatmap([["a", "b"]]), "heatmap: values must be an array of numbers, got list"),
        (lambda: heatmap(torch.zeros(4, 5), x=range(4)), "heatmap: x must name the 5 columns, got 4 labels"),
        (lambda: heatmap(torch.zeros(4, 5), y=range(5)), "heatmap: y must name the 4 rows, got 5 labels"),
        (lambda: heatmap(torch.zeros(4, 5), scale="log"), 'heatmap: scale must be "linear" or "sqrt", got \'log\''),
        (
            lambda: heatmap(torch.zeros(4, 5), limits=(1, 0)),
            "heatmap: limits must be (low, high) with low < high, got (1, 0)",
        ),
        (
            lambda: bars([1, 2], names="ab", limits=(0, float("inf"))),
            "bars: limits must be (low, high) with low < high, got (0, inf)",
        ),
        (lambda: readout("{n:d}", n=[2**60]), "readout: n must hold integers of at most 2^53, got"),
        (lambda: heatmap(torch.zeros(4, 5), format="%.2f"), "heatmap: format must be one of"),
        (
            lambda: Explorer(ONE, [heatmap(torch.zeros(4, 5, 7), mark_row="σ")]),
            "panel 0 (heatmap): mark_row needs 5 positions, but slider 'σ' has 4",
        ),
        (
            lambda: Explorer(ONE, [heatmap(torch.zeros(4, 5, 7), mark_row="T")]),
            "mark_row names 'T', but the sliders are",
        ),
        (
            lambda: lines(torch.zeros(4, 2, 9), x=range(8), names="ab"),
            "lines: x must have shape (9,) like the last axis",
        ),
        (lambda: lines(torch.zeros(1, 2), x=[1, 1]), "lines: x must increase"),
        (lambda: lines(torch.zeros(4, 2, 9), x=range(9)), "lines: names must hold 2 names, one per series, got 1"),
        (lambda: lines(torch.zeros(1, 2), x=[0, 1], dashed=["f"]), "lines: dashed must be among names [''], got ['f']"),
        (lambda: lines(torch.zeros(1, 2), x=[0, 1], y_log=True), "lines: y_log needs positive values, got 0"),
        (lambda: lines(torch.ones(1, 2), x=[0, 1], x_log=True), "lines: x_log needs positive values, got 0"),
        (lambda: lines(torch.ones(1, 2), x=[0, 1], dots=([1], [1, 2])), "lines: dots must be (x, y) of one length"),
        (
            lambda: lines(torch.ones(1, 2), x=[0, 1], dot_weights=[1.0]),
            "lines: dot_weights must weigh the 0 dots, got 1",
        ),
        (
            lambda: Explorer({"kind": KINDS}, [lines(torch.ones(3, 1, 2), x=[0, 1], mark_x="kind")]),
            "mark_x needs a slider with numbers, but 'kind' holds strings",
        ),
        (lambda: bars([-0.5, 1], names="ab"), "bars: values must not be negative, got -0.5"),
        (lambda: bars([0.5, 1], names="abc"), "bars: names must name the 2 bars, got 3 labels"),
        (lambda: image(torch.full((4, 5), 2.0)), "image: values must lie in 0…1, got 2 to 2"),
        (lambda: image(torch.zeros(3, 4, 5), channels=3), "image: the last axis of values must hold 3 channels"),
        (lambda: image(torch.zeros(4, 5), channels=2), "image: channels must be 1 or 3, got 2"),
        (
            lambda: readout("{a}", a=[1.0], b=[2.0]),
            "readout: the template must use each value it is given, but not ['b']",
        ),
        (
            lambda: Explorer(ONE, [readout("{T}")]),
            "the template's field 'T' is neither a value nor one of the sliders ['σ']",
        ),
        (lambda: readout("{a:>5}", a=[1.0]), "readout: format must be one of"),
    ],
)
def test_bad_arguments_say_what_was_expected_and_what_came(build: Any, message: str):
    with pytest.raises(ValueError, match=re.escape(message)):
        build()


def test_positions_are_traits_that_start_where_told_and_stay_on_their_axis():
    explorer = Explorer(TWO, [readout("{σ} {kind}")], start={"kind": 2})
    assert explorer.positions == (0, 2)
    assert explorer.value("kind") == "c"
    explorer.slider_0 = 3
    assert explorer.value("σ") == 2.0
    for trait, message in (
        ("slider_0", "slider_0 (σ) must be a position in 0…3, got 4"),
        ("slider_2", "slider_2 (unused)"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            setattr(explorer, trait, 4)
    assert explorer.positions == (3, 2)


def test_a_position_can_be_observed_and_linked():
    explorer, seen = Explorer(TWO, [readout("{σ}")]), []
    explorer.observe(lambda change: seen.append(change["new"]), explorer.at("kind")[1])
    explorer.slider_1 = 2
    assert seen == [2]
    link = jslink((IntSlider(max=3), "value"), explorer.at("σ"))
    assert link.target == (explorer, "slider_0")
    with pytest.raises(ValueError, match=re.escape("slider must be one of ['σ', 'kind'], got 'T'")):
        explorer.at("T")


def test_slider_values_are_written_by_their_format():
    sliders = {"T": torch.tensor([0.5, 1.0]), "k": [1, 40], "kind": ["a", "b"], "n": [0.1, 2.0]}
    explorer = Explorer(sliders, [readout("x")], formats={"T": ".1f"})
    assert [slider["labels"] for slider in explorer.sliders] == [["0.5", "1.0"], ["1", "40"], ["a", "b"], ["0.1", "2"]]


@pytest.mark.parametrize(("label", "language"), [("注意力", "zh"), ("attention", "en")])
def test_the_controls_speak_the_language_of_the_labels(label: str, language: str):
    assert Explorer(ONE, [readout("x", label=label)]).language == language


def test_every_kind_has_a_figure_without_javascript():
    values = torch.rand(4, 6, 8, generator=torch.Generator().manual_seed(0))
    panels = [
        heatmap(values - 0.5, scale="sqrt", label="热力图"),
        lines(
            values, x=range(1, 9), names=list("abcdef"), dashed=["b"], mark_x="σ", x_log=True, y_log=True, label="曲线"
        ),
        lines(values[:, :1], x=range(8), dots=(range(8), range(8)), dot_weights=values[:, 0]),
        bars(values[..., 0], names="abcdef", label="条形"),
        image(values, label="灰度"),
        image(values[..., None].expand(-1, -1, -1, 3), channels=3),
        readout("在 σ = {σ:.2f} 处：{n:d}，{t}", n=[1, 2, 3, 4], t=["床", "前", "明", "月"]),
    ]
    explorer = Explorer(ONE, panels, start={"σ": 1})
    bundle, _ = explorer._repr_mimebundle_() or ({}, {})
    assert set(bundle) == {"text/plain", "image/png", "application/vnd.jupyter.widget-view+json"}
    first = explorer.png()
    assert first[:8] == b"\x89PNG\r\n\x1a\n"
    assert first == explorer.png()
    explorer.slider_0 = 3
    assert first != explorer.png()


def test_the_picture_says_the_same_sentence_as_the_page():
    panel = readout("{σ} {σ:.3f}: {share:.1%} of {n:,d}, {kind}", share=[0.25] * 4, n=[1234567] * 4, kind=[*"abcd"])
    slider = slider_axes(ONE, start={}, play=None, formats={"σ": ".2f"})[0]
    now = {"share": np.array(0.25), "n": np.array(1234567.0), "kind": np.array("b", dtype=object)}
    assert sentence(panel, now, {"σ": (slider, 1)}) == "0.50 0.500: 25.0% of 1,234,567, b"
