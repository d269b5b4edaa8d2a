"""Defaults of `pytest --nbval book`, which runs the stored notebooks and compares what they print."""

import os
from pathlib import Path

import pytest

collect_ignore = ["extensions"]


def pytest_configure(config: pytest.Config) -> None:
    # As when the outputs were stored: no progress bars, and sums that don't depend on the number of cores.
    os.environ |= {"TQDM_DISABLE": "1", "OMP_NUM_THREADS": "1"}
    config.option.nbval_current_env = True  # this Python, whatever kernels the machine has registered
    config.option.nbval_cell_timeout = 300  # seconds
    config.option.nbval_sanitize_with = str(Path(__file__).with_name("rounding.cfg"))
