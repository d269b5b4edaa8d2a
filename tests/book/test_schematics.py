"""Every drawing, with the words of the example at its head: it fits, nothing overlaps, and it follows the theme."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from myst_parser.parsers.directives import parse_directive_text
from playwright.sync_api import Browser, Page

from book.extensions.schematics import KIT, Schematic, draw, read
from tests.book.conftest import ROOT
from tests.book.schematic_words import ENGLISH
from tools.drawings import faces, light_colours

FOLDER = ROOT / "book" / "schematics"
NAMES = sorted(path.stem for path in FOLDER.glob("*.svg") if path.name != KIT)
EXAMPLE = re.compile(r"\{#\n```\{schematic\} (?P<name>\w+)\n(?P<body>.*?)\n```\n#\}\n", re.DOTALL)
WIDEST = 460  # units: the text's 15 are then 11 pixels on a phone of 375

# What a browser knows of the texts: which leave the drawing or their box, and which overlap.
FAULTS = """svg => {
  const texts = [...svg.querySelectorAll("text")].map(text => ({ says: text.textContent, box: text.getBBox() }));
  const { width, height } = svg.viewBox.baseVal;
  const outside = texts.filter(({ box }) =>
    box.x < 0 || box.y < -1 || box.x + box.width > width || box.y + box.height > height + 1);
  const apart = (a, b) => a.x + a.width <= b.x || b.x + b.width <= a.x
    || a.y + a.height - 3 <= b.y || b.y + b.height - 3 <= a.y;
  const overlaps = texts.flatMap((one, i) => texts.slice(i + 1).filter(other => !apart(one.box, other.box))
    .map(other => `${one.says} / ${other.says}`));
  const boxes = [...svg.querySelectorAll("rect")].map(rect => rect.getBBox()).filter(box => box.width > 30);
  const within = (a, b) => b.x < a.x + a.width / 2 && a.x + a.width / 2 < b.x + b.width
    && b.y < a.y + a.height / 2 && a.y + a.height / 2 < b.y + b.height;
  const wide = texts.filter(({ box }) => boxes.some(around => within(box, around) && box.width > around.width - 4));
  return [...outside.map(text => `${text.says} is outside`), ...overlaps, ...wide.map(text => `${text.says} is wide`)];
}"""


def example(name: str) -> tuple[dict[str, Any], str]:
    """The words and the alt of the usage that a template has at its head, for authors to paste."""
    found = EXAMPLE.match((FOLDER / f"{name}.svg").read_text("utf-8"))
    assert found, f"{name}.svg has to begin with an example of its use"
    assert found["name"] == name
    parsed = parse_directive_text(Schematic, name, found["body"])
    words, _ = read(parsed.body)
    return words, parsed.options["alt"]


def drawn(name: str) -> str:
    words, alt = example(name)
    return draw(FOLDER, name, words, alt)


@pytest.fixture(scope="module")
def canvas(browser: Browser) -> Iterator[Page]:
    """A page with the fonts of the book and its text's font."""
    page = browser.new_page(viewport={"width": 760, "height": 600})
    page.set_content(f"<style>{faces()} main {{ font-family: system-ui, Book }}</style><main></main>")
    yield page
    page.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_drawing_is_well_formed_and_says_what_it_shows(name: str) -> None:
    root = ET.fromstring(drawn(name))
    assert (root.get("role"), root.get("aria-label")) == ("img", example(name)[1])
    assert root.findall(".//{http://www.w3.org/2000/svg}text")


@pytest.mark.parametrize("name", NAMES)
def test_a_drawing_fits_a_phone(name: str) -> None:
    root = ET.fromstring(drawn(name))
    assert float(root.get("viewBox", "").split()[2]) <= WIDEST
    sizes = {text.get("font-size", "15") for text in root.findall(".//{http://www.w3.org/2000/svg}text")}
    assert {size for size in sizes if float(size) < 15} == set()


@pytest.mark.parametrize("name", NAMES)
def test_a_drawing_follows_the_theme_and_can_stand_twice(name: str) -> None:
    svg = drawn(name)
    paints = set(re.findall(r'(?:fill|stroke|color)="([^"]*)"', svg)) - {"none"}
    known = {f"var(--{colour})" for colour in light_colours(ROOT)}
    assert paints - known == set()
    assert not re.search(r"\s(?:id|style|class)=|<style|#[0-9a-fA-F]{3}|rgb", svg)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("others", [{}, ENGLISH], ids=["zh", "en"])
def test_all_text_fits_and_none_overlaps(name: str, others: dict[str, dict[str, Any]], canvas: Page) -> None:
    words, alt = example(name)
    svg = draw(FOLDER, name, words | others.get(name, {}), alt)
    canvas.evaluate("svg => { document.querySelector('main').innerHTML = svg; }", svg)
    canvas.evaluate("document.fonts.ready.then(() => null)")
    assert canvas.locator("svg").evaluate(FAULTS) == []


def test_the_kit_is_no_drawing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no schematic is called kit"):
        draw(FOLDER, "kit", {}, "nothing")
