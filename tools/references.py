"""Citations and the list of references of a notebook, from the BibTeX file of the book."""

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

from pybtex.backends.markdown import Backend as MarkdownBackend
from pybtex.database import BibliographyData, Entry, Person, parse_file
from pybtex.richtext import Text
from pybtex.style.formatting.unsrt import Style

from tools.site import Edition

FORMULA_OR_MARKUP = re.compile(r"(\$[^$]+\$)|([\\`*_\[\]<$])")


class Backend(MarkdownBackend):
    """Escapes what Markdown would take for markup, and neither formulas nor every full stop and hyphen."""

    def format_str(self, text: str) -> str:
        return FORMULA_OR_MARKUP.sub(lambda found: found[1] or f"\\{found[2]}", text)


class Bibliography:
    """The entries of a BibTeX file, cited by author and year in the language of an edition."""

    def __init__(self, path: Path, edition: Edition) -> None:
        self.path = path
        self.edition = edition

    @cached_property
    def _data(self) -> BibliographyData:
        return parse_file(str(self.path), "bibtex")

    def __contains__(self, key: str) -> bool:
        return key in self._data.entries

    def in_parentheses(self, keys: Iterable[str]) -> str:
        """(Author, year; …), as the role cite:p shows it."""
        return f"({'; '.join(self._link(key, f'{self._authors(key)}, {self._year(key)}') for key in keys)})"

    def in_text(self, keys: Iterable[str]) -> str:
        """Author (year), as the role cite:t shows it."""
        return ", ".join(f"{self._authors(key)} ({self._link(key, self._year(key))})" for key in keys)

    def listing(self, keys: Iterable[str]) -> str:
        """A Markdown list of the works, by author and year."""
        ordered = sorted(set(keys), key=lambda key: (self._authors(key).casefold(), self._year(key), key))
        entries = Style().format_entries([self._data.entries[key] for key in ordered])
        return "\n".join(f"- {' '.join(entry.text.render(Backend()).split())}" for entry in entries)

    def _authors(self, key: str) -> str:
        names = [family_name(person) for person in self._data.entries[key].persons["author"]]
        many = len(names) > 2 or names[-1] == "others"
        return names[0] + self.edition.et_al if many else self.edition.and_.join(names)

    def _year(self, key: str) -> str:
        return fields(self._data.entries[key])["year"]

    def _link(self, key: str, text: str) -> str:
        url = address(fields(self._data.entries[key]))
        return f"[{text}]({url})" if url else text


def family_name(person: Person) -> str:
    return str(Text.from_latex(" ".join([*(person.prelast_names or []), *(person.last_names or [])])))


def fields(entry: Entry) -> Mapping[str, str]:
    return entry.fields or {}


def address(work: Mapping[str, str]) -> str | None:
    """Where to read a work: its DOI, its arXiv page or its url."""
    if "doi" in work:
        return f"https://doi.org/{work['doi']}"
    if "eprint" in work:
        return f"https://arxiv.org/abs/{work['eprint']}"
    return work.get("url")
