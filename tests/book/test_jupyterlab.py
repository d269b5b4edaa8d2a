"""The explorer live in a real JupyterLab: a slider moved there is seen by Python and by linked widgets."""

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import nbformat
import pytest
from playwright.sync_api import Browser, Page, expect

CELLS = (
    "import torch\n"
    "from lib.explore import Explorer, heatmap, readout\n"
    "values = torch.arange(4 * 2 * 3).reshape(4, 2, 3)\n"
    'explorer = Explorer({"σ": [0.1, 0.5, 1.0, 2.0]}, [heatmap(values, format="d"), readout("at {σ}")])\n'
    "explorer",
    "from ipywidgets import IntSlider, jslink\n"
    "linked = IntSlider(max=3)\n"
    'link = jslink((linked, "value"), explorer.at("σ"))\n'
    "linked",
    'print("python sees", explorer.slider_0, explorer.value("σ"))',
)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    """A JupyterLab of its own, with nothing of the user's settings; gives the notebook's address."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, tmp_path / "live.ipynb")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folders = ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR")
    own = {f"JUPYTER_{name}": str(tmp_path / name.lower()) for name in folders}
    options = [
        f"--ServerApp.port={port}",
        f"--ServerApp.root_dir={tmp_path}",
        "--IdentityProvider.token=",
        "--allow-root",
    ]
    settings = [f"--LabApp.{name}_dir={tmp_path / name}" for name in ("user_settings", "workspaces")]
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", *options, *settings]
    log = (tmp_path / "log").open("w")
    server = subprocess.Popen(command, env={**os.environ, **own}, stdout=log, stderr=log, cwd=tmp_path)
    address = f"http://127.0.0.1:{port}/lab"
    try:
        wait_until_up(address, (tmp_path / "log"))
        yield f"{address}/tree/live.ipynb"
    finally:
        server.terminate()
        server.wait(20)
        log.close()


def wait_until_up(address: str, log: Path) -> None:
    for _ in range(120):
        try:
            urlopen(address).close()
            return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(log.read_text())


def test_a_slider_moved_in_jupyterlab_reaches_python_and_linked_widgets(lab: str, browser: Browser):
    page = browser.new_page(viewport={"width": 1280, "height": 1400})
    page.goto(lab)
    page.locator(".jp-CodeCell").first.click(timeout=60_000)
    expect(page.locator(".jp-Notebook-ExecutionIndicator")).to_have_attribute("data-status", "idle", timeout=60_000)
    page.keyboard.press("Shift+Enter")
    slider = page.locator("div.explorer input[type=range]")
    slider.wait_for(timeout=60_000)
    page.keyboard.press("Shift+Enter")
    handle = page.locator(".noUi-handle")
    handle.wait_for()

    slider.press("ArrowRight")
    slider.press("ArrowRight")
    expect(page.locator("div.explorer output.say")).to_have_text("at 1")
    expect(handle).to_have_attribute("aria-valuetext", "2")
    assert run_last_cell(page) == "python sees 2 1.0"

    handle.press("ArrowRight")
    expect(slider).to_have_value("3")
    assert run_last_cell(page) == "python sees 3 2.0"
    page.close()


def run_last_cell(page: Page) -> str:
    """Run the cell that prints what Python sees, and give its output."""
    cell = page.locator(".jp-CodeCell").last
    prompt = cell.locator(".jp-InputPrompt")
    before = prompt.inner_text()
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    expect(prompt).not_to_have_text(before)
    expect(prompt).to_have_text(re.compile(r"\[\d+\]:"))
    return cell.locator(".jp-OutputArea-output").inner_text().strip()
