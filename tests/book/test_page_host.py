"""The page's own host, on small pages: a broken explorer among others, names that are markup, what is read aloud."""

import runpy
from base64 import b64encode
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any

import pytest
from ipywidgets.embed import dependency_state, embed_data
from playwright.sync_api import Browser, Page, expect

from lib.explore import Explorer, bars, heatmap, image, lines, readout
from tests.book.conftest import ROOT

EXTENSION = runpy.run_path(str(ROOT / "book/extensions/explorers.py"))
HOST = (ROOT / "book/assets/explorer-host.js").read_text(encoding="utf-8")
MARKUP = "<!-- <script> </script> <b>$$</b> &lt; \" ' `"
SLOT = '<div data-explorer="{}"><noscript><img src="data:image/png;base64,{}" alt="{}"/></noscript></div>'

Show = Callable[..., Page]
PNG: dict[str, str] = {}


def png(name: str, explorer: Explorer) -> str:
    """The explorer's picture, drawn once for all that are called so."""
    return PNG.get(name) or PNG.setdefault(name, b64encode(explorer.png()).decode())


@pytest.fixture
def trouble() -> list[str]:
    """What the page says in its console as an error or a warning."""
    return []


@pytest.fixture
def show(browser: Browser, tmp_path: Path, trouble: list[str]) -> Iterator[Show]:
    """Opens a page with the explorers given; `harm` changes the state of the first before it is embedded."""
    opened = []

    def to_page(*explorers: Explorer, language: str = "zh-CN", harm: Callable[[Any], object] | None = None) -> Page:
        own = dependency_state(explorers, drop_defaults=False)
        state = EXTENSION["slim"](embed_data(explorers, state=own)["manager_state"])
        if harm:
            harm(state["state"][explorers[0].model_id])
        slots = [SLOT.format(e.model_id, png(repr(e), e), escape(repr(e))) for e in explorers]
        body = "\n".join(slots) + f'\n<script type="{EXTENSION["STATE"]}">{EXTENSION["embeddable"](state)}</script>'
        head = f'<!doctype html><html lang="{language}"><meta charset="utf-8"><title>t</title>'
        file = tmp_path / "page.html"
        file.write_text(f"{head}<body>{body}<p id='end'>end</p><script>{HOST}</script>", encoding="utf-8")
        page = browser.new_page()
        opened.append(page)
        page.on(
            "console", lambda message: trouble.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.goto(file.as_uri(), wait_until="networkidle")
        return page

    yield to_page
    for page in opened:
        page.close()


def small(name: str = "σ") -> Explorer:
    values = [[[0.25, 0.5, 1.0], [2.0, 3.0, 4.0]], [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]]
    return Explorer(
        {name: [0.1, 0.5]},
        [
            heatmap(values, label="w"),
            lines(values, x=[0, 1, 2], names=["f", "g"]),
            bars([[0.5, 0.25], [1, 0]], names="ab"),
            image([[[0, 1]], [[1, 0]]]),
            readout(f"at {{{name}}} it is {{v:.1f}}", v=[1.5, 2.5]),
        ],
    )


HARM = {
    "unknown kind": lambda model: model["state"]["panels"][1].update(kind="pie"),
    "lost array": lambda model: model["state"]["panels"][0].update(arrays={}),
    "lost buffer": lambda model: model.update(buffers=[]),
    "unknown position": lambda model: model["state"].update(slider_0=9, panels=[{"kind": "readout"}]),
    "array beyond its buffer": lambda model: model["state"]["panels"][0]["arrays"]["values"].update(shape=[9, 9, 9]),
}


@pytest.mark.parametrize("harm", HARM.values(), ids=HARM)
def test_an_explorer_that_fails_is_shown_as_its_picture_and_the_others_live(
    show: Show, trouble: list[str], harm: Callable[[Any], object]
):
    page = show(small(), small(), small(), harm=harm)
    broken = page.locator("[data-explorer]").first
    expect(broken.locator("p")).to_have_text("这个演示没能启动，下面是它的图。")
    assert broken.locator("img").evaluate("img => img.naturalWidth") > 100
    assert broken.locator("img").get_attribute("alt") == "Explorer(w; σ × 2)"
    assert broken.locator("div.explorer").count() == 0
    assert page.locator("div.explorer").count() == page.evaluate("window.explorers.length") == 2
    for explorer in page.locator("div.explorer").all():
        explorer.locator("input[type=range]").press("ArrowRight")
        expect(explorer.locator("output.say")).to_have_text("at 0.5 it is 2.5")
    assert trouble  # the reason, for whoever looks


def test_a_page_whose_widget_code_does_not_run_shows_all_pictures(show: Show):
    page = show(small(), small(), language="en", harm=lambda model: model["state"].update(_esm="this is no module"))
    assert page.locator(".explorer-failed").first.text_content() == "This explorer didn't start; here is its picture."
    assert page.locator("[data-explorer] img").count() == page.locator(".explorer-failed").count() == 2


def test_names_that_are_markup_elsewhere_are_text_on_the_page(show: Show, trouble: list[str]):
    names = [MARKUP, "</script><img src=x onerror=alert(1)>"]
    odd = Explorer(
        {MARKUP: names},
        [
            heatmap([[1.0, 2.0], [3.0, 4.0]], x=names, y=names, x_label=MARKUP, label=MARKUP, note=MARKUP, sliders=[]),
            lines([[1.0, 2.0], [3.0, 4.0]], x=[0, 1], names=names, y_label=MARKUP, sliders=[]),
            bars([1, 2], names=names, sliders=[]),
            readout("it says {word}", word=names),
        ],
        label=MARKUP,
    )
    page = show(odd, small())
    assert page.locator("#end").inner_text() == "end", trouble
    assert page.locator("div.explorer").count() == 2, trouble
    explorer = page.locator("div.explorer").first
    assert explorer.get_attribute("aria-label") == MARKUP
    assert explorer.locator(".slider b").text_content() == MARKUP
    assert explorer.locator(".slider output").text_content() == MARKUP
    assert explorer.locator("output.say").text_content() == f"it says {MARKUP}"
    assert explorer.locator("figcaption b").first.text_content() == MARKUP
    assert [e.text_content() for e in explorer.locator(".bars span:nth-child(3n+1)").all()] == names
    assert explorer.locator("svg text", has_text="onerror").count() == 2
    explorer.locator("footer button").first.click()
    assert explorer.locator("th", has_text="onerror").count() > 0
    assert page.locator("img").count() == 0
    assert trouble == []


ALOUD = """root => {
    const live = (node) => node.getAttribute('aria-live') ?? (node.matches('output, [role=status]') ? 'polite' : 'off');
    return [...root.querySelectorAll('*')].filter((node) => live(node) !== 'off').map((node) => node.className);
}"""


def test_one_sentence_is_read_aloud_when_the_reader_has_come_to_rest(show: Show):
    page = show(small())
    explorer = page.locator("div.explorer")
    assert explorer.locator("output").count() > 5
    assert explorer.evaluate(ALOUD) == ["aloud"]
    aloud = explorer.locator(".aloud")
    assert aloud.text_content() == ""  # nothing as the page opens
    page.evaluate("""() => {
        window.said = [];
        new MutationObserver(() => window.said.push(document.querySelector('.aloud').textContent))
            .observe(document.querySelector('.aloud'), { childList: true });
    }""")
    # In one go: between two keys that a busy machine is slow to press, a reader would have come to rest.
    explorer.locator("input[type=range]").evaluate("""slider => {
        for (const value of [1, 0, 1]) {
            slider.value = value;
            slider.dispatchEvent(new Event("input", { bubbles: true }));
        }
    }""")
    expect(aloud).to_have_text("at 0.5 it is 2.5")
    plot = explorer.locator(".plot").first
    plot.evaluate("""plot => {
        plot.focus();
        const press = () => plot.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
        press();
        press();
    }""")
    expect(aloud).to_have_text("row 0 · column 1: 1.000")
    plot.hover(position={"x": 200, "y": 100})
    page.wait_for_timeout(600)
    assert page.evaluate("window.said") == ["at 0.5 it is 2.5", "row 0 · column 1: 1.000"]
    assert aloud.bounding_box()["width"] <= 1  # pyright: ignore[reportOptionalSubscript]
