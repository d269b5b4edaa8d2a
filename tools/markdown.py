"""From the MyST of a page to Markdown that Colab, GitHub and JupyterLab show as it is meant.

Only the markup that the book uses is known; any other is an error: none is shown raw.
"""

import re
from collections import Counter

from docutils.parsers.rst import Directive
from docutils.parsers.rst.directives.admonitions import Admonition
from docutils.parsers.rst.directives.images import Figure
from docutils.parsers.rst.states import MarkupError as DirectiveError
from markdown_it.token import Token
from myst_parser.parsers.directives import DirectiveParsingResult, parse_directive_text

from book.extensions.schematics import Schematic, read
from book.extensions.sources import Source, find
from tools.drawings import picture
from tools.inline import INLINE, plain_inline, target
from tools.page import MarkupError, Page, heading_fragment, tokens

DIRECTIVES: dict[str, type[Directive]] = {
    "admonition": Admonition,
    "figure": Figure,
    "schematic": Schematic,
    "source": Source,
}
FENCES = ("fence", "colon_fence")
CHANGED = ("inline", "heading", "math_block_label", "myst_target", "myst_line_comment", *FENCES)
UNCHANGED = ("html_block", "code_block", "math_block", "hr", "front_matter", "myst_block_break")
CONTAINERS = (
    *("paragraph", "heading", "blockquote", "bullet_list", "ordered_list", "list_item", "footnote_reference"),
    *("table", "thead", "tbody", "tr", "th", "td"),
)
BLOCKS = {*CHANGED, *UNCHANGED, *(f"{name}_{end}" for name in CONTAINERS for end in ("open", "close"))}
SPANS = {
    *("text", "softbreak", "hardbreak", "code_inline", "math_inline", "math_inline_double", "html_inline"),
    *("strong_open", "strong_close", "em_open", "em_close", "link_open", "link_close", "image", "footnote_ref"),
    "myst_role",
}
WITH_ATTRIBUTES = ("link_open", "image")
RELATIVE = re.compile(r"""<[^>]+\s(?:href|src)\s*=\s*["']?(?!(?:https?|mailto|data):|#)([^"'\s>]+)""")
DISPLAYED_FORMULA = re.compile(r"\$\$.+?\$\$", re.DOTALL)


def plain_markdown(text: str, line: int, page: Page) -> str:
    """The passage `text`, which starts on line number `line` of the page, in plain Markdown."""
    check(tokens(text), line, page)
    lines = text.splitlines()
    for (start, end), token in reversed(changed_blocks(text).items()):
        lines[start:end] = plain_block(token, lines[start:end], line + start, page)
    return "\n".join(lines).strip("\n")


def check(found: list[Token], line: int, page: Page) -> None:
    """Refuse what the exporter doesn't know, or knows only when it is written in another way."""
    here = line
    for token in found:
        here = line + token.map[0] if token.map else here
        if token.type not in BLOCKS or (token.type == "colon_fence" and not token.info.startswith("{")):
            raise page.error(here, f"unknown markup {token.type}")
        for each in [token, *(token.children or [])]:
            if each.type.startswith("html_") and (link := RELATIVE.search(each.content)):
                raise page.error(here, f"link to {link[1]} in HTML: write it in Markdown")
        if token.children:
            check_spans(token, token.children, here, page)


def check_spans(token: Token, spans: list[Token], line: int, page: Page) -> None:
    """Refuse unknown markup within a paragraph, and links and footnotes that `INLINE` doesn't find."""
    for span, follower in zip(spans, [*spans[1:], token], strict=False):
        if span.type not in SPANS or (span.attrs and span.type not in WITH_ATTRIBUTES):
            raise page.error(line, f"unknown markup {span.type} {span.attrs or ''}".rstrip())
        if span.type == "link_open" and follower.type == "link_close":
            raise page.error(line, f"link to {span.attrs['href']} has no text")
    written = Counter(kind(match) for match in INLINE.finditer(token.content))
    meant = Counter(
        "note" if span.type == "footnote_ref" else "target"
        for span in spans
        if span.type == "footnote_ref" or is_own(str(span.attrs.get("href", span.attrs.get("src", "https:"))))
    )
    for name, example in (("note", "[^name]"), ("target", "[text](target)")):
        if written[name] != meant[name]:
            raise page.error(line, f"write links and footnotes as {example}, so that the notebook can follow them")


