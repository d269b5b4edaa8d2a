"""Figures: the face that draws Chinese, opaque backgrounds, and axes that say what was passed."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib import font_manager
from matplotlib.axes import Axes

from lib.plots import FONT, curves, heatmap, style, use_style


@pytest.fixture(autouse=True)
def book_style() -> Iterator[None]:
    with warnings.catch_warnings(), matplotlib.rc_context():
        warnings.simplefilter("default")  # as for a reader, whose warnings are not errors
        matplotlib.use("agg")
        use_style()
        yield
        plt.close("all")


def drawn(ax: Axes) -> np.ndarray:
    return np.asarray(ax.images[0].get_array())


def test_the_face_is_the_one_in_the_package():
    assert font_manager.findfont(style()["font.family"][0], fallback_to_default=False) == str(FONT)


def test_chinese_and_mathematical_signs_are_drawn():
    fig = plt.figure()
    fig.text(0, 0, "床前明月光，琵琶「键」：σ √d ≤ ∞ → ∑ x₁ Kᵀ ✓ −1")
    fig.canvas.draw()


def test_a_character_no_font_has_is_an_error():
    fig = plt.figure()
    fig.text(0, 0, "龘")
    with pytest.raises(UserWarning, match=r"Glyph 40856 .* missing"):
        fig.canvas.draw()


def test_figures_are_opaque():
    fig, ax = plt.subplots()
    fig.canvas.draw()
    assert np.asarray(fig.canvas.buffer_rgba())[..., 3].min() == 255  # pyright: ignore[reportAttributeAccessIssue]
    assert fig.get_facecolor() == ax.get_facecolor() == (1, 1, 1, 1)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_heatmap_draws_the_matrix_it_is_given(dtype: torch.dtype):
    weights = torch.tensor([[0, 1, 1], [1, 0, 0]]).to(dtype)
    assert drawn(heatmap(weights)).tolist() == [[0, 1, 1], [1, 0, 0]]


def test_heatmap_takes_tensors_that_require_a_gradient_and_leaves_them_alone():
    weights = torch.rand(2, 3, requires_grad=True)
    before = weights.detach().clone()
    heatmap(weights)
    assert torch.equal(weights, before)
    assert weights.requires_grad


def test_heatmap_scale_starts_at_zero_or_is_symmetric():
    assert heatmap([[0.2, 0.4]]).images[0].get_clim() == (0, 0.4)
    assert heatmap([[-0.2, 0.1]]).images[0].get_clim() == (-0.2, 0.2)
    assert heatmap([[0.0, 0.0]]).images[0].get_clim() == (0, 1)
    assert heatmap([[0.2, 0.4]], limits=(0, 1)).images[0].get_clim() == (0, 1)


def test_heatmap_diverges_only_where_values_are_negative():
    names = [heatmap(values).images[0].get_cmap().name for values in ([[0.0, 1.0]], [[-1.0, 1.0]])]
    assert names == ["book_sequential", "book_diverging"]


def test_heatmap_names_its_rows_and_columns():
    ax = heatmap(
        torch.rand(2, 3), ["我", "你"], torch.tensor([0.0, 0.25, 1.5]), title="权重", xlabel="键", ylabel="查询"
    )
    assert [label.get_text() for label in ax.get_yticklabels()] == ["我", "你"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "0.25", "1.5"]
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == ("权重", "键", "查询")


@pytest.mark.parametrize(
    "labels", [[1000.0, 1001.0, 1002.0], [2e-10, 2.0001e-10, 3e-10], [0.3, 0.1 + 0.2, 0.5], [10000, 10001, 10002]]
)
@pytest.mark.parametrize("kind", [list, torch.tensor, np.array], ids=lambda kind: kind.__name__)
def test_labels_of_different_numbers_differ(labels: list[float], kind: Callable[[list[float]], Any]):
    given = torch.tensor(labels, dtype=torch.float64) if kind is torch.tensor else kind(labels)
    ax = heatmap(np.zeros((3, 3)), given, given)
    for ticks in (ax.get_xticklabels(), ax.get_yticklabels()):
        assert len({label.get_text() for label in ticks}) == 3


@pytest.mark.parametrize("text", ["$$", "$x$", "a$b", "$\\nosuch$", "_x", "\\$"])
def test_every_text_is_drawn_as_it_stands(text: str):
    ax = heatmap(np.zeros((2, 2)), [text, "b"], [text, "b"], title=text, xlabel=text, ylabel=text)
    below = curves(range(2), {text: [0, 1], "b": [1, 0]}, title=text, xlabel=text, ylabel=text)
    for axes in (ax, below):
        axes.figure.canvas.draw()
        legend = axes.get_legend()
        named = [*axes.get_xticklabels(), *axes.get_yticklabels()][:1] if legend is None else legend.get_texts()[:1]
        for drawn in (axes.title, axes.xaxis.label, axes.yaxis.label, *named):
            shown = drawn._preprocess_math(drawn.get_text())  # pyright: ignore[reportAttributeAccessIssue]
            assert shown == (text, False)


def test_a_second_call_adds_its_curves_to_the_legend():
    ax = curves(range(2), {"a": [0, 1]})
    legend = curves(range(2), {"_b": [1, 0]}, ax=ax).get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["a", "_b"]


def test_heatmap_thins_many_labels_and_keeps_them_in_place():
    ax = heatmap(torch.rand(3, 50), columns=range(50))
    assert list(ax.get_xticks()) == list(range(0, 50, 3))
    assert [label.get_text() for label in ax.get_xticklabels()] == [str(i) for i in range(0, 50, 3)]


def test_heatmap_draws_where_it_is_told_and_makes_a_figure_otherwise():
    fig, ax = plt.subplots()
    assert heatmap(torch.rand(2, 3), ax=ax, colorbar=False) is ax
    assert fig.axes == [ax]
    assert heatmap(torch.rand(2, 3)).figure is not fig


def test_a_row_of_bad_shape_or_labels_is_named():
    with pytest.raises(ValueError, match=r"weights must be \(rows, columns\), got \(2, 3, 4\)"):
        heatmap(torch.rand(2, 3, 4))
    with pytest.raises(ValueError, match="rows must name the 2 rows of weights, got 3 labels"):
        heatmap(torch.rand(2, 3), rows="abc")
    with pytest.raises(ValueError, match="columns must name the 3 columns of weights, got 2 labels"):
        heatmap(torch.rand(2, 3), columns="ab")


def test_curves_draws_each_series_over_x():
    x = torch.linspace(0, 1, 5)
    ax = curves(x, {"预测": x.requires_grad_() ** 2, "真实": np.arange(5)}, dashed=["真实"], xlabel="步")
    assert [line.get_label() for line in ax.lines] == ["预测", "真实"]
    assert [line.get_linestyle() for line in ax.lines] == ["-", "--"]
    np.testing.assert_allclose(np.asarray(ax.lines[0].get_ydata()), np.linspace(0, 1, 5) ** 2, rtol=1e-6)
    assert ax.get_xlabel() == "步"


def test_bad_curves_are_named():
    with pytest.raises(ValueError, match=r"series 'loss' must be as long as x, \(3,\), got \(4,\)"):
        curves(range(3), {"loss": range(4)})
    with pytest.raises(ValueError, match=r"dashed must be names in series \['loss'\], got \['truth'\]"):
        curves(range(3), {"loss": range(3)}, dashed=["truth"])


def test_drawing_changes_no_setting():
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        before = dict(matplotlib.rcParams)
        heatmap(torch.rand(2, 3))
        curves(range(3), {"loss": range(3)})
        assert dict(matplotlib.rcParams) == before
