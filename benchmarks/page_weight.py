"""What a reader's first view of each page moves, gzipped as a host would: `python -m benchmarks.page_weight`.

Drives the system's Chromium over the built book; exits 1 when a page is heavier than the limit or asks another host.
"""

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from playwright.sync_api import Browser, Page

from tools.browser import chromium, served

HTML = Path(__file__).parents[1] / "_build" / "html"
LIMIT = 600  # KB a page
PACKED = {".woff2", ".png", ".jpg", ".webp"}  # compressed already: a host sends them as they are


def weight(file: Path) -> int:
    """Bytes that a host sends for a file."""
    content = file.read_bytes()
    return len(content) if file.suffix in PACKED else len(gzip.compress(content, 6))


def first_view(page: Page, site: str) -> dict[str, int]:
    """Each file that an open page has asked for, with its weight in bytes."""
    addresses: list[str] = page.evaluate("performance.getEntries().map((entry) => entry.name)")
    sizes = {}
    for url in sorted(set(addresses)):
        if url.startswith(site):
            path = unquote(urlsplit(url.removeprefix(site)).path)
            sizes[path] = weight(HTML / path)
        elif url.startswith("http"):
            raise ValueError(f"{page.url} asks another host: {url}")
    return sizes


def weigh(browser: Browser, site: str, name: str) -> dict[str, int]:
    """What the first view of a page asks for."""
    page = browser.new_page()
    page.goto(site + name, wait_until="networkidle")
    sizes = first_view(page, site)
    page.close()
    return sizes


def table(pages: dict[str, dict[str, int]]) -> Iterator[str]:
    """A line for each page, heaviest first, and its four heaviest files."""
    for page, sizes in sorted(pages.items(), key=lambda item: -sum(item[1].values())):
        heaviest = sorted(sizes.items(), key=lambda item: -item[1])[:4]
        files = ", ".join(f"{Path(path).name[:28]} {size / 1000:.0f}" for path, size in heaviest)
        yield f"{page:24} {len(sizes):3} requests {sum(sizes.values()) / 1000:6.0f} KB   {files}"


def main() -> int:
    names = sorted(str(path.relative_to(HTML)) for path in HTML.rglob("*.html") if "_static" not in path.parts)
    if not names:
        sys.exit("nothing in _build/html: run make book")
    with served(HTML) as site, chromium() as browser:
        pages = {name: weigh(browser, site, name) for name in names}
    print("\n".join(table(pages)))
    heavy = [name for name, sizes in pages.items() if sum(sizes.values()) > LIMIT * 1000]
    if heavy:
        print(f"over {LIMIT} KB: {', '.join(heavy)}")
    return bool(heavy)


if __name__ == "__main__":
    sys.exit(main())
