"""The built book as a reader gets it: served on this machine, opened in the system's Chromium."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def served(folder: Path, prefix: str = "/") -> Iterator[str]:
    """Serve `folder` under `prefix`, and nothing beside it, for as long as the block runs; gives the address."""

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

        def translate_path(self, path: str) -> str:
            inside = path.removeprefix(prefix) if path.startswith(prefix) else "no such file"
            return super().translate_path("/" + inside)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}{prefix}"
        server.shutdown()
        thread.join()


def executable() -> str:
    """The path of the system's Chromium."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise FileNotFoundError(f"no browser on the PATH: install one of {', '.join(NAMES)}")
    return found


@contextmanager
def chromium(*options: str) -> Iterator[Browser]:
    """The system's Chromium, for as long as the block runs."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=["--no-sandbox", *options])
        yield browser
        browser.close()
