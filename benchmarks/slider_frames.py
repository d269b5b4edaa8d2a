"""From a slider's key press to the painted frame, for every explorer: `python -m benchmarks.slider_frames`.

Chromium runs without a frame rate limit, so that the time is that of the work and not of the wait for a monitor.
"""

import statistics
import sys
from pathlib import Path

from playwright.sync_api import ElementHandle, Page

from tools.browser import chromium

HTML = Path(__file__).parents[1] / "_build" / "html"
LIMIT = 16.0  # milliseconds at the 95th percentile, of the largest explorer
MOVES = 120

# Times each `input` event from the browser's stamp of the key press until the frame after it has been painted:
# a message posted in an animation frame arrives when that frame is done.
WATCH = """root => {
    root.times = [];
    root.addEventListener('input', ({ timeStamp }) => requestAnimationFrame(() => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => root.times.push(performance.now() - timeStamp);
        port2.postMessage(0);
    }));
}"""
VALUES = "i => window.explorers[i].get('buffers').reduce((sum, buffer) => sum + buffer.byteLength, 0)"


def frame_times(page: Page, explorer: ElementHandle) -> list[float]:
    """Milliseconds from key press to painted frame, over MOVES moves of the explorer's sliders."""
    explorer.evaluate(WATCH)
    sliders = explorer.query_selector_all("input[type=range]")
    for move in range(MOVES):
        slider = sliders[move % len(sliders)]
        going_up = int(slider.input_value()) < int(slider.get_attribute("max") or 0)
        slider.press("ArrowRight" if going_up else "Home")
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return explorer.evaluate("root => root.times")


def percentile(times: list[float], percent: int) -> float:
    return statistics.quantiles(times, n=100, method="inclusive")[percent - 1]


def main() -> int:
    pages = [path for path in sorted(HTML.rglob("*.html")) if "data-explorer" in path.read_text("utf-8")]
    if not pages:
        sys.exit("no explorer in _build/html: run make book")
    measured: list[tuple[int, float, str]] = []
    with chromium("--disable-frame-rate-limit", "--disable-gpu-vsync") as browser:
        for path in pages:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(path.as_uri())
            page.wait_for_function("window.explorers?.length === document.querySelectorAll('[data-explorer]').length")
            print(path.relative_to(HTML))
            for index, explorer in enumerate(page.query_selector_all("div.explorer")):
                times, size = frame_times(page, explorer), page.evaluate(VALUES, index)
                p50, p95 = percentile(times, 50), percentile(times, 95)
                name = explorer.get_attribute("aria-label") or ""
                print(f"  {size / 1000:6.1f} KB   median {p50:5.1f} ms   95th percentile {p95:5.1f} ms   {name}")
                measured.append((size, p95, name))
            page.close()
    size, p95, name = max(measured)
    print(f"largest explorer: {name}, {size / 1000:.1f} KB, 95th percentile {p95:.1f} ms (limit {LIMIT:g})")
    return p95 >= LIMIT


if __name__ == "__main__":
    sys.exit(main())
