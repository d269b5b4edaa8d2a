"""Folded cells are plain `<details>`: their summary is what it says, and a solution's says that it is one."""

from html import escape

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode, depart_HideCellInput
from sphinx.application import Sphinx
from sphinx.locale import _
from sphinx.writers.html5 import HTML5Translator


def label_solutions(app: Sphinx, doctree: nodes.document) -> None:
    """A folded cell that is tagged `solution` is not just any code."""
    for cell in doctree.findall(nodes.container):
        if "tag_solution" in cell["classes"]:
            cell["prompt_show"], cell["prompt_hide"] = _("Show the solution's code"), _("Hide the solution's code")


def visit_fold(self: HTML5Translator, node: HideCodeCellNode) -> None:
    """Open the fold, without myst-nb's English label, which a screen reader would say instead of the summary."""
    show, hide = escape(node["prompt_show"]), escape(node["prompt_hide"])
    self.body.append(f'<details class="fold {" ".join(node["classes"])}"><summary>')
    self.body.append(f'<span class="collapsed">{show}</span><span class="expanded">{hide}</span></summary>\n')


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_node(HideCodeCellNode, override=True, html=(visit_fold, depart_HideCellInput))
    app.connect("doctree-read", label_solutions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
