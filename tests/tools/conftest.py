"""The pages of the book, and a small book in a folder of its own."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tools.notebooks import pages
from tools.page import Page
from tools.references import Bibliography
from tools.site import EDITIONS, Site

CONFIG = """
repository:
  url: https://github.com/Reader/small-book/
  branch: trunk
"""

REFERENCES = r"""
@inproceedings{vaswani2017attention,
  author = {Vaswani, Ashish and Shazeer, Noam and Parmar, Niki},
  title = {Attention is {All} you need_}, booktitle = {NeurIPS}, year = {2017},
  eprint = {1706.03762}, archiveprefix = {arXiv}}
@article{hochreiter1997long,
  author = {Hochreiter, Sepp and Schmidhuber, J{\"u}rgen},
  title = {Long Short-Term Memory}, journal = {Neural Computation}, year = {1997}, doi = {10.1162/neco.1997}}
@article{oord2016wavenet,
  author = {van den Oord, A{\"a}ron}, title = {WaveNet}, journal = {Preprint}, year = {2016}}
@article{black2024pi0,
  author = {Black, Kevin and others}, title = {{$\pi_0$}: A Model}, journal = {Preprint}, year = {2024}}
"""

HEAD = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
---
"""

Write = Callable[..., Path]


@pytest.fixture(params=pages(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def book_page(request: pytest.FixtureRequest) -> Path:
    """Each page of the book that has code."""
    return request.param


@pytest.fixture
def site(tmp_path: Path) -> Site:
    for name in ("zh", "en", "assets"):
        (tmp_path / "book" / name).mkdir(parents=True)
    (tmp_path / "_config.yml").write_text(CONFIG)
    (tmp_path / "book" / "references.bib").write_text(REFERENCES)
    (tmp_path / "book" / "assets" / "grid.png").write_bytes(b"")
    for language in EDITIONS:
        (tmp_path / "book" / language / "glossary.md").write_text("# Terms\n")
    return Site.read(tmp_path)


@pytest.fixture
def page(site: Site) -> Callable[..., Page]:
    """Make a page in memory, of the text given."""

    def make(text: str, language: str = "zh") -> Page:
        bibliography = Bibliography(site.root / "book" / "references.bib", EDITIONS[language])
        return Page(site.root / "book" / language / "page.md", text, site, bibliography)

    return make


@pytest.fixture
def write(site: Site) -> Write:
    """Write a page with code, of the text given, into the book."""

    def to_file(text: str, language: str = "zh", name: str = "page") -> Path:
        path = site.root / "book" / language / f"{name}.md"
        path.write_text(HEAD + text, "utf-8")
        return path

    return to_file
