"""A notebook runs in an empty folder on a machine that has torch and Jupyter, and knows nothing of the book.

One chapter runs whole; of the others, which the build has run in an empty folder, all that they import.

A new environment sees those of the packages installed here that `lib` declares it needs, but not `lib`, and
pretends to be Colab. Its pip and git are real: the first cell installs the book's code from a repository that holds
the working tree as it is now, committed or not, and that git takes for the one in `_config.yml`. Only the network is
left out: pip may not ask an index, so that what `lib` needs has to be satisfied by what is there, and builds it with
the setuptools that torch brings.
"""

import ast
import json
import os
import subprocess
import sysconfig
import tomllib
import venv
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook
from packaging.requirements import Requirement

from tools.execution import CELL_TIMEOUT
from tools.notebooks import installation, pages
from tools.site import ROOT, Site

Run = Callable[[NotebookNode, Path], Path]

COLAB_OUTPUT = "class _widgets:\n    _installed_url = None\n\n\ndef enable_custom_widget_manager(): ...\n"


def repository(folder: Path, branch: str) -> Path:
    """A bare repository in `folder` whose only commit is the working tree."""
    git = ["git", f"--git-dir={folder}", "-c", "user.name=reader", "-c", "user.email=reader@example.org"]
    subprocess.run([*git, "init", "--quiet", "--bare", f"--initial-branch={branch}"], check=True)
    for command in (["add", "--all"], ["commit", "--quiet", "--message=now"]):
        subprocess.run([*git, f"--work-tree={ROOT}", *command], cwd=ROOT, check=True)
    return folder


def packages(names: Iterable[str]) -> dict[str, Distribution]:
    """The installed packages of these names, and all that they need."""
    found: dict[str, Distribution] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = distribution(name)
            needed = [Requirement(each) for each in found[name].requires or []]
            waiting += [each.name for each in needed if not each.marker or each.marker.evaluate({"extra": ""})]
    return found


def environment(folder: Path) -> Path:
    """A new Python with what a kernel, pip and `lib` need, where google.colab is imported at the start."""
    venv.create(folder, symlinks=True)
    own = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    seen = folder / "installed-before"
    seen.mkdir()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    dependencies = [Requirement(each).name for each in project["dependencies"]]
    for package in packages([*dependencies, "ipykernel", "pip", "setuptools"]).values():
        for name in {file.parts[0] for file in package.files or []} - {"..", "__pycache__"}:
            (seen / name).unlink(missing_ok=True)  # a folder that several packages share
            (seen / name).symlink_to(str(package.locate_file(name)))
    (own / "google" / "colab").mkdir(parents=True)
    (own / "google" / "colab" / "output.py").write_text(COLAB_OUTPUT)
    (own / "colab.pth").write_text(f"{seen}\nimport google.colab.output\n")
    return folder / "bin" / "python"


def variables(python: Path, remote: Path, address: str) -> dict[str, str]:
    """The environment variables of a Colab session, and a git that finds `remote` under `address`."""
    here = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TQDM", "PIP_"))}
    return here | {
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "IPYTHONDIR": str(python.parents[1] / "ipython"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{remote.as_uri()}.insteadOf",
        "GIT_CONFIG_VALUE_0": address,
        "OMP_NUM_THREADS": "1",  # on a busy machine several threads wait for each other
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads a 0 here as: without isolation
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


@pytest.fixture(scope="module")
def colab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run a notebook in a folder, and return the file that `lib` is imported from at its end."""
    home = tmp_path_factory.mktemp("colab")
    site = Site.read()
    python = environment(home / "python")
    env = variables(python, repository(home / "book.git", site.branch), site.repository)
    kernel = home / "kernels" / "colab" / "kernel.json"
    kernel.parent.mkdir(parents=True)
    command = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    kernel.write_text(json.dumps({"argv": command, "display_name": "Colab", "language": "python"}))

    def run(notebook: NotebookNode, folder: Path) -> Path:
        notebook.cells.append(new_code_cell("import lib\n\nlib.__file__"))
        NotebookClient(notebook, kernel_name="colab", timeout=CELL_TIMEOUT).execute(cwd=str(folder), env=env)
        imported = Path(ast.literal_eval(notebook.cells[-1].outputs[0].data["text/plain"]))
        assert imported.is_relative_to(home)
        return imported

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(home))
        yield run


def test_without_the_first_cell_the_book_is_unknown(colab: Run, tmp_path: Path) -> None:
    with pytest.raises(CellExecutionError, match="No module named 'lib'"):
        colab(new_notebook(), tmp_path)


def test_the_first_cell_installs_the_whole_package_and_what_the_chapters_import(colab: Run, tmp_path: Path) -> None:
    notebooks = [nbformat.read(page.with_suffix(".ipynb"), as_version=4) for page in pages()]
    sources = [installation("", Site.read()), *map(imports, notebooks)]
    installed = colab(new_notebook(cells=list(map(new_code_cell, sources))), tmp_path).parent
    assert package_files(ROOT / "lib") - package_files(installed) == set()


def package_files(folder: Path) -> set[str]:
    """The files of a package, but what Python makes of them."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(folder).as_posix() for path in files}


def imports(notebook: NotebookNode) -> str:
    """The import statements of a notebook, wherever they stand."""
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    trees = [ast.parse(TransformerManager().transform_cell(source)) for source in cells]
    found = [node for tree in trees for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    return "\n".join(map(ast.unparse, found))


def test_a_chapter_runs_whole(colab: Run, tmp_path: Path) -> None:
    colab(nbformat.read(ROOT / "book/zh/attention.ipynb", as_version=4), tmp_path)
