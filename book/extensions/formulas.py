"""Formulas are set by KaTeX while the book is built: no script on the page, and a bad formula fails the build."""

import shutil
import sysconfig

from sphinx.application import Sphinx
from sphinxcontrib import katex


def setup(app: Sphinx) -> dict[str, bool]:
    # The environment brings its own node; it is not on the PATH of someone who calls .venv/bin/jupyter-book.
    katex.NODEJS_BINARY = shutil.which("node", path=sysconfig.get_path("scripts")) or "node"
    katex.KATEX_DEFAULT_OPTIONS["throwOnError"] = True
    return {"parallel_read_safe": True, "parallel_write_safe": True}
