"""Settings that every test shares."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from playwright.sync_api import Browser

from tools.browser import chromium

os.environ["TQDM_DISABLE"] = "1"  # read by tqdm when it is imported: no progress bars in tests
os.environ["OMP_NUM_THREADS"] = "1"  # as in the build: small tensors, and sums in the same order anywhere

PAGE_BY_PAGE = ("test_explorers.py", "test_site.py")

# The same examples each time, and none too slow on a busy machine.
settings.register_profile("book", derandomize=True, deadline=None, max_examples=50, database=None)
settings.load_profile("book")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of several processes one takes a file, with what it prepares; or in these the tests of one page."""
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            group = str(item.path)
            if item.path.name in PAGE_BY_PAGE:  # the mark's name may not end in a bracket
                group += item.name.partition("[")[2].rstrip("]")
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium, once for all tests of a process."""
    with chromium() as opened:
        yield opened
