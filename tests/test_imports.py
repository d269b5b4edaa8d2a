"""The kernels build on one another in one direction, and whoever uses them imports from the packages.

`pytest -s tests/test_imports.py -k graph` prints which package imports which.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

import jupytext
import pytest

ROOT = Path(__file__).parents[1]
ORDER = [
    "checks",
    "training",
    "attention",
    "transformer",
    "gpt",
    "vit",
    "seq2seq",
    "data",
    "plots",
    "tables",
    "explore",
]
APART = {("vit", "gpt"), ("seq2seq", "gpt"), ("data", "gpt")}  # chapters that can be read without the other
LIB = sorted((ROOT / "lib").rglob("*.py"))
DISTRIBUTIONS = packages_distributions()
CHAPTERS = sorted(path for path in ROOT.glob("book/*/*.md") if "kernelspec:" in path.read_text("utf-8"))
USERS = sorted(path for folder in ("tests", "benchmarks", "experiments") for path in (ROOT / folder).rglob("*.py"))


def imported(source: str) -> Iterator[str]:
    """The modules that a piece of Python imports, anywhere in it: also within functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"lib.{alias.name}" for alias in node.names) if node.module == "lib" else [node.module or ""]


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def package(module: str) -> str:
    return module.split(".")[1]


MODULES = {module_name(path): path for path in LIB}
GRAPH = {
    name: {used for used in imported(path.read_text("utf-8")) if used in MODULES} for name, path in MODULES.items()
}
PACKAGES = {
    name: {package(used) for module in GRAPH if module.startswith(f"lib.{name}") for used in GRAPH[module]} - {name}
    for name in ORDER
}


def code(chapter: Path) -> str:
    """The code of a chapter, without the lines that only a notebook knows."""
    cells = jupytext.read(chapter).cells
    source = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    return re.sub(r"^(\s*)[%!].*", r"\1pass", source, flags=re.MULTILINE)


def test_the_graph_of_packages_has_no_circle_and_nothing_upward() -> None:
    for name, used in PACKAGES.items():
        print(f"{name:12} {' '.join(sorted(used, key=ORDER.index)) or '—'}")
        assert not {above for above in used if ORDER.index(above) > ORDER.index(name)}, name
        assert not {(name, above) for above in used} & APART
    assert {package(module) for module in GRAPH if "." in module} == {*ORDER, "fonts"}


def test_the_graph_of_files_has_no_circle() -> None:
    assert len(list(TopologicalSorter(GRAPH).static_order())) == len(MODULES)  # raises CycleError


@pytest.mark.parametrize("path", [*LIB, *USERS, *CHAPTERS], ids=lambda path: str(path.relative_to(ROOT)))
def test_names_come_from_the_package_not_from_a_file_inside(path: Path) -> None:
    """But `lib` itself and tests may use what is no public name, and files of one package import one another."""
    source = code(path) if path.suffix == ".md" else path.read_text("utf-8")
    folder, own = path.relative_to(ROOT).parts[:2]
    for node in ast.walk(ast.parse(source)):
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        if module in MODULES and module.count(".") > 1 and package(module) != own:
            public = set(import_module(f"lib.{package(module)}").__all__)
            names = {alias.name for alias in node.names} if isinstance(node, ast.ImportFrom) else set()
            assert folder in ("lib", "tests"), f"{module} is inside a package"
            assert not names & public, f"import {names & public} from lib.{package(module)}"


@pytest.mark.parametrize("path", [*LIB, *CHAPTERS], ids=lambda path: str(path.relative_to(ROOT)))
def test_whatever_is_imported_is_installed_with_lib(path: Path) -> None:
    """Colab gets what `lib` says it needs; an import within a function would be missed only when it is called."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    needed = {re.split(r"[<>=~! ]", each)[0].lower() for each in dependencies}
    source = code(path) if path.suffix == ".md" else path.read_text("utf-8")
    roots = {name.split(".")[0] for name in imported(source)} - {"lib", *sys.stdlib_module_names}
    assert {root for root in roots if not needed & {name.lower() for name in DISTRIBUTIONS.get(root, [root])}} == set()


PROMISED = {  # by the chapters and by the reference: no name goes, a signature may gain keyword arguments
    "attention": "causal_mask padding_mask block_causal_mask kernel_regression masked_softmax dot_product_attention"
    " AdditiveAttention MultiHeadAttention tiled_attention hopfield_update",
    "transformer": "sinusoidal_positions LearnedPositions apply_rope alibi_slopes alibi_bias FeedForward SwiGLU"
    " TransformerBlock Encoder Decoder count_parameters",
    "gpt": "apply_temperature keep_top_k keep_top_p next_token_probabilities sample CharTokenizer BPETokenizer"
    " GPTConfig MiniGPT KVCache generate",
    "vit": "patchify unpatchify ViTConfig ViT",
    "seq2seq": "Seq2Seq greedy_decode",
    "data": "poems bright_block reversed_digits",
    "training": "fit",
    "plots": "heatmap",
    "explore": "Explorer heatmap lines bars image readout",
}


@pytest.mark.parametrize("name", PROMISED)
def test_a_package_has_the_names_that_readers_know(name: str) -> None:
    assert set(PROMISED[name].split()) - set(import_module(f"lib.{name}").__all__) == set()


def test_a_package_exports_the_names_that_it_imports() -> None:
    for name in ORDER[2:]:
        module = import_module(f"lib.{name}")
        assert all(hasattr(module, each) for each in module.__all__)
        if module.__file__ and module.__file__.endswith("__init__.py"):
            tree = ast.parse(Path(module.__file__).read_text("utf-8"))
            names = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
            assert set(module.__all__) == names
