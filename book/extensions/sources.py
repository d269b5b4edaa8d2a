"""The source of a name in `lib`: folded into a page by `{source}`, and the address of its lines in the repository."""

import inspect
import pkgutil
from dataclasses import dataclass
from html import escape
from pathlib import Path
from textwrap import dedent
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.locale import _
from sphinx.util.docutils import SphinxDirective


@dataclass(frozen=True)
class Definition:
    """Where a function, class or method is written, and its text."""

    file: str
    start: int
    lines: list[str]

    def address(self, config: Config) -> str:
        """The lines on GitHub, under the one address that the configuration has."""
        options = config.html_theme_options
        place = f"{options['repository_url']}/blob/{options['repository_branch']}/{self.file}"
        return f"{place}#L{self.start}-L{self.start + len(self.lines) - 1}"


def definition(found: Any) -> Definition | None:
    """The definition of a function, class, method or property of `lib`; nothing else has one.

    >>> from lib.attention import masked_softmax
    >>> found = definition(masked_softmax)
    >>> found.file, found.lines[0][:19]
    ('lib/attention/dot_product.py', 'def masked_softmax(')
    """
    found = found.fget if isinstance(found, property) else found
    if not (inspect.isroutine(found) or inspect.isclass(found)):
        return None
    if not str(found.__module__).startswith("lib."):
        return None
    lines, start = inspect.getsourcelines(found)
    return Definition(f"{found.__module__.replace('.', '/')}.py", start, lines)


def find(name: str) -> Definition:
    """The definition of `lib.gpt.MiniGPT.forward`, by this dotted name.

    >>> find("lib.gpt.nothing")
    Traceback (most recent call last):
    ValueError: no source of lib.gpt.nothing: module 'lib.gpt' has no attribute 'nothing'
    """
    try:
        root, package, *path = name.split(".")
        # With the colon a function is found, too, whose file has its name, as in lib.attention.kernel_regression.
        found = definition(pkgutil.resolve_name(f"{root}.{package}:{'.'.join(path)}"))
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"no source of {name}: {error}") from error
    if found is None:
        raise ValueError(f"no source of {name}: it is no function, class or method of lib")
    return found


class Source(SphinxDirective):
    """Fold the source of a name into the page, as it is in its file at the time of the build."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        try:
            found = find(name)
        except ValueError as error:
            raise self.error(str(error)) from error
        self.env.note_dependency(str(Path(self.env.srcdir) / found.file))
        summary = escape(_("Source of %s")).replace("%s", f'<code class="literal">{escape(name)}</code>')
        code = dedent("".join(found.lines)).rstrip()
        link = nodes.reference("", _("%s in the repository") % found.file, refuri=found.address(self.config))
        return [
            nodes.raw("", f'<details class="fold source"><summary>{summary}</summary>', format="html"),
            nodes.literal_block(code, code, language="python"),
            nodes.paragraph("", "", link),
            nodes.raw("", "</details>", format="html"),
        ]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("source", Source)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
