"""Where the book lives: its repository, its published pages and the words of each edition."""

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

import yaml

ROOT = Path(__file__).resolve().parents[1]
IMAGES = {".gif", ".jpg", ".jpeg", ".png", ".svg", ".webp"}


@dataclass(frozen=True)
class Edition:
    """One language: the folder it is published in, and what an exported notebook says in its own voice."""

    published: str
    install: str
    references: str
    source: str
    equation: str
    et_al: str
    and_: str


EDITIONS = {
    "zh": Edition(
        published="",
        install="在 Colab 上安装本书的代码；在别处什么也不做",
        references="参考文献",
        source="{} 的源码",
        equation="式 ({})",
        et_al=" 等",
        and_=" 和 ",
    ),
    "en": Edition(
        published="en/",
        install="Installs the book's code on Colab; does nothing elsewhere",
        references="References",
        source="Source of {}",
        equation="({})",
        et_al=" et al.",
        and_=" and ",
    ),
}


@dataclass(frozen=True)
class Site:
    """Addresses of the files under `root`, in the repository and on the published site."""

    root: Path
    repository: str
    branch: str

    @classmethod
    def read(cls, root: Path = ROOT) -> "Site":
        """The site whose repository `_config.yml` names."""
        repository = yaml.safe_load((root / "_config.yml").read_text("utf-8"))["repository"]
        return cls(root, repository["url"].rstrip("/"), repository["branch"])

    def page(self, source: Path) -> str:
        """Address of the page that is written in the Markdown file `source`, on GitHub Pages."""
        owner, name = urlsplit(self.repository).path.strip("/").split("/")
        folder = EDITIONS[source.resolve().parent.name].published
        return f"https://{owner.lower()}.github.io/{name}/{folder}{source.stem}.html"

    def file(self, path: Path) -> str:
        """Address of any other file in the repository: an image as such, the rest on its page there."""
        view = "raw" if path.suffix.lower() in IMAGES else "blob"
        inside = Path(os.path.relpath(path, self.root)).as_posix()
        return f"{self.repository}/{view}/{self.branch}/{quote(inside)}"
