"""Chinese search that finds every phrase: the index holds each character and each pair of neighbours.

Sphinx's own Chinese search needs a dictionary, and finds the dictionary's words only.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

HAN = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
RUNS = re.compile(rf"[{HAN}]+|[^\W{HAN}]+")


def split(text: str) -> list[str]:
    """Words as they are; a run of Chinese as its characters and its pairs of neighbours.

    >>> split("自注意 softmax")
    ['自', '注', '意', '自注', '注意', 'softmax']
    """
    words: list[str] = []
    for run in RUNS.findall(text):
        if re.match(f"[{HAN}]", run):
            words += [*run, *(run[i : i + 2] for i in range(len(run) - 1))]
        else:
            words.append(run)
    return words


class SearchChinese(SearchEnglish):
    """English words by their stems, Chinese by characters and pairs."""

    lang = "zh"
    language_name = "Chinese"
    js_splitter_code = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")

    def split(self, input: str) -> list[str]:
        return split(input)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_search_language(SearchChinese)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
