"""Sections are linked by their headings, `#核回归`, and not by a number that changes when one is put before them."""

from docutils import nodes
from sphinx.application import Sphinx


def name_by_heading(app: Sphinx, doctree: nodes.document) -> None:
    """Put the heading's slug first among a section's ids: docutils has a number, or what is Latin in the heading."""
    for section in doctree.findall(nodes.section):
        slug = section.get("slug", "")
        if slug[:1].isalpha() and slug not in section["ids"]:
            section["ids"].insert(0, slug)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", name_by_heading, priority=1)  # before Sphinx collects tables of contents
    return {"parallel_read_safe": True, "parallel_write_safe": True}
