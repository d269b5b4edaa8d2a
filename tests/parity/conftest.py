"""Parity with public implementations on random weights: tests measure the largest difference, and a table lists it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

Agree = Callable[..., None]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def agree(record_property: Callable[[str, Any], None]) -> Agree:
    """Assert that two tensors are equal up to `tolerance`, and record by how much they differ."""

    def check(ours: Tensor, theirs: Tensor, *, tolerance: float, what: str = "output") -> None:
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        assert theirs.std() > 1e-3, "numbers that are all the same prove nothing"
        difference = (ours - theirs).abs().max().item()
        record_property(f"largest difference of {what}", difference)
        assert difference <= tolerance  # also false where it is NaN

    return check


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """A line for each test function, type and quantity: the largest difference of all its cases."""
    largest: dict[tuple[str, str, str], float] = {}
    for report in terminalreporter.getreports("passed"):
        test, _, case = report.nodeid.rpartition("/")[2].partition("[")
        dtype = "float64" if "float64" in case else "float32"
        for name, value in report.user_properties:
            if name.startswith("largest difference of "):
                key = (test, dtype, name.removeprefix("largest difference of "))
                largest[key] = max(value, largest.get(key, 0.0))
    if largest:
        terminalreporter.section("largest differences")
    for (test, dtype, name), value in sorted(largest.items()):
        terminalreporter.write_line(f"{value:.1e}  {dtype}  {test}: {name}")
