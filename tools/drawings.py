"""Schematics in notebooks: pictures that need no style sheet, in the light colours of the book, in the cell itself.

JupyterLab and GitHub show an SVG in a data URI, Colab neither that nor an attachment; all three show a PNG. So a page
is exported with its SVG, and in its place the stored notebook has a PNG that Chromium makes. Without Chromium the SVG
stays. A cell's metadata name what is drawn in it: a picture is made anew for another drawing only.
"""

import base64
import hashlib
import re
import subprocess
from collections.abc import Iterable, Sequence
from html import escape
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from nbformat import NotebookNode
from PIL import Image

from book.extensions.schematics import SIZE_IN_PIXELS, draw
from tools.browser import executable
from tools.site import ROOT

SVG, PNG = "data:image/svg+xml;base64,", "data:image/png;base64,"
PICTURE = re.compile(r'(?<= src=")data:image/(?:svg\+xml|png);base64,[^"]*')
KATEX = "book/assets/vendor/katex/fonts"
FACES = {
    "Book": "lib/fonts/NotoSansCJKsc-GB2312.otf",
    "KaTeX_Math": f"{KATEX}/KaTeX_Math-Italic.woff2",
    "KaTeX_Main": f"{KATEX}/KaTeX_Main-Regular.woff2",
}
SANS = "system-ui, -apple-system, Segoe UI, PingFang SC, Noto Sans SC, Noto Sans CJK SC, Microsoft YaHei, sans-serif"


def picture(root: Path, name: str, words: dict[str, object], alt: str) -> str:
    """An image element that holds the drawing of a template of the book under `root`."""
    drawing = standalone(draw(root / "book" / "schematics", name, words, alt), light_colours(root))
    size = SIZE_IN_PIXELS.search(drawing)
    assert size
    return f'<img alt="{escape(alt)}" width="{size[1]}" src="{SVG}{encoded(drawing.encode())}">'


def light_colours(root: Path) -> dict[str, str]:
    """The book's colours in the light, by the names of their custom properties."""
    style = (root / "book" / "assets" / "colours.css").read_text("utf-8")
    light = re.search(r'\[data-theme="light"\] \{(.*?)\}', style, re.DOTALL)
    return dict(re.findall(r"--([\w-]+): ([^;]+);", light[1])) if light else {}


def standalone(drawing: str, colours: dict[str, str]) -> str:
    """An SVG that needs no page around it: with its colours, its font and paper behind it."""
    coloured = re.sub(r"var\(--([\w-]+)\)", lambda name: colours[name[1]], drawing)
    start = coloured.index(">") + 1
    paper = f'<rect width="100%" height="100%" fill="{colours["paper"]}"/>'
    return f'{coloured[: start - 1]} font-family="{SANS}">{paper}{coloured[start:]}'


def digests(source: str) -> list[str]:
    """What a cell shows, drawing by drawing, in few letters."""
    return [hashlib.sha256(found.encode()).hexdigest()[:12] for found in PICTURE.findall(source)]


def without_pictures(source: str) -> str:
    return PICTURE.sub("", source)


def paint(cells: Sequence[NotebookNode], stored: Iterable[NotebookNode] = ()) -> None:
    """Put a PNG in the place of each SVG, the stored one where the drawing is still the same."""
    known = {
        digest: found
        for cell in stored
        for digest, found in zip(cell.metadata.get("drawings", []), PICTURE.findall(cell.source), strict=False)
        if found.startswith(PNG)
    }
    drawn = {
        digest: found
        for cell in cells
        for digest, found in zip(cell.metadata.get("drawings", []), PICTURE.findall(cell.source), strict=True)
    }
    known |= rasterised({digest: found for digest, found in drawn.items() if digest not in known})
    for cell in cells:
        for digest in cell.metadata.get("drawings", []):
            cell.source = cell.source.replace(drawn[digest], known.get(digest, drawn[digest]))


def rasterised(drawings: dict[str, str]) -> dict[str, str]:
    """The drawings as PNG, two pixels for each of the page's; none if there is no Chromium."""
    made = {}
    with TemporaryDirectory() as folder:
        for digest, found in drawings.items():
            svg = base64.b64decode(found.removeprefix(SVG)).decode()
            size = SIZE_IN_PIXELS.search(svg)
            assert size
            page, picture = Path(folder, f"{digest}.html"), Path(folder, f"{digest}.png")
            style = f"{faces()} body {{ margin: 0 }} svg {{ display: block; font-family: Book }}"
            page.write_text(f'<!doctype html><meta charset="utf-8"><style>{style}</style>{svg}', "utf-8")
            options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--force-device-scale-factor=2"]
            place = [f"--window-size={size[1]},{size[2]}", f"--screenshot={picture}", page.as_uri()]
            try:
                subprocess.run([executable(), *options, *place], check=True, capture_output=True, timeout=120)
            except FileNotFoundError:
                return {}
            made[digest] = PNG + encoded(smaller(picture.read_bytes()))
    return made


def faces() -> str:
    """The book's own fonts as a style sheet, for a picture that is the same on every machine."""
    return "".join(
        f"@font-face {{ font-family: {name}; src: url(data:font/otf;base64,{encoded((ROOT / file).read_bytes())}) }}"
        for name, file in FACES.items()
    )


def smaller(picture: bytes) -> bytes:
    """The same PNG in 64 colours, which these drawings can't be told from."""
    file = BytesIO()
    Image.open(BytesIO(picture)).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return file.getvalue()


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()
