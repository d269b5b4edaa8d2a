"""A matrix product in a real Chromium, mounted by the page's own host: pointed at, moved, read, on a phone too."""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, Locator, Page, expect

from lib.explore import Explorer, heatmap, product
from lib.explore.multiplication import multiplied_out, printed
from lib.explore.text import written

HOST = (Path(__file__).parents[2] / "book" / "assets" / "explorer-host.js").read_text(encoding="utf-8")
STATE = "application/vnd.jupyter.widget-state+json"
SHOWN = ["_esm", "_css", "label", "language", "sliders", "panels", "slider_0"]
HEADS, QUERIES, KEYS, DIM = 2, 3, 5, 4
Show = Callable[..., Page]


def scores() -> Explorer:
    """Two heads of 3 queries, 5 keys and 4 dimensions: a transposition shows."""
    g = torch.Generator().manual_seed(3)
    q, k = torch.randn(HEADS, QUERIES, DIM, generator=g), torch.randn(HEADS, KEYS, DIM, generator=g)
    panel = product(
        q,
        k.mT,
        rows="一岁枯",
        inner=["d₁", "d₂", "d₃", "d₄"],
        columns="离离原上草",
        names=["Q", "Kᵀ", "QKᵀ ÷ √d"],
        notes=["每行一个查询", "每列一个键", ""],
        divide_by=2.0,
        mask=torch.ones(QUERIES, KEYS, dtype=torch.bool).tril(1),
        start=(1, 2),
        label="打分",
    )
    return Explorer({"头": [1, 2]}, [panel])


def wide() -> Explorer:
    values = torch.randn(8, 8, generator=torch.Generator().manual_seed(0))
    panels = [product(values, 10 * values.T, label="8 × 8", sliders=[]), heatmap(values, sliders=[])]
    return Explorer({"step": [1]}, panels)


