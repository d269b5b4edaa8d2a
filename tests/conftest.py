"""Settings that every test shares."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from playwright.sync_api import Browser
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tools.browser import chromium

os.environ["TQDM_DISABLE"] = "1"  # read by tqdm when it is imported: no progress bars in tests
os.environ["OMP_NUM_THREADS"] = "1"  # as in the build: small tensors, and sums in the same order anywhere

PAGE_BY_PAGE = ("test_explorers.py", "test_site.py")

# The same examples each time, and none too slow on a busy machine.
settings.register_profile("book", derandomize=True, deadline=None, max_examples=50, database=None)
settings.load_profile("book")


class FileByFile(LoadScopeScheduling):
    """Of several processes one takes a file, with what it prepares; or in some files the tests of one page."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, name = nodeid.partition("::")
        return file + name.partition("[")[2] if file.endswith(PAGE_BY_PAGE) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileByFile:
    return FileByFile(config, log)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium, once for all tests of a process."""
    with chromium() as opened:
        yield opened
