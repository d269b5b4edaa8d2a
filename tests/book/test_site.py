"""The built site: where its pages stand and lead, what a reader with any screen, theme or keyboard gets."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
import yaml
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Page, expect

from benchmarks import page_weight
from tests.book.conftest import HTML, ROOT, Visit, visiting
from tests.book.mathml import faults

PAGES = [Path(page).name for page in re.findall(r"book/zh/\w+", (ROOT / "_toc.yml").read_text(encoding="utf-8"))]
REPOSITORY = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]
CHAPTERS = [page for page in PAGES if "kernelspec:" in (ROOT / f"book/zh/{page}.md").read_text(encoding="utf-8")]
every_page = pytest.mark.parametrize("name", PAGES)


@pytest.fixture(scope="module", params=PAGES)
def opened(request: pytest.FixtureRequest, browser: Browser, site: str) -> Iterator[Page]:
    """Each page, opened once for all tests that look at it as a whole."""
    with visiting(browser, site) as visit:
        page = visit(f"{request.param}.html")
        page.wait_for_load_state("networkidle")
        yield page


@cache
def parsed(name: str) -> BeautifulSoup:
    return BeautifulSoup((HTML / name).read_text(encoding="utf-8"), "html.parser")


@cache
def identifiers(name: str) -> frozenset[str]:
    return frozenset(re.findall(r'\sid="([^"]+)"', (HTML / name).read_text(encoding="utf-8")))


@every_page
def test_a_page_stands_at_the_root(site: str, name: str) -> None:
    assert (HTML / f"{name}.html").exists()
    assert not (HTML / "book").exists()


@every_page
def test_a_link_leads_to_a_page_and_a_place_on_it(site: str, name: str) -> None:
    for link in parsed(f"{name}.html").select("a[href]"):
        target, anchor = urldefrag(unquote(str(link["href"])))
        if re.match(r"[a-z]+:", target):
            continue
        assert not target.startswith("/"), f"{target} breaks under a sub-path"
        found = identifiers(target or f"{name}.html")
        assert not anchor or anchor in found, f"{name}: {target}#{anchor} leads nowhere"


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_opens_as_a_notebook(site: str, name: str) -> None:
    owner = REPOSITORY["url"].removeprefix("https://github.com/") + "/"
    links = {str(link["href"]) for link in parsed(f"{name}.html").select("a.launch")}
    notebook = f"book/zh/{name}.ipynb"
    assert links == {
        f"https://colab.research.google.com/github/{owner}blob/{REPOSITORY['branch']}/{notebook}",
        f"https://mybinder.org/v2/gh/{owner}{REPOSITORY['branch']}?urlpath=lab/tree/{notebook}",
    }


@every_page
def test_a_picture_says_what_it_shows(site: str, name: str) -> None:
    unnamed = [image["src"] for image in parsed(f"{name}.html").select("img") if image["alt"] == image["src"]]
    assert not unnamed, (
        f"{len(unnamed)} pictures of {name} have no alt text (mystnb: image: alt: in the cell's options)"
    )


@every_page
def test_every_formula_is_valid_mathml(site: str, name: str) -> None:
    assert faults(parsed(f"{name}.html")) == []


@every_page
def test_an_identifier_names_one_place(site: str, name: str) -> None:
    identifiers = [str(element["id"]) for element in parsed(f"{name}.html").select("article [id]")]
    assert sorted(identifiers) == sorted(set(identifiers))


@every_page
def test_the_switch_of_language_leads_to_a_page_that_exists(site: str, name: str) -> None:
    switches = parsed(f"{name}.html").select("a.language")
    assert len(switches) == (ROOT / f"book/en/{name}.md").exists()


def test_no_page_is_heavier_than_its_limit(opened: Page, site: str) -> None:
    sizes = page_weight.first_view(opened, site)
    assert sum(sizes.values()) <= page_weight.LIMIT * 1000, sizes


def test_a_page_fits_a_phone(opened: Page) -> None:
    opened.set_viewport_size({"width": 375, "height": 900})
    width = opened.evaluate("document.documentElement.scrollWidth")
    opened.set_viewport_size({"width": 1280, "height": 900})
    assert width == 375


ENGLISH_IN_THE_FRAME = """() => {
  const outside = "article, code, .katex, .bd-links a, .prev-next-title, .launch, .licence,"
    + ".search-button__kbd-shortcut, script, style, noscript";
  const texts = [document.title];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode())
    if (!walker.currentNode.parentElement.closest(outside)) texts.push(walker.currentNode.textContent);
  for (const element of document.querySelectorAll("body *:not(article a, article img, .explorer input)"))
    for (const name of ["aria-label", "title", "placeholder", "alt", "data-bs-title"])
      if (element.hasAttribute(name)) texts.push(element.getAttribute(name));
  for (const element of document.querySelectorAll("article :is(summary, button)"))
    texts.push(element.textContent);
  return texts.map((text) => text.trim()).filter((text) => /[a-z]{3}/i.test(text));
}"""


def english_in_the_frame(page: Page) -> list[str]:
    texts: list[str] = page.evaluate(ENGLISH_IN_THE_FRAME)
    return [text for text in texts if not re.search(r"[\u4e00-\u9fff]", text)]


def test_the_frame_speaks_chinese(opened: Page) -> None:
    assert english_in_the_frame(opened) == []


def test_the_frame_of_the_search_speaks_chinese(visit: Visit) -> None:
    assert english_in_the_frame(visit("search.html")) == []


CONTRAST = """() => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const paint = (...layers) => {
    for (const layer of layers) { pen.fillStyle = layer; pen.fillRect(0, 0, 1, 1); }
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3).map((v) => v / 255);
  };
  const luminance = (rgb) => rgb.map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const [ratios, poor] = [new Map(), new Map()];
  const contrast = (colour, behind) => {
    const [dim, bright] = [luminance(paint("#fff", ...behind)), luminance(paint("#fff", ...behind, colour))]
      .sort((a, b) => a - b);
    return (bright + 0.05) / (dim + 0.05);
  };
  for (const element of document.querySelectorAll("body *:not(svg *, svg, .katex-mathml *, .katex-mathml)")) {
    const words = [...element.childNodes].filter((n) => n.nodeType === 3 && n.textContent.trim());
    if (!words.length || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const behind = [];
    for (let at = element; at; at = at.parentElement) behind.unshift(getComputedStyle(at).backgroundColor);
    const style = getComputedStyle(element);
    const key = [style.color, ...behind].join();
    if (!ratios.has(key)) ratios.set(key, contrast(style.color, behind));
    const ratio = ratios.get(key);
    const large = parseFloat(style.fontSize) >= 24;
    if (ratio < (large ? 3 : 4.5)) poor.set(element.className + " " + words[0].textContent.trim().slice(0, 20), ratio);
  }
  return Object.fromEntries(poor);
}"""


def test_text_stands_out_from_what_is_behind_it(opened: Page) -> None:
    opened.evaluate("document.querySelectorAll('article details').forEach((d) => { d.name = ''; d.open = true; })")
    opened.emulate_media(reduced_motion="reduce")  # else colours change little by little
    for theme in ("light", "dark"):
        opened.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
        assert opened.evaluate(CONTRAST) == {}, theme


def test_a_reader_of_dark_pages_sees_no_light_one_first(visit: Visit) -> None:
    page = visit("index.html", theme="dark")
    page.route(
        "**/pydata-sphinx-theme.js*", lambda route: route.fulfill(body="")
    )  # the theme sets its colours in a script
    page.goto(page.url, wait_until="domcontentloaded")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_the_colours_change_with_the_button(visit: Visit) -> None:
    page = visit("index.html", theme="light")
    seen = set()
    for _ in range(3):
        page.locator(".theme-switch-button").click()
        seen.add(page.evaluate("document.documentElement.dataset.mode"))
    assert seen == {"light", "dark", "auto"}


def test_an_answer_opens_by_keyboard_and_closes_its_neighbour(visit: Visit) -> None:
    page = visit("index.html")
    answers = page.locator(".check details")
    for number in range(answers.count()):
        answers.nth(number).locator("summary").focus()
        page.keyboard.press("Enter")
        expect(page.locator(".check details[open]")).to_have_count(1)
        expect(answers.nth(number).locator("p").first).to_be_visible()


@pytest.mark.parametrize("name", [name for name in CHAPTERS if name != "index"])
def test_every_solution_is_folded(site: str, name: str) -> None:
    page = parsed(f"{name}.html")
    solutions = page.select("details.solution, .tag_solution details")
    assert solutions
    assert not any(solution.has_attr("open") for solution in solutions)
    assert len(page.select(".tag_solution .cell_input")) == len(page.select(".tag_solution details .cell_input"))


@every_page
def test_every_box_of_raw_html_is_closed(name: str) -> None:
    source = (ROOT / f"book/zh/{name}.md").read_text(encoding="utf-8")
    for tag in ("div", "details", "summary"):
        assert source.count(f"<{tag}") == source.count(f"</{tag}>"), tag


def test_the_search_index_loads_on_the_search_page_alone(visit: Visit) -> None:
    loaded = "performance.getEntriesByType('resource').some((entry) => entry.name.includes('searchindex'))"
    assert not visit("index.html").evaluate(loaded)
    assert visit("search.html").evaluate(loaded)