def markup(explorer: Explorer, theme: str) -> str:
    """A page with one explorer, as the build embeds it."""
    state = {name: str(getattr(explorer, name)) if name[0] == "_" else getattr(explorer, name) for name in SHOWN}
    buffers = [
        {"path": ["buffers", i], "data": b64encode(bytes(buffer)).decode()} for i, buffer in enumerate(explorer.buffers)
    ]
    entry = {"state": {**state, "buffers": [None] * len(buffers)}, "buffers": buffers}
    embedded = json.dumps({"state": {"e": entry}}).replace("<", "\\u003c")
    return (
        f'<!doctype html><html lang="zh" data-theme="{theme}"><meta charset="utf-8"><title>t</title>'
        '<meta name="viewport" content="width=device-width"><body><main><h1>t</h1><div data-explorer="e"></div></main>'
        f'<script type="{STATE}">{embedded}</script><script>{HOST}</script>'
    )


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Show]:
    """Opens a page with the explorer given; its console has to stay empty."""
    trouble: list[str] = []
    opened = []

    def to_page(explorer: Explorer, *, width: int = 1280, theme: str = "light") -> Page:
        file = tmp_path / "page.html"
        file.write_text(markup(explorer, theme), encoding="utf-8")
        page = browser.new_page(viewport={"width": width, "height": 900})
        opened.append(page)
        page.on("console", lambda m: trouble.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.goto(file.as_uri())
        page.wait_for_function("window.explorers?.length === 1")
        return page

    yield to_page
    for page in opened:
        page.close()
    assert not trouble


def sentence(explorer: Explorer, row: int, column: int) -> str:
    options = {**explorer._panels[0].options, "start": (row, column)}
    return "".join(multiplied_out(options, explorer.shown()[0], explorer.language))


def cell(page: Page, row: int, column: int) -> Locator:
    return page.get_by_role("grid").get_by_role("row").nth(row + 1).get_by_role("gridcell").nth(column)


def said(page: Page) -> str:
    """The sentence shown; lines may end at its spaces, but not inside a product."""
    return page.locator("output.value").inner_text().replace("\xa0", " ")


def picked(page: Page, place: str) -> list[str]:
    return page.locator(f".{place} .picked:is([role=cell], [role=gridcell])").all_inner_texts()


def test_the_picked_cell_is_multiplied_out_and_its_row_and_column_stand_out(show: Show):
    explorer = scores()
    page = show(explorer)
    assert said(page) == sentence(explorer, 1, 2)
    cell(page, 2, 3).hover()
    assert said(page) == sentence(explorer, 2, 3)
    now = explorer.shown()[0]
    assert picked(page, "left") == [printed(x, ".2f") for x in now["left"][2]]
    assert picked(page, "right") == [printed(x, ".2f") for x in now["right"][:, 3]]
    assert picked(page, "result") == [printed(now["values"][2, 3], ".2f")]
    page.mouse.move(2, 2)
    assert said(page) == sentence(explorer, 2, 3)  # it stays


def test_touch_picks_a_cell(show: Show):
    explorer = scores()
    page = show(explorer)
    cell(page, 0, 4).dispatch_event("pointerdown", {"pointerType": "touch"})
    assert said(page) == sentence(explorer, 0, 4)
    assert said(page).endswith("，这一格被遮住")
    assert page.locator(".blocked").count() == 6
    assert all("这一格被遮住" in (c.get_attribute("aria-label") or "") for c in page.locator(".blocked").all())


def test_arrow_keys_move_the_cell_within_the_result_and_say_it(show: Show):
    explorer = scores()
    page = show(explorer)
    assert page.locator("[role=gridcell][tabindex='0']").count() == 1
    page.locator("[role=gridcell][tabindex='0']").focus()
    way = {"ArrowDown": (2, 2), "ArrowRight": (2, 3), "ArrowUp": (1, 3), "End": (1, 4), "Home": (1, 0)}
    for key, (row, column) in way.items():
        page.keyboard.press(key)
        assert said(page) == sentence(explorer, row, column)
        focused = page.locator("[role=gridcell]:focus")
        assert focused.get_attribute("tabindex") == "0"
        assert focused.get_attribute("aria-selected") == "true"
    page.keyboard.press("ArrowLeft")  # the edge
    expect(page.locator(".aloud")).to_have_text(sentence(explorer, 1, 0))


def test_a_slider_changes_all_three_matrices_and_keeps_the_cell(show: Show):
    explorer = scores()
    page = show(explorer)
    page.locator("footer button").first.click()
    page.locator("input[type=range]").press("ArrowRight")
    explorer.slider_0 = 1
    expect(page.locator("output.value")).to_have_text(sentence(explorer, 1, 2))
    now = explorer.shown()[0]
    tables = page.locator("table").all()
    for table, name in zip(tables, ("left", "right", "values"), strict=True):
        numbers = [[written(x, ".2f") for x in row] for row in now[name]]
        js = "table => [...table.tBodies[0].rows].map(r => [...r.cells].slice(1).map(c => c.firstChild.textContent))"
        assert table.evaluate(js) == numbers
    assert [text.strip() for text in page.locator("td small").all_inner_texts()] == ["这一格被遮住"] * 6
    captions = ["打分：Q", "打分：Kᵀ", "打分：QKᵀ ÷ √d"]
    assert page.locator("caption").all_inner_texts() == captions
    low, high = (written(number, ".2f") for number in (now["values"].min(), now["values"].max()))
    assert f"打分，从 {low} 到 {high}" in (page.locator(".stage").get_attribute("aria-label") or "")


def box(locator: Locator) -> dict[str, float]:
    found = locator.bounding_box()
    assert found is not None
    x, y = found["x"], found["y"]
    return {"x": x, "y": y, "right": x + found["width"], "bottom": y + found["height"]}


def test_rows_and_columns_meet_as_on_paper(show: Show):
    page = show(scores())
    left, right = page.locator(".left [role=row]"), page.locator(".right [role=row]")
    for row in range(QUERIES):
        assert box(left.nth(row + 1).get_by_role("cell").first)["y"] == box(cell(page, row, 0))["y"]
    for column in range(KEYS):
        assert box(right.nth(1).get_by_role("cell").nth(column))["x"] == box(cell(page, 0, column))["x"]
    assert box(page.locator(".stage > .left"))["right"] <= box(page.locator(".stage > .result"))["x"]
    assert box(page.locator(".stage > .right"))["bottom"] <= box(page.locator(".stage > .result"))["y"]


@pytest.mark.parametrize("make", [scores, wide])
def test_on_a_phone_the_matrices_stack_and_the_page_does_not_overflow(show: Show, make: Callable[[], Explorer]):
    page = show(make(), width=375)
    expect(page.locator(".stage")).to_have_class(re.compile("stacked"))
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    tops = [box(page.locator(f".stage > .{place}"))["y"] for place in ("left", "right", "result")]
    assert tops == sorted(set(tops))


def test_colours_follow_the_theme(show: Show):
    page = show(scores())
    script = """() => [...document.querySelectorAll('.cells .picked, .blocked, .value span')]
        .map((node) => getComputedStyle(node)).map((style) => style.color + style.background)"""
    light = page.evaluate(script)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    assert all(a != b for a, b in zip(light, page.evaluate(script), strict=True))
