"""What a reader's first view of each page moves, gzipped as a host would: `python -m benchmarks.page_weight`.

Drives the system's Chromium over the built book; exits 1 when a page is heavier than the limit or asks another host.
"""

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from playwright.sync_api import Browser

from tools.browser import chromium, served

HTML = Path(__file__).parents[1] / "_build" / "html"
LIMIT = 600  # KB a page
PACKED = {".woff2", ".png", ".jpg", ".webp"}  # compressed already: a host sends them as they are


def weight(file: Path) -> int:
    """Bytes that a host sends for a file."""
    content = file.read_bytes()
    return len(content) if file.suffix in PACKED else len(gzip.compress(content, 6))


def first_view(browser: Browser, site: str, page: str) -> dict[str, int]:
    """Each address that the page's first view requests, with its weight in bytes."""
    urls: set[str] = set()
    tab = browser.new_page()
    tab.on("request", lambda request: urls.add(request.url))
    tab.goto(site + page, wait_until="networkidle")
    tab.close()
    sizes = {}
    for url in sorted(urls):
        if url.startswith(site):
            path = unquote(urlsplit(url).path).lstrip("/")
            sizes[path] = weight(HTML / path)
        elif not url.startswith(("data:", "blob:")):
            sys.exit(f"{page} asks another host: {url}")
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
        pages = {name: first_view(browser, site, name) for name in names}
    print("\n".join(table(pages)))
    heavy = [name for name, sizes in pages.items() if sum(sizes.values()) > LIMIT * 1000]
    if heavy:
        print(f"over {LIMIT} KB: {', '.join(heavy)}")
    return bool(heavy)


if __name__ == "__main__":
    sys.exit(main())
