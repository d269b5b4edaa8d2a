"""One page of the book, and what can be known of it only as a whole: its places, equations and citations."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from docutils.nodes import make_id
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from myst_parser.config.main import MdParserConfig
from myst_parser.mdit_to_docutils.base import default_slugify
from myst_parser.parsers.mdit import create_md_parser

from tools.references import Bibliography
from tools.site import Site

MYST = MdParserConfig(enable_extensions={"attrs_inline", "colon_fence", "dollarmath"})
PARSER = create_md_parser(MYST, RendererHTML)
EQUATION_LABEL = re.compile(r"\$\$[ \t]*\(([^\s)]+)\)[ \t]*$", re.MULTILINE)
LINK_IN_PAGE = re.compile(r"\]\(#([^)\s]+)\)")


class MarkupError(ValueError):
    """Markup that can't be exported, with the file and the line where it stands."""


def tokens(text: str) -> list[Token]:
    """The blocks of `text`; the line of a heading has the type heading instead of inline."""
    parsed = PARSER.parse(text + "\n")
    for opening, content in pairwise(parsed):
        if opening.type == "heading_open":
            content.type = "heading"
    return parsed


def heading_text(heading: Token) -> str:
    """What a heading says, as MyST reads it for its slug: without emphasis and formulas."""
    words = [each.content for each in heading.children or [] if each.type in ("text", "code_inline")]
    return "".join(words).strip()


def heading_fragment(heading: Token) -> str:
    """The identifier that JupyterLab and nbconvert give to a heading."""
    return heading_text(heading).replace(" ", "-")


@dataclass
class Page:
    """A page, where it belongs, and the works that it cites, collected while it is converted."""

    path: Path
    text: str
    site: Site
    bibliography: Bibliography
    cited: list[str] = field(default_factory=list)

    def error(self, line: int, message: str) -> MarkupError:
        return MarkupError(f"{self.path}:{line}: {message}")

    def equation(self, label: str, line: int) -> int:
        """The number of a labelled equation, counted through the page."""
        if label not in self._equations:
            raise self.error(line, f"no equation is labelled {label}")
        return self._equations.index(label) + 1

    def place(self, name: str, line: int) -> str:
        """The fragment under which the heading or label `name` is found in the notebook."""
        if name not in self._places:
            raise self.error(line, f"no heading or label is called {name}")
        return self._places[name]

    def published(self, name: str, line: int) -> str:
        """The identifier under which the heading or label `name` is found on the published page."""
        if name not in self._places:
            raise self.error(line, f"no heading or label is called {name} in {self.path.name}")
        identifier = make_id(name) if name in self._labels else name
        if not identifier[:1].isalpha():
            raise self.error(line, f"{name} begins with no letter and has no lasting address on its page")
        return identifier

    def anchor(self, fragment: str) -> list[str]:
        """Lines that let the page's own links reach a place also where headings have no identifier."""
        return [f'<a id="{fragment}"></a>', ""] if fragment in self._linked else []

    @cached_property
    def _equations(self) -> list[str]:
        return EQUATION_LABEL.findall(self.text)

    @cached_property
    def _places(self) -> dict[str, str]:
        headings = [each for each in tokens(self.text) if each.type == "heading"]
        named = {label: label for label in self._labels}
        return named | {default_slugify(heading_text(each)): heading_fragment(each) for each in headings}

    @cached_property
    def _labels(self) -> set[str]:
        return {each.content for each in tokens(self.text) if each.type == "myst_target"}

    @cached_property
    def _linked(self) -> set[str]:
        return {self._places[name] for name in LINK_IN_PAGE.findall(self.text) if name in self._places}
