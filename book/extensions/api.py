"""The reference of `lib`, from its docstrings: they become reST, and each name links to its source.

A page is one directive, `automodule`, for a package. Docstrings are written for a reader of the code: `code` in
single backticks, formulas indented, examples behind >>>, and heads such as `Args:`.
"""

import importlib
import re
import sys
from collections.abc import Callable
from functools import cache
from textwrap import dedent, indent
from typing import Any

import sphinx.ext.autodoc
from docutils import nodes
from numpy.typing import ArrayLike
from sources import definition
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.typing import stringify_annotation
from traitlets import TraitType

PACKAGES = ("attention", "transformer", "gpt", "vit", "seq2seq", "data", "training", "plots", "explore")
HEADS = {"Args": "参数", "Arguments": "参数", "Returns": "返回", "Yields": "产生", "Raises": "报错", "Source": "出处"}
ARRAY_LIKE = stringify_annotation(ArrayLike, "smart")
HEAD = re.compile(rf"({'|'.join(HEADS)}):\s+")


@cache
def public_names() -> dict[str, str]:
    """Each public name of `lib`, and where the reference has it: `causal_mask` in `lib.attention.causal_mask`."""
    modules = [importlib.import_module(f"lib.{package}") for package in PACKAGES]
    return {name: f"{module.__name__}.{name}" for module in modules for name in module.__all__}


def rest(docstring: str) -> str:
    r"""The reST of a docstring.

    >>> print(rest("Scale *x*.\n\n    y = 2 |x|\n\nArgs:\n    x: numbers, `y` too.\n\nSource: us."))
    Scale \*x\*.
    <BLANKLINE>
    .. code-block:: text
    <BLANKLINE>
        y = 2 |x|
    <BLANKLINE>
    :参数:
        ``x``
            numbers, ``y`` too.
    <BLANKLINE>
    :出处:
        us.
    """
    return "\n\n".join(map(paragraph, re.split(r"\n(?:\s*\n)+", docstring.strip("\n"))))


def paragraph(text: str) -> str:
    if text.startswith(">>>"):
        return text
    if text.startswith("    "):
        return f".. code-block:: text\n\n{text}"
    if head := HEAD.match(text):
        body = inline(dedent("\n" + text[head.end(1) + 1 :].lstrip(" ")).strip())
        if head[1] in ("Args", "Arguments", "Raises"):
            body = re.sub(r"^(\S.*?): +", lambda entry: entry_term(entry[1]) + "\n    ", body, flags=re.MULTILINE)
        return f":{HEADS[head[1]]}:\n{indent(body, '    ')}"
    return inline(text)


def entry_term(names: str) -> str:
    """`rows, columns` as code, without the marks that `inline` has put."""
    return ", ".join(f"``{name}``" for name in names.replace("\\", "").split(", "))


def inline(text: str) -> str:
    """Code in single backticks is code, or leads to the name it is; all else is just text."""
    pieces = re.split(r"`([^`]+)`", text)
    pieces[::2] = [re.sub(r"([\\*|_])", r"\\\1", piece) for piece in pieces[::2]]
    pieces[1::2] = [code(piece) for piece in pieces[1::2]]
    return "".join(pieces)


def code(text: str) -> str:
    name = text.rpartition(".")[2]
    target = public_names().get(name)
    if target and text in (name, target) and re.search("[A-Z_]", name):  # `image` may also be an argument
        return f":py:obj:`{text} <{target}>`"
    return f"``{text}``"


def write_rest(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    if what == "module":  # comes before its members
        read_constants(name)
    lines[:] = rest("\n".join(lines)).split("\n")


def write_short(
    app: Sphinx, what: str, name: str, obj: object, options: object, signature: str | None, result: str | None
) -> tuple[str | None, str | None]:
    """Types by their names: some are written out in full where a default is not Python's syntax."""
    return signature and re.sub(r"~[\w.]+\.", "", signature.replace(ARRAY_LIKE, "ArrayLike")), result


def skip_traits(app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    return True if isinstance(obj, TraitType) else None


def read_constants(package: str) -> None:
    """Autodoc looks for a constant's docstring in the package; it stands in the file that the package takes it from."""
    found = ModuleAnalyzer.for_module(package).find_attr_docs()
    for file in [name for name in sys.modules if name.startswith(f"{package}.")]:
        docs = ModuleAnalyzer.for_module(file).find_attr_docs()
        found.update({key: doc for key, doc in docs.items() if public_names().get(key[1]) == f"{package}.{key[1]}"})


def tell_languages(app: Sphinx, doctree: nodes.document) -> None:
    """Docstrings are English on a Chinese page, as a screen reader has to know: docutils writes lang="en"."""
    names = list(doctree.findall(addnodes.desc))
    for content in doctree.findall(addnodes.desc_content):
        content["classes"].append("language-en")
        for label in content.findall(nodes.field_name):
            label["classes"].append("language-zh")
    for paragraph in doctree.findall(nodes.paragraph) if names else ():
        if isinstance(paragraph.parent, nodes.section) and not re.search("[\u4e00-\u9fff]", paragraph.astext()):
            paragraph["classes"].append("language-en")


def find_by_public_name(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, contnode: nodes.TextElement
) -> nodes.Element | None:
    """A type in a signature is known by the file it stands in, the reference has it in its package."""
    target = str(node.get("reftarget", ""))
    if node.get("refdomain") != "py" or not target.startswith("lib.") or target in public_names().values():
        return None
    public = public_names().get(target.rpartition(".")[2])
    if public is None:
        return contnode  # a type that is no public name
    python = env.get_domain("py")
    return python.resolve_xref(env, node["refdoc"], app.builder, "obj", public, node, contnode)


def source_of(app: Sphinx, config: Config) -> None:
    """Links to the code on GitHub, as `linkcode` asks for them."""

    def address(domain: str, info: dict[str, str]) -> str | None:
        found: Any = importlib.import_module(info["module"])
        for name in info["fullname"].split("."):
            found = getattr(found, name, None)
        written = definition(found)
        return written and written.address(config)

    resolve: Callable[[str, dict[str, str]], str | None] = address
    config.linkcode_resolve = resolve


def setup(app: Sphinx) -> dict[str, bool]:
    app.setup_extension("sphinx.ext.autodoc")
    app.setup_extension("sphinx.ext.linkcode")
    sphinx.ext.autodoc._CLASS_NEW_BLACKLIST.append("traitlets.traitlets.HasDescriptors.__new__")  # says only *args
    app.connect("config-inited", source_of)
    app.connect("autodoc-process-docstring", write_rest)
    app.connect("autodoc-process-signature", write_short)
    app.connect("autodoc-skip-member", skip_traits)
    app.connect("doctree-read", tell_languages)
    app.connect("missing-reference", find_by_public_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
