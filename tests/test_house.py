"""The house holds together: one address, one set of versions, the same verbs for people and machines."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
CONFIG: dict[str, Any] = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
REPOSITORY: str = CONFIG["repository"]["url"].removeprefix("https://github.com/")
BRANCH: str = CONFIG["repository"]["branch"]
VERBS = {"book", "test", "notebooks", "lint", "bench", "serve", "clean", "coverage"}
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def pins(name: str) -> dict[str, str]:
    """Package and version of each line of a requirements file."""
    return dict(re.findall(r"^([\w.-]+)==([\w.]+)", read(name), re.MULTILINE))


@pytest.mark.parametrize("name", ["README.md", "CITATION.cff", "CONTRIBUTING.md"])
def test_every_mention_of_the_repository_is_the_configured_one(name: str) -> None:
    mentions = re.findall(
        r"(?:github\.com|colab\.research\.google\.com/github|mybinder\.org/v2/gh)/([\w.-]+/[\w.-]+)", read(name)
    )
    assert set(mentions) <= {REPOSITORY}
    assert mentions or name == "CONTRIBUTING.md"


def test_the_readme_launches_notebooks_that_exist() -> None:
    colab = re.findall(rf"/github/{REPOSITORY}/blob/{BRANCH}/(\S+?)\)", read("README.md"))
    binder = re.findall(rf"/gh/{REPOSITORY}/{BRANCH}\?urlpath=lab/tree/(\S+?)\)", read("README.md"))
    assert colab == binder
    assert len(colab) == 1
    assert (ROOT / colab[0]).with_suffix(".md").exists()
    assert colab[0].endswith(".ipynb")


def test_the_environment_names_exact_versions() -> None:
    lines = [line for line in read("requirements.txt").splitlines() if line and line[0] not in "#-"]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)


def test_binder_runs_the_versions_of_the_book() -> None:
    book, binder = pins("requirements.txt"), pins(".binder/requirements.txt")
    assert binder
    assert {name: book.get(name) for name in binder} == binder


def test_the_makefile_has_the_verbs_that_the_readme_promises() -> None:
    targets = set(re.findall(r"^(\w+):", read("Makefile"), re.MULTILINE))
    assert targets >= VERBS
    assert set(re.findall(r"(?:`|^)make (\w+)", read("README.md"), re.MULTILINE)) <= targets


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_types_the_verbs_that_a_person_types(workflow: Path) -> None:
    job = next(iter(yaml.safe_load(workflow.read_text())["jobs"].values()))
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert any(command.split() in [["make", verb] for verb in VERBS] for command in commands)
    assert all(re.search(r"@v\d+$", step["uses"]) for step in job["steps"] if "uses" in step)


def test_no_page_name_has_a_dot() -> None:
    pages = [path.stem for path in (ROOT / "book").glob("*/*.md")]
    assert pages
    assert not [name for name in pages if "." in name]