def kind(match: re.Match[str]) -> str | None:
    """What a piece of inline markup is: a link of the book's own, a footnote or nothing that `check_spans` counts."""
    if match["target"] and is_own(match["target"]):
        return "target"
    return "note" if match["note"] and not match["definition"] else None


def is_own(link: str) -> bool:
    """Whether a link leads to a place in the book."""
    return not re.match(r"(https?|mailto):", link)


def changed_blocks(text: str) -> dict[tuple[int, int], Token]:
    """The blocks to convert, by the lines they take; the cells of a table's row are one block."""
    return {
        (token.map[0], token.map[1]): token
        for token in tokens(text)
        if token.map and token.type in CHANGED and (token.type not in FENCES or token.info.startswith("{"))
    }


def plain_block(token: Token, lines: list[str], line: int, page: Page) -> list[str]:
    match token.type:
        case "myst_line_comment":
            return []
        case "myst_target":
            return page.anchor(token.content)
        case "inline":
            return plain_inline("\n".join(lines), line, page).split("\n")
        case "heading":
            return [*page.anchor(heading_fragment(token)), plain_inline("\n".join(lines), line, page)]
        case "math_block_label":
            number = page.equation(token.info, line)
            plain = f"$$\n{token.content.strip()} \\tag{{{number}}}\n$$"
        case _:
            plain = plain_directive(token, line, page)
    indent = " " * (len(lines[0]) - len(lines[0].lstrip()))
    if lines[0][len(indent)] not in "`:$":
        raise page.error(line, "a directive or labelled equation has to start its line, behind no mark")
    return [f"{indent}{each}".rstrip() for each in plain.split("\n")]


def plain_directive(token: Token, line: int, page: Page) -> str:
    name, _, argument = token.info[1:].partition("}")
    if name not in DIRECTIVES:
        raise page.error(line, f"unknown directive {{{name}}}; known are {', '.join(DIRECTIVES)}")
    try:
        parsed = parse_directive_text(DIRECTIVES[name], argument.strip(), token.content)
    except DirectiveError as error:
        raise page.error(line, f"directive {{{name}}}: {error}") from error
    if parsed.warnings:
        raise page.error(line, f"directive {{{name}}}: {parsed.warnings[0].msg}")
    first = line + 1 + parsed.body_offset
    try:
        if name == "source":
            return source(parsed, page)
        if name == "schematic":
            return schematic(parsed, first, page)
    except ValueError as error:
        raise error if isinstance(error, MarkupError) else page.error(line, f"directive {{{name}}}: {error}") from error
    body = plain_markdown("\n".join(parsed.body), first, page)
    return figure(parsed, body, line, page) if name == "figure" else admonition(parsed, body, line, page)


def admonition(parsed: DirectiveParsingResult, body: str, line: int, page: Page) -> str:
    """A quotation under its title; each formula on one line, since a `>` within it would be read as TeX."""
    title = plain_inline(parsed.arguments[0], line, page)
    body = DISPLAYED_FORMULA.sub(lambda formula: " ".join(formula[0].split()), body)
    return "\n".join(f"> {each}".rstrip() for each in [f"**{title}**", "", *body.split("\n")])


def figure(parsed: DirectiveParsingResult, caption: str, line: int, page: Page) -> str:
    image = f"![{parsed.options.get('alt', '')}]({target(parsed.arguments[0], line, page)})"
    return f"{image}\n\n{caption}".strip()


def schematic(parsed: DirectiveParsingResult, first: int, page: Page) -> str:
    """The drawing as a picture in the cell, and below it the caption; the directive's body is on line `first`."""
    words, caption = read(parsed.body)
    if not parsed.options.get("alt"):
        raise ValueError("an :alt: has to say what it shows")
    image = picture(page.site.root, parsed.arguments[0], words, parsed.options["alt"])
    below = plain_markdown("\n".join(caption), first + len(parsed.body) - len(caption), page)
    return f"{image}\n\n{below}".strip()


def source(parsed: DirectiveParsingResult, page: Page) -> str:
    """A link to the file: lines would change in the notebook whenever something above them does."""
    name = parsed.arguments[0]
    code = f"[`{name}`]({page.site.file(page.site.root / find(name).file)})"
    return f"**{page.bibliography.edition.source.format(code)}**"
