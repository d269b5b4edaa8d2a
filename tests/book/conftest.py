"""The built book, served under a sub-path as on GitHub Pages, and a browser that notices any trouble."""

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, sync_playwright

ROOT = Path(__file__).parents[2]
HTML = ROOT / "_build" / "html"
SUBPATH = "/attention-and-transformer/"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")

Visit = Callable[..., Page]


class BookHandler(SimpleHTTPRequestHandler):
    """Serve a folder under SUBPATH and nothing beside it, without a log."""

    def translate_path(self, path: str) -> str:
        if not path.startswith(SUBPATH):
            return str(HTML / "outside-of-the-sub-path")
        return super().translate_path("/" + path.removeprefix(SUBPATH))

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """Build the book as a person would, serve it, and give the address that pages are relative to."""
    build = subprocess.run(["make", "book"], cwd=ROOT, capture_output=True, text=True)
    assert build.returncode == 0, build.stdout[-4000:] + build.stderr[-4000:]
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(BookHandler, directory=str(HTML))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}{SUBPATH}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    executable = next(filter(None, map(shutil.which, CHROMIUM)), None)
    assert executable, f"install one of {', '.join(CHROMIUM)}"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser: Browser, site: str) -> Iterator[Visit]:
    """Open pages of the book: visit("attention.html", width=375, theme="dark") -> Page.

    After the test nothing may have been asked of another host, and no error may stand in the console.
    """
    trouble: list[str] = []
    contexts = []

    def keep_local(route: Route) -> None:
        if route.request.url.startswith((site, "data:", "blob:")):
            route.continue_()
        else:
            trouble.append(f"request to {route.request.url}")
            route.abort()

    def open_page(path: str = "", *, width: int = 1280, height: int = 900, theme: str = "light") -> Page:
        context = browser.new_context(viewport={"width": width, "height": height})
        contexts.append(context)
        context.add_init_script(f"localStorage.mode ??= '{theme}'")
        context.route("**/*", keep_local)
        page = context.new_page()
        page.on("console", lambda m: trouble.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.goto(site + path, wait_until="networkidle")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not trouble


@pytest.fixture
def page(visit: Visit) -> Page:
    """The first page of the book, at desk width."""
    return visit()
