"""Explorers on the published page, in a real Chromium: mounted, moved, read, and compared with torch's numbers."""

import re
from collections.abc import Iterator

import numpy as np
import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Locator, Page

from lib.explore import Explorer
from lib.explore.picture import sentence
from lib.explore.text import written
from tests.book.chapters import PAGES, explorers_of
from tests.book.conftest import HTML, visiting

# Everything that the panels of an explorer draw, as one string.
DRAWN = """root => [...root.querySelectorAll('figure')].map(figure => figure.innerHTML
    + [...figure.querySelectorAll('canvas')].map(canvas => canvas.toDataURL()).join('')).join('')"""

CELLS = (
    "table => [...table.tBodies[0].rows].map(row => [...row.cells].slice(1).map(cell => cell.firstChild.textContent))"
)


@pytest.fixture(scope="module", params=PAGES)
def chapter(request: pytest.FixtureRequest, browser: Browser, site: str) -> Iterator[Page]:
    """Each page with explorers, opened once for all tests."""
    with visiting(browser, site) as visit:
        yield visit(f"{request.param}.html")


def name_of(page: Page) -> str:
    return page.url.rsplit("/", 1)[1].removesuffix(".html")


def each_explorer(page: Page) -> Iterator[Locator]:
    yield from page.locator("div.explorer").all()


def drawn(explorer: Locator) -> str:
    explorer.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return explorer.evaluate(DRAWN)


def test_every_explorer_of_the_source_is_mounted_with_its_parts(chapter: Page):
    computed = explorers_of(name_of(chapter))
    assert chapter.locator("div.explorer").count() == len(computed) > 0
    for explorer, shown in zip(computed, each_explorer(chapter), strict=True):
        names = [slider["name"] for slider in explorer.sliders]
        assert [r.get_attribute("aria-label") for r in shown.locator("input[type=range]").all()] == names
        assert shown.locator("figure").count() == len(explorer.panels)
        assert shown.get_attribute("aria-label") == explorer.label
        assert all(plot.get_attribute("aria-label") for plot in shown.locator(".plot").all())


def test_every_slider_changes_what_is_drawn_by_keyboard(chapter: Page):
    for explorer in each_explorer(chapter):
        for slider in explorer.locator("input[type=range]").all():
            slider.press("Home")
            before = drawn(explorer)
            slider.press("ArrowRight")
            assert slider.input_value() == "1"
            slider.press("End")
            assert slider.input_value() == slider.get_attribute("max")
            assert drawn(explorer) != before, slider.get_attribute("aria-label")


def test_every_slider_changes_what_is_drawn_by_mouse(chapter: Page):
    for explorer in each_explorer(chapter):
        for slider in explorer.locator("input[type=range]").all():
            slider.scroll_into_view_if_needed()
            drawn(explorer)  # what came into sight has its place
            box = slider.bounding_box()
            assert box is not None
            across, middle = box["width"], box["y"] + box["height"] / 2
            chapter.mouse.click(box["x"] + 3, middle)
            assert slider.input_value() == "0"
            before = drawn(explorer)
            chapter.mouse.move(box["x"] + 12, middle)
            chapter.mouse.down()
            chapter.mouse.move(box["x"] + across - 3, middle, steps=4)
            chapter.mouse.up()
            assert slider.input_value() == slider.get_attribute("max")
            assert drawn(explorer) != before, slider.get_attribute("aria-label")


def test_the_numbers_shown_are_those_of_torch(chapter: Page):
    for computed, explorer in zip(explorers_of(name_of(chapter)), each_explorer(chapter), strict=True):
        for key in ("", "Home", "End", "ArrowLeft"):
            for index, slider in enumerate(explorer.locator("input[type=range]").all()):
                slider.press(key) if key else None
                setattr(computed, f"slider_{index}", int(slider.input_value()))
            explorer.locator("footer button").first.click()
            assert explorer.locator("output.say").all_inner_texts() == sentences(computed)
            compare_numbers(computed, explorer)
            explorer.locator("footer button").first.click()


def sentences(computed: Explorer) -> list[str]:
    stands = {s.name: (s, p) for s, p in zip(computed._sliders, computed.positions, strict=True)}
    drawn = zip(computed._panels, computed.shown(), strict=True)
    return [sentence(panel, now, stands) for panel, now in drawn if panel.kind == "readout"]


