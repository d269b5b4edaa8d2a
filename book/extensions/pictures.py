"""Pictures load when the reader comes near, and hold their place until then."""

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.images import get_image_size
from sphinx.writers.html5 import HTML5Translator


def visit_image(self: HTML5Translator, node: nodes.image) -> None:
    """Write the picture with its size, from which the browser knows its shape before it has come."""
    file = Path(self.builder.srcdir) / node["uri"]
    HTML5Translator.visit_image(self, node)
    size = get_image_size(str(file)) if file.exists() else None
    if size:
        attributes = f'loading="lazy" width="{size[0]}" height="{size[1]}"'
        self.body[-1] = self.body[-1].replace("<img ", f"<img {attributes} ", 1)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_node(nodes.image, override=True, html=(visit_image, HTML5Translator.depart_image))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
