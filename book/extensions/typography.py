"""Chinese is set without spaces: one that the source needs, at a line's end or after emphasis, doesn't show."""

import re

from docutils import nodes
from sphinx.application import Sphinx

MARK = r"\u2014\u2018-\u201d\u2026\u3000-\u303f\uff00-\uffef"  # full-width punctuation holds its own space
HAN = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
SPACE = re.compile(rf"(?<=[{MARK}])[ \n]+|[ \n]+(?=[{MARK}])|(?<=[{HAN}])\n(?=[{HAN}])")


def close_up(before: str, text: str, after: str) -> str:
    r"""A piece of running text without the spaces that Chinese doesn't have, seen between its neighbours.

    >>> close_up("一句话：", " 权重的和\n是 1，\n", "softmax")
    '权重的和是 1，'
    """
    whole = before[-1:] + text + after[:1]
    start, end = len(before[-1:]), len(before[-1:]) + len(text)
    kept, last = [], start
    for space in SPACE.finditer(whole, start, len(whole)):
        kept.append(whole[last : space.start()])
        last = space.end()
    return "".join(kept) + whole[last:end]


def close_up_paragraphs(app: Sphinx, doctree: nodes.document, docname: str = "") -> None:
    """Close up the running text of paragraphs, headings and table cells; code and formulas stay as they are."""
    for element in doctree.findall(nodes.TextElement):
        if isinstance(element, nodes.FixedTextElement):
            continue
        texts = list(element.findall(nodes.Text))
        for before, text, after in zip(["", *texts], texts, [*texts[1:], ""], strict=False):
            closed = close_up(before, text, after)
            if closed != text and not isinstance(text.parent, (nodes.literal, nodes.math)):
                text.parent.replace(text, nodes.Text(closed))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", close_up_paragraphs)
    app.connect("doctree-resolved", close_up_paragraphs)  # once more, around citations
    return {"parallel_read_safe": True, "parallel_write_safe": True}
