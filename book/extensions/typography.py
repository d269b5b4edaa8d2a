"""Chinese is set without spaces: one that the source needs, at a line's end or after emphasis, doesn't show.

And a mark stays with the formula that it follows or opens.
"""

import re

from docutils import nodes
from sphinx.application import Sphinx

WIDE = r"\u3000-\u303f\uff00-\uffef"  # full-width punctuation holds its own space
SHARED = r"\u2014\u2018-\u201d\u2026"  # quotes, dashes and dots: full-width in Chinese, not so in English
HAN = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
SPACE = re.compile(
    rf"(?<=[{WIDE}])[ \n]+|[ \n]+(?=[{WIDE}])|(?<=[{HAN}])\n(?=[{HAN}])"
    rf"|(?P<shared>(?<=[{SHARED}])[ \n]+|[ \n]+(?=[{SHARED}]))"
)
LETTER = re.compile(rf"[{HAN}{WIDE}]|\w")
CHINESE = re.compile(rf"[{HAN}{WIDE}]")
MARKS = (re.compile("[（「『《]+$"), re.compile("^[，。、；：！？）」』》]+"))  # before a formula, and after one
NEAR = 40  # characters in which to look for the letter on either side of a quote or dash


def close_up(before: str, text: str, after: str) -> str:
    r"""A piece of running text without the spaces that Chinese doesn't have, seen between its neighbours.

    A quote, dash or dots between English words keep theirs.

    >>> close_up("一句话：", " 权重的和\n是 1，\n", "softmax")
    '权重的和是 1，'
    >>> close_up("", "他说 “attention” 是—— “Attention is” — “all” you need", "")
    '他说“attention”是——“Attention is” — “all” you need'
    """
    before, after = before[-NEAR:], after[:NEAR]
    whole = before + text + after
    start, end = len(before), len(before) + len(text)
    kept, last = [], start
    for space in SPACE.finditer(whole):
        first, behind = max(space.start(), start), min(space.end(), end)
        if first >= behind or (space["shared"] and not among_chinese(whole, space.start(), space.end())):
            continue
        kept.append(whole[last:first])
        last = behind
    return "".join(kept) + whole[last:end]


def among_chinese(text: str, start: int, end: int) -> bool:
    """Whether the nearest letter or full-width mark on one side of text[start:end] is Chinese."""
    left, right = LETTER.findall(text[max(start - NEAR, 0) : start])[-1:], LETTER.findall(text[end : end + NEAR])[:1]
    return any(CHINESE.match(letter) for letter in left + right)


def close_up_paragraphs(app: Sphinx, doctree: nodes.document, docname: str = "") -> None:
    """Close up the running text of paragraphs, headings and table cells; code and formulas stay as they are.

    Only on pages in Chinese: the language is the edition's.
    """
    if not str(app.config.language).startswith("zh"):
        return
    for element in doctree.findall(nodes.TextElement):
        if isinstance(element, nodes.FixedTextElement):
            continue
        texts = list(element.findall(nodes.Text))
        for before, text, after in zip(["", *texts], texts, [*texts[1:], ""], strict=False):
            closed = close_up(before, text, after)
            if closed != text and not isinstance(text.parent, (nodes.literal, nodes.math)):
                text.parent.replace(text, nodes.Text(closed))


def bind_marks(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    r"""Let the marks around a formula in running text be part of it: browsers break the line between it and its comma.

    （$x$， is set as $\text{（}x\text{，}$.
    """
    for formula in list(doctree.findall(nodes.math)):
        place = formula.parent.index(formula)
        ends = ["", ""]
        for side, neighbour in enumerate((place - 1, place + 1)):
            text = formula.parent[neighbour] if 0 <= neighbour < len(formula.parent) else None
            if isinstance(text, nodes.Text) and (mark := MARKS[side].search(text)):
                formula.parent[neighbour] = nodes.Text(MARKS[side].sub("", text))
                ends[side] = rf"\text{{{mark[0]}}}"
        formula[:] = [nodes.Text(ends[0] + formula.astext() + ends[1])]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", close_up_paragraphs)
    app.connect("doctree-resolved", close_up_paragraphs)  # once more, around citations
    app.connect("doctree-resolved", bind_marks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
