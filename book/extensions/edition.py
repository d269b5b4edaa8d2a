"""One edition of the book: its pages lose the folder they are written in, and each knows its twin.

`book/zh/attention.md` is published as `attention.html` and `book/en/attention.md`, built apart with its own
configuration, as `en/attention.html`. Which edition is built follows from the root document of its table of contents.
"""

import os
from pathlib import Path
from typing import IO, Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.config import Config
from sphinx.search import js_index

LANGUAGES = {"zh": "中文", "en": "English"}
SWITCH = {"zh": ("en", "en/"), "en": ("zh", "../")}  # the other edition, and the way to it from this one's root


def edition_folder(config: Config) -> str:
    """The folder that this edition's pages are written in, `book/zh/`."""
    return config.root_doc.rpartition("/")[0] + "/"


class PublishedIndex:
    """The format of searchindex.js, holding the names under which pages are published."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def dump(self, index: dict[str, Any], file: IO[str]) -> None:
        names = [name.removeprefix(self.folder) for name in index["docnames"]]
        js_index.dump(index | {"docnames": names}, file)

    def load(self, file: IO[str]) -> dict[str, Any]:
        index = js_index.load(file)
        return index | {"docnames": [self.folder + name for name in index["docnames"]]}


class EditionBuilder(StandaloneHTMLBuilder):
    """The HTML builder, publishing `book/zh/attention` as `attention`."""

    name = "html"

    def init(self) -> None:
        super().init()
        self.folder = edition_folder(self.config)
        self.indexer_format = PublishedIndex(self.folder)

    def get_outfilename(self, pagename: str) -> str:
        return super().get_outfilename(pagename.removeprefix(self.folder))

    def get_target_uri(self, docname: str, typ: str | None = None) -> str:
        return super().get_target_uri(docname.removeprefix(self.folder), typ)


def add_twin(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Offer the same page in the other language, where that edition has it."""
    folder = edition_folder(app.config)
    language, way = SWITCH[Path(folder).name]
    name = pagename.removeprefix(folder)
    if (Path(app.srcdir) / "book" / language / f"{name}.md").exists():
        url = f"{context['content_root']}{way}{name}.html"
        context["twin"] = {"language": language, "name": LANGUAGES[language], "url": url}


def setup(app: Sphinx) -> dict[str, bool]:
    os.environ["TQDM_DISABLE"] = "1"  # a progress bar is a widget: it would stay on the page, dead
    os.environ["OMP_NUM_THREADS"] = "1"  # the same sums on any number of cores, as in the notebooks
    app.add_builder(EditionBuilder, override=True)
    app.connect("html-page-context", add_twin)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
