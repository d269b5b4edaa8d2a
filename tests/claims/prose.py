"""Numbers that a page states, read from the page: a claim is compared with the sentence a reader sees."""

import re
from functools import cache
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "book" / "zh"


def stated(page: str, sentence: str) -> float:
    """Return the number that a page states: the one group of the pattern `sentence`, `$` and line breaks aside.

    A percentage is read as it stands (`1.9%` gives 1.9), a fraction (`4/216`) is divided out, and spaces or
    commas between groups of three digits are dropped. Use `almost` to compare at the printed precision.

    >>> stated("attention", r"float16 最大只到 (\\d+)")
    65504.0
    """
    number = stated_text(page, sentence).replace(",", "").replace(" ", "").replace("−", "-")
    top, _, bottom = number.partition("/")
    return float(top) / float(bottom or 1)


def almost(page: str, sentence: str) -> object:
    """Return the stated number to compare with `==`: equal is what rounds to it at the digits printed.

    >>> 22.627 == almost("attention", r"\\\\sqrt\\{512\\} = ([\\d.]+)")
    True
    """
    decimals = len(stated_text(page, sentence).partition(".")[2])
    half = 0.5 * 10**-decimals + 1e-9  # 0.955 may be written 0.95 or 0.96
    return pytest.approx(stated(page, sentence), rel=1e-9, abs=half)


def stated_text(page: str, sentence: str) -> str:
    """Return the text that the one group of the pattern `sentence` matches on a page; it must be the same at each."""
    found = set(re.findall(sentence, _prose(page)))
    assert found, f"{page}.md no longer says: {sentence}"
    assert len(found) == 1, f"{page}.md says {sentence} in different ways: {sorted(found)}"
    return found.pop()


@cache
def _prose(page: str) -> str:
    """The text outside code cells, on one line."""
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    text = re.sub(r"^```\{code-cell\}.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\s+", " ", text.replace("$", ""))
