"""Citations in Chinese, （Vaswani 等, 2017）: `bibtex_reference_style: author_year_zh` chooses them."""

from dataclasses import dataclass, field

import sphinxcontrib.bibtex.plugin
from sphinx.application import Sphinx
from sphinxcontrib.bibtex.style.referencing import BracketStyle, PersonStyle
from sphinxcontrib.bibtex.style.referencing.author_year import AuthorYearReferenceStyle


def brackets() -> BracketStyle:
    return BracketStyle(left="（", right="）", sep="；")


@dataclass
class ChineseAuthorYear(AuthorYearReferenceStyle):
    """Names and years as `author_year` gives them, joined in Chinese."""

    bracket_parenthetical: BracketStyle = field(default_factory=brackets)
    bracket_textual: BracketStyle = field(default_factory=brackets)
    person: PersonStyle = field(default_factory=lambda: PersonStyle(sep2=" 和 ", last_sep=" 和 ", other=" 等"))


def setup(app: Sphinx) -> dict[str, bool]:
    group = "sphinxcontrib.bibtex.style.referencing"
    sphinxcontrib.bibtex.plugin.register_plugin(group, "author_year_zh", ChineseAuthorYear)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
