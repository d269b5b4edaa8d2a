"""Chinese is set without spaces: where a source line ends between two Chinese characters, nothing shows."""

import re

from docutils import nodes
from sphinx.application import Sphinx

HAN = r"[\u2014\u2018-\u201d\u2026\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef]"
ENDS = re.compile(HAN + "$")
STARTS = re.compile(HAN)


def join_lines(app: Sphinx, doctree: nodes.document) -> None:
    """Drop line breaks between Chinese characters, also where emphasis or a link stands at the break."""
    for paragraph in doctree.findall(nodes.TextElement):
        texts = list(paragraph.findall(nodes.Text))
        for before, text, after in zip(texts, texts[1:], texts[2:], strict=False):
            if text == "\n" and ENDS.search(before) and STARTS.match(after):
                text.parent.replace(text, nodes.Text(""))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", join_lines)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