def compare_numbers(computed: Explorer, explorer: Locator) -> None:
    """Each number of the tables, against torch's: every digit of bars and curves, half the last one elsewhere."""
    drawn = zip(computed._panels, computed.shown(), strict=True)
    arrays = {"readout": [], "product": ["left", "right", "values"]}
    panels = [(panel, now[name]) for panel, now in drawn for name in arrays.get(panel.kind, ["values"])]
    for (panel, values), table in zip(panels, explorer.locator("table").all(), strict=True):
        texts = np.array([[cell.split() for cell in row] for row in table.evaluate(CELLS)])  # a colour is 3 numbers
        values = values[:, None] if panel.kind == "bars" else values.T if panel.kind == "lines" else values
        values = values.reshape(*values.shape[:2], -1)
        assert texts.shape == values.shape
        if panel.arrays["values"].exact:
            spec = panel.options["format"]
            assert texts.ravel().tolist() == [written(value, spec) for value in values.ravel().tolist()]
        else:  # off by half a digit where it is stored, and by half where it is written
            assert (np.abs(np.vectorize(number)(texts) - values) <= 2 * last_digit(texts)).all()


def number(text: str) -> float:
    text = text.replace(",", "")
    return float(text[:-1]) / 100 if text.endswith("%") else float(text)


def last_digit(texts: np.ndarray) -> np.ndarray:
    """Half a unit of the last digit of each number as written."""

    def half(text: str) -> float:
        mantissa, _, exponent = text.rstrip("%").replace(",", "").partition("e")
        places = len(mantissa.partition(".")[2]) - int(exponent or 0) + 2 * text.endswith("%")
        return 0.501 * 10.0**-places

    return np.vectorize(half)(texts).max(axis=-1, keepdims=True)


def test_every_plot_reads_out_values_by_keyboard_mouse_and_touch(chapter: Page):
    for explorer in each_explorer(chapter):
        for figure in explorer.locator("figure:has(.plot)").all():
            plot, value = figure.locator(".plot"), figure.locator("output.value")
            chapter.mouse.move(0, 0)  # off the plot before, which would be left as the page scrolls
            plot.press("ArrowRight")
            first = value.inner_text()
            assert re.search(r"\d", first)
            plot.press("End")
            assert value.inner_text() != first
            plot.press("Escape")
            assert value.inner_text() == ""
            plot.hover()
            assert re.search(r"\d", value.inner_text())
            box = plot.bounding_box()
            assert box is not None
            centre = {"clientX": box["x"] + 0.6 * box["width"], "clientY": box["y"] + box["height"] / 2}
            plot.dispatch_event("pointerdown", {**centre, "pointerType": "touch"})
            assert re.search(r"\d", value.inner_text())


def test_reset_and_play_move_the_sliders(chapter: Page):
    for computed, explorer in zip(explorers_of(name_of(chapter)), each_explorer(chapter), strict=True):
        sliders = explorer.locator("input[type=range]").all()
        for slider in sliders:
            slider.press("End")
        explorer.locator("footer button").nth(1).click()
        drawn(explorer)
        assert [int(slider.input_value()) for slider in sliders] == [slider["start"] for slider in computed.sliders]
        for play in explorer.locator(".slider button").all():
            slider = explorer.locator(".slider:has(button) input")
            slider.press("Home")
            play.click()
            chapter.wait_for_function("input => input.value > 1", arg=slider.element_handle())
            play.click()


def test_one_element_of_an_explorer_is_read_aloud(chapter: Page):
    for explorer in each_explorer(chapter):
        assert explorer.locator("output:not([aria-live=off])").count() == 0
        assert explorer.locator("[aria-live=polite], [role=status]").count() == 1


def test_colours_follow_the_theme(chapter: Page):
    def seen(theme: str) -> list[tuple[str, str]]:
        chapter.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
        behind = "root => getComputedStyle(root).backgroundColor"
        return [(drawn(explorer), explorer.evaluate(behind)) for explorer in each_explorer(chapter)]

    for explorer, light, dark in zip(each_explorer(chapter), seen("light"), seen("dark"), strict=True):
        assert light[1] != dark[1]
        if explorer.locator("figure.heatmap").count():
            assert light[0] != dark[0]


@pytest.mark.parametrize("name", PAGES)
def test_without_javascript_a_figure_stands_in_each_place(site: str, name: str):
    page = BeautifulSoup((HTML / f"{name}.html").read_text("utf-8"), "html.parser")
    assert len(page.select("[data-explorer] > noscript img")) == len(explorers_of(name))
