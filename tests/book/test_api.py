"""The reference of `lib`: every public name stands on its package's page, and leads to its source."""

import importlib
import inspect
import re
from copy import copy
from functools import cache
from urllib.parse import quote

import pytest
import yaml
from bs4 import BeautifulSoup
from playwright.sync_api import expect

from tests.book.conftest import HTML, ROOT, Visit

PACKAGES = ("attention", "transformer", "gpt", "vit", "seq2seq", "data", "training", "plots", "explore")
REPOSITORY = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]
NAMES = [(package, name) for package in PACKAGES for name in importlib.import_module(f"lib.{package}").__all__]


@cache
def parsed(package: str) -> BeautifulSoup:
    page = "training" if package == "plots" else package
    return BeautifulSoup((HTML / f"api_{page}.html").read_text(encoding="utf-8"), "html.parser")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_on_the_page_of_its_package_with_what_it_does(site: str, package: str) -> None:
    page = parsed(package)
    names = [name for module, name in NAMES if module == package]
    assert names
    for name in names:
        assert page.select(f"dt[id='lib.{package}.{name}']"), f"{name} is not in the reference"
        described = page.select(f"dt[id='lib.{package}.{name}'] + dd > p")
        assert described, f"{name} has no docstring"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_leads_to_its_lines_on_github(site: str, package: str) -> None:
    for module, name in NAMES:
        found = getattr(importlib.import_module(f"lib.{module}"), name)
        if module != package or not (inspect.isclass(found) or inspect.isfunction(found)):
            continue
        links = parsed(package).select(f"dt[id='lib.{module}.{name}'] > a:has(.viewcode-link)")
        address = rf"{re.escape(REPOSITORY['url'])}/blob/{REPOSITORY['branch']}/(lib/\w+(?:/\w+)?\.py)#L(\d+)-L(\d+)"
        ((file, start, end),) = re.findall(address, " ".join(str(link["href"]) for link in links))
        lines = (ROOT / file).read_text("utf-8").splitlines()[int(start) - 1 : int(end)]
        assert any(re.match(rf"(def|class) {name}\b", line) for line in lines), f"{file}, line {start}"


def test_docstrings_are_marked_as_english_and_hold_no_markup(site: str) -> None:
    for package in PACKAGES:
        page = copy(parsed(package))
        assert all(entry["lang"] == "en" for entry in page.select("dl.py > dd"))
        for mark in page.select(".doctest, .highlight-text, code, script, dt.sig"):
            mark.decompose()
        text = " ".join(article.get_text() for article in page.select("article"))
        assert text
        assert not re.search(r"`|>>>|\b(Args|Returns|Raises|Source):", text)


@pytest.mark.parametrize("query", ["masked_softmax", "compute_optimal"])
def test_a_name_is_found_by_the_search(visit: Visit, query: str) -> None:
    page = visit(f"search.html?q={quote(query)}")
    expect(page.locator("#search-results > ul > li > a[href^='api_']").first).to_be_visible()
