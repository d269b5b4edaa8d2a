"""Roles, links and footnotes within a paragraph, in plain Markdown."""

import re
from dataclasses import replace

from tools.page import MarkupError, Page

INLINE = re.compile(
    r"""
    \{(?P<role>[\w:.+-]+)\}(?P<ticks>`+)(?P<body>.+?)(?P=ticks)
    | (?P<code>`+).+?(?<!`)(?P=code)(?!`)
    | \$(?:\\.|[^$\\])+\$
    | \[\^(?P<note>[^\]\s]+)\](?P<definition>:?)
    | (?P<image>!?)\[(?P<label>[^\]]*)\]\((?P<target>[^)\s]+)\)(?:\{[^}]*\})?  # attributes such as a width are left out
    """,
    re.VERBOSE | re.DOTALL,
)


def plain_inline(text: str, line: int, page: Page) -> str:
    """The paragraph `text` of line number `line`; code and formulas in it stay as they are."""

    def plain(match: re.Match[str]) -> str:
        here = line + text.count("\n", 0, match.start())
        if match["role"]:
            return role(match["role"], match["body"], here, page)
        if match["note"]:
            return f"<sup>[{match['note']}]</sup>"
        if match["target"]:
            label = plain_inline(match["label"], here, page)
            return f"{match['image']}[{label}]({target(match['target'], here, page)})"
        return match[0]

    return INLINE.sub(plain, text)


def role(name: str, body: str, line: int, page: Page) -> str:
    """What the role `name` shows for `body`."""
    match name:
        case "eq":
            return page.bibliography.edition.equation.format(page.equation(body, line))
        case "cite:p":
            return page.bibliography.in_parentheses(cited_keys(body, line, page))
        case "cite:t":
            return page.bibliography.in_text(cited_keys(body, line, page))
    raise page.error(line, f"unknown role {{{name}}}; known are cite:p, cite:t, eq")


def cited_keys(body: str, line: int, page: Page) -> list[str]:
    keys = [key.strip() for key in body.split(",")]
    for key in keys:
        if key not in page.bibliography:
            raise page.error(line, f"no entry {key} in {page.bibliography.path.name}")
    page.cited += keys
    return keys


def target(link: str, line: int, page: Page) -> str:
    """Where a link leads from the notebook: other pages are read on the published site."""
    path, _, name = link.partition("#")
    if re.match(r"(https?|mailto):", link):
        return link
    if re.match(r"[a-z]+:", link):
        raise page.error(line, f"link to {link}: unknown scheme")
    if not path:
        return f"#{page.place(name, line)}"
    file = page.path.parent / path
    if not file.exists():
        raise page.error(line, f"link to {path}, which doesn't exist")
    if file.suffix != ".md":
        return page.site.file(file)
    if not name:
        return page.site.page(file)
    there = replace(page, path=file, text=file.read_text("utf-8"), cited=[])
    try:
        return f"{page.site.page(file)}#{there.published(name, line)}"
    except MarkupError as error:
        raise page.error(line, f"link to {link}: {str(error).partition(': ')[2]}") from error
