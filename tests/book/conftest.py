"""The built book, served under a sub-path as on GitHub Pages, and a browser that notices any trouble."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock
from playwright.sync_api import Browser, Page, Route

from tools.browser import served

ROOT = Path(__file__).parents[2]
HTML = ROOT / "_build" / "html"

Visit = Callable[..., Page]

# Every place of an explorer holds one, or says that it failed: then nothing on the page is still under way.
MOUNTED = """() => [...document.querySelectorAll('[data-explorer]')]
    .every((place) => place.querySelector('.explorer, .explorer-failed'))"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build the book as a person would, serve it, and give the address that pages are relative to.

    Of several processes that test at once the first builds.
    """
    shared = tmp_path_factory.getbasetemp().parent
    with FileLock(shared / "book.lock"):
        if not (shared / "book.built").exists():
            build = subprocess.run(["make", "book"], cwd=ROOT, capture_output=True, text=True)
            assert build.returncode == 0, build.stdout[-4000:] + build.stderr[-4000:]
            if "PYTEST_XDIST_WORKER" in os.environ:  # else the folder above is that of all runs
                (shared / "book.built").touch()
    with served(HTML, "/attention-and-transformer/") as address:
        yield address


@contextmanager
def visiting(browser: Browser, site: str) -> Iterator[Visit]:
    """Open pages of the book: visit("attention.html", width=375, theme="dark") -> Page.

    At the end nothing may have been asked of another host, and no error may stand in the console.
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
        page.goto(site + path)
        page.wait_for_function(MOUNTED)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not trouble


@pytest.fixture
def visit(browser: Browser, site: str) -> Iterator[Visit]:
    """Opens pages for one test."""
    with visiting(browser, site) as open_page:
        yield open_page


@pytest.fixture
def page(visit: Visit) -> Page:
    """The first page of the book, at desk width."""
    return visit()
