"""Drawings that follow the theme: an SVG template in `book/schematics`, and on the page the words that stand in it.

```{schematic} lookup
:alt: what the drawing shows, in a sentence
query: 查询
tokens: [一, 岁, 一]
---
A caption in Markdown, which may be left out.
```
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from docutils.parsers.rst import directives
from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError, meta
from jinja2.runtime import Undefined
from markupsafe import Markup, escape
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator

KIT = "kit.svg"
SCALE = 1.15  # pixels a unit, at most: the drawings' 15 units are then as large as the running text
SIZE = re.compile(r'<svg viewBox="0 0 (\d+) (\d+)"')
SIZE_IN_PIXELS = re.compile(r' width="(\d+)" height="(\d+)"')
FORMULA = re.compile(r"\$([^$]+)\$")
PIECE = re.compile(r"(?P<shift>[_^])(?:\{(?P<group>[^}]*)\}|(?P<one>.))|(?P<letters>[A-Za-zα-ωΑ-Ω]+)|(?P<rest>.)")
ITALIC = 'font-family="KaTeX_Math, Times New Roman, serif" font-style="italic"'
UPRIGHT = 'font-family="KaTeX_Main, Times New Roman, serif" font-style="normal"'


def read(lines: Iterable[str]) -> tuple[dict[str, Any], list[str]]:
    """The words of a directive's body, in YAML, and the lines of the caption below its `---`."""
    body = list(lines)
    end = next((number for number, line in enumerate(body) if line.strip() == "---"), len(body))
    try:
        words = yaml.load("\n".join(body[:end]), yaml.BaseLoader) or {}
    except yaml.YAMLError as error:
        raise ValueError(f"the words are no YAML: {error}") from error
    if not isinstance(words, dict):
        raise ValueError("write the words as `name: word`, a line each")
    return words, body[end + 1 :]


@cache
def environment(folder: Path) -> Environment:
    made = Environment(loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined)
    made.trim_blocks = made.lstrip_blocks = True
    made.filters["typeset"] = typeset
    return made


def templates(folder: Path, name: str) -> set[Path]:
    """The files that a drawing is made of."""
    if name not in (known := sorted(path.stem for path in folder.glob("*.svg") if path.name != KIT)):
        raise ValueError(f"no schematic is called {name}; known are {', '.join(known)}")
    parsed = environment(folder).parse((folder / f"{name}.svg").read_text("utf-8"))
    others = meta.find_referenced_templates(parsed)
    return {folder / f"{name}.svg", *(folder / other for other in others if other)}


def draw(folder: Path, name: str, words: Mapping[str, Any], alt: str) -> str:
    """The SVG of a template with these words, neither one too few nor one too many."""
    templates(folder, name)
    known = environment(folder)
    needed = meta.find_undeclared_variables(known.parse((folder / f"{name}.svg").read_text("utf-8")))
    needed -= known.globals.keys()
    faults = [f"has no word {word}" for word in sorted(words.keys() - needed)]
    faults += [f"needs the word {word}" for word in sorted(needed - words.keys())]
    if faults:
        raise ValueError(f"schematic {name} {', '.join(faults)}")
    try:
        drawing = re.sub(r"\s*\n\s*", "\n", known.get_template(f"{name}.svg").render(words).strip())
    except (TemplateError, TypeError) as error:
        raise ValueError(f"schematic {name}: {error}") from error
    size = SIZE.match(drawing)
    if not size:
        raise ValueError(f'schematic {name} has to begin with <svg viewBox="0 0 width height">')
    width, height = (round(int(side) * SCALE) for side in size.groups())
    attributes = f'role="img" aria-label="{escape(alt)}" width="{width}" height="{height}" font-size="15"'
    return drawing.replace("<svg ", f'<svg xmlns="http://www.w3.org/2000/svg" {attributes} ', 1)


def typeset(text: str) -> Markup:
    """A word as SVG, where `$W_Q$` is set like a formula: letters italic, `_` and `^` lowered and raised.

    >>> print(typeset("a $x_1$"))
    a <tspan font-family="KaTeX_Math, Times New Roman, serif" font-style="italic">x</tspan><tspan
    font-family="KaTeX_Main, Times New Roman, serif" font-style="normal" font-size="11" dy="4">1</tspan>
    """
    if isinstance(text, Undefined):
        str(text)  # says which word is missing
    set_pieces: list[str] = []
    back = 0
    for number, part in enumerate(FORMULA.split(str(text))):
        if number % 2:
            for piece in PIECE.finditer(part):
                inner = piece["group"] or piece["one"]
                moved = {"_": 4, "^": -6}.get(piece["shift"] or "", 0)
                style = ITALIC if re.match("[A-Za-zα-ω]", inner or piece["letters"] or "1") else UPRIGHT
                small = ' font-size="11"' if moved else ""
                dy = f' dy="{moved - back}"' if moved != back else ""
                back = moved
                set_pieces.append(f"<tspan {style}{small}{dy}>{escape(inner or piece[0])}</tspan>")
        elif part:
            set_pieces.append(f'<tspan dy="{-back}">{escape(part)}</tspan>' if back else str(escape(part)))
            back = 0
    return Markup("".join(set_pieces))


class drawing(nodes.General, nodes.Element):
    """An SVG on a page, and what it says to whoever doesn't see it; the caption is within."""


class Schematic(SphinxDirective):
    """Place a drawing with its words."""

    required_arguments = 1
    has_content = True
    option_spec = {"alt": directives.unchanged_required}  # noqa: RUF012

    def run(self) -> list[nodes.Node]:
        folder, name = Path(self.env.srcdir) / "book" / "schematics", self.arguments[0]
        try:
            words, caption = read(self.content)
            alt = self.options.get("alt")
            if not alt:
                raise ValueError(f"schematic {name} needs an :alt: that says what it shows")
            for file in templates(folder, name):
                self.env.note_dependency(str(file))
            svg = draw(folder, name, words, alt)
        except ValueError as error:
            raise self.error(str(error)) from error
        figure = drawing(svg=svg, alt=alt)
        self.set_source_info(figure)
        first = len(self.content) - len(caption)
        self.state.nested_parse(self.content[first:], self.content_offset + first, figure)
        return [figure]


class SayDrawings(SphinxPostTransform):
    """Where no SVG can stand in the page, say what it shows."""

    default_priority = 20

    def run(self, **kwargs: Any) -> None:
        if self.app.builder.format != "html":
            for node in list(self.document.findall(drawing)):
                node.replace_self([nodes.paragraph("", node["alt"]), *node.children])


def visit_drawing(self: HTML5Translator, node: drawing) -> None:
    self.body.append(f'<figure class="schematic">{node["svg"]}{"<figcaption>" if node.children else ""}')


def depart_drawing(self: HTML5Translator, node: drawing) -> None:
    self.body.append(f"{'</figcaption>' if node.children else ''}</figure>\n")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_node(drawing, html=(visit_drawing, depart_drawing))
    app.add_directive("schematic", Schematic)
    app.add_post_transform(SayDrawings)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
