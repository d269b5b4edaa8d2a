"""Where results are kept: `lib/data/results/<name>.json`, which `lib.data.results` reads, on Colab too."""

import json
import re
from pathlib import Path
from statistics import median
from typing import Any

import torch

FOLDER = Path(__file__).parents[1] / "lib/data/results"


def start() -> None:
    """Count on one thread: sums have the same order anywhere."""
    torch.set_num_threads(1)


def save(name: str, results: dict[str, Any]) -> None:
    """Write results with four decimals, a row of numbers a line."""
    text = json.dumps(_rounded(results), ensure_ascii=False, indent=1)
    text = re.sub(
        r"\[[^\[\]{}]*\]", lambda row: re.sub(r"\s+", " ", row[0]).replace("[ ", "[").replace(" ]", "]"), text
    )
    (FOLDER / f"{name}.json").write_text(text + "\n", "utf-8")


def spread(values: list[float]) -> str:
    """Median, smallest and largest, as tables print them."""
    return f"{median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _rounded(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [_rounded(each) for each in value]
    if isinstance(value, torch.Tensor):
        return _rounded(value.tolist())
    return round(value, 4) if isinstance(value, float) else value
