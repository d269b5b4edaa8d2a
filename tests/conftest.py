"""Settings that every test shares."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from playwright.sync_api import Browser

from tools.browser import chromium

os.environ["TQDM_DISABLE"] = "1"  # read by tqdm when it is imported: no progress bars in tests
os.environ["OMP_NUM_THREADS"] = "1"  # as in the build: small tensors, and sums in the same order anywhere

# The same examples each time, and none too slow on a busy machine.
settings.register_profile("book", derandomize=True, deadline=None, max_examples=50, database=None)
settings.load_profile("book")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of several processes one takes a file, with what it prepares; or the explorers of one chapter."""
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            alone = isinstance(item, pytest.Function) and item.path.name == "test_explorers.py" and "[" in item.name
            group = item.name.partition("[")[2] if alone else str(item.path)
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium, once for all tests of a process."""
    with chromium() as opened:
        yield opened
