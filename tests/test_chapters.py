"""The form of a chapter: cells show, questions stand before their answers, and the main path is as long as it says."""

import re
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest
from bs4 import BeautifulSoup, Tag
from markdown_it import MarkdownIt
from nbformat import NotebookNode

from lib.tables import text_width

ROOT = Path(__file__).parents[1]
CHAPTERS = sorted(path for path in (ROOT / "book/zh").glob("*.md") if "\n## 练习\n" in path.read_text("utf-8"))
any_chapter = pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: f"{path.parent.name}/{path.stem}")

LONGEST_CELL = 15  # lines, unless it is a class or folded
WIDEST_LINE = 84  # columns, of which a Chinese character takes two: what the page shows without scrolling
FOLDED = {"hide-input", "hide-cell"}
OPTIONAL = re.compile(r"（选读）$")
AFTER_THE_MAIN_PATH = ("例子", "自测", "练习")  # titles start so

# Minutes: of prose a Chinese character, of the rest what it takes to read, to choose, to try.
CHARACTER, CODE_LINE, FORMULA, QUESTION, EXPLORER = 1 / 400, 3 / 60, 10 / 60, 25 / 60, 45 / 60


class Block(NamedTuple):
    """A piece of a chapter in order: `kind` is heading, ask, seen, code, source or text."""

    kind: str
    text: str
    line: int


def blocks(chapter: Path) -> list[Block]:
    """The chapter cut at headings, questions, answers and cells, without what is folded."""
    text = chapter.read_text("utf-8").split("---\n", 2)[2]
    text = re.sub(r'<details class="(convention|break-it|hint|solution)">.*?\n</details>', "", text, flags=re.DOTALL)
    pattern = re.compile(
        r'^```\{code-cell\}.*?\n(?P<code>.*?)^```$|^<div class="(?P<box>ask|seen|check)">(?P<inside>.*?)^</div>$'
        r"|^(?P<heading>#+ [^\n]+)$",
        re.DOTALL | re.MULTILINE,
    )
    found, end = [], 0
    for match in pattern.finditer(text):
        found.append(Block("text", text[end : match.start()], text.count("\n", 0, end)))
        kind = "code" if match["code"] is not None else match["box"] or "heading"
        inside = match["code"] or match["inside"] or match["heading"]
        found.append(Block(kind, inside, text.count("\n", 0, match.start())))
        end = match.end()
    return [*found, Block("text", text[end:], text.count("\n", 0, end))]


GLOSSARY = ROOT / "book/zh/glossary.md"
TERMS = re.findall(r"^\| (.+?) \| (.+?) \| .* \| (2\.1\.\d[.\d]*) \|$", GLOSSARY.read_text("utf-8"), re.MULTILINE)


def test_every_row_of_the_glossary_names_a_section():
    terms = GLOSSARY.read_text("utf-8").partition("## 符号")[0]
    assert len(TERMS) == len(re.findall(r"^\|", terms, re.MULTILINE)) - 2  # its head, and the line below


@pytest.mark.parametrize(("chinese", "english", "number"), TERMS)
def test_a_term_of_the_glossary_stands_where_the_glossary_says(chinese: str, english: str, number: str):
    (page,) = [path for path in CHAPTERS if f"\n# {number} " in path.read_text("utf-8")]
    names = "|".join(re.escape(name.strip()) for name in [chinese, *re.split("[(),]", english)] if name.strip())
    assert re.search(names, page.read_text("utf-8"), re.IGNORECASE)


def code_cells(chapter: Path) -> list[NotebookNode]:
    """The cells of the stored notebook, without the one that installs the book on Colab."""
    notebook = nbformat.read(chapter.with_suffix(".ipynb"), as_version=4)
    return [cell for cell in notebook.cells if cell.cell_type == "code"][1:]


@any_chapter
def test_every_cell_shows_something_but_the_imports(chapter: Path):
    imports, *cells = code_cells(chapter)
    assert "import torch" in imports.source
    silent = [cell.source for cell in cells if not cell.outputs and "Explorer(" not in cell.source]
    assert silent == []


@any_chapter
def test_no_cell_is_long(chapter: Path):
    for cell in code_cells(chapter)[1:]:
        folded = FOLDED & set(cell.metadata.get("tags", []))
        if not folded and "class " not in cell.source:
            assert len(cell.source.splitlines()) <= LONGEST_CELL, cell.source


@any_chapter
def test_no_line_is_wider_than_the_page(chapter: Path):
    shown = [cell for cell in code_cells(chapter) if not FOLDED & set(cell.metadata.get("tags", []))]
    lines = [line for cell in shown for line in cell.source.splitlines()]
    assert [line for line in lines if text_width(line) > WIDEST_LINE] == []


@any_chapter
def test_no_cell_on_the_page_asserts(chapter: Path):
    assert not [cell.source for cell in code_cells(chapter) if re.search(r"^\s*assert\b", cell.source, re.MULTILINE)]


@any_chapter
def test_a_question_has_three_answers_of_which_one_is_right_and_each_says_why(chapter: Path):
    names = []
    for block in blocks(chapter):
        if block.kind not in ("ask", "check"):
            continue
        choices = BeautifulSoup(MarkdownIt().render(block.text), "html.parser").select("li > details")
        assert len(choices) == 3, block.text
        (name,) = {str(choice["name"]) for choice in choices}
        names.append(name)
        right = ["right" in choice.get_attribute_list("class") for choice in choices]
        assert sum(right) == 1, block.text
        for choice, is_right in zip(choices, right, strict=True):
            assert_explained(choice, is_right)
    assert len(names) == len(set(names)) > 3


def assert_explained(choice: Tag, is_right: bool) -> None:
    verdict = choice.find("strong")
    assert verdict is not None
    assert verdict.get_text() == ("对。" if is_right else "不对。")
    assert len(choice.get_text()) > 20


@any_chapter
def test_a_question_is_followed_by_something_to_see_and_then_by_what_was_seen(chapter: Path):
    """Ask, try, see: no answer without a question, none above it, none missing, and a cell in between."""
    order = [block for block in blocks(chapter) if block.kind in ("ask", "seen", "code")]
    waiting: Block | None = None
    shown = False
    for block in order:
        if block.kind == "ask":
            assert waiting is None, f"asked again before the answer to: {waiting}"
            waiting, shown = block, False
        elif block.kind == "code":
            shown = True
        else:
            assert waiting is not None, f"an answer to nothing: {block.text}"
            assert shown, f"nothing to see between question and answer: {block.text}"
            assert re.search(r"\d", block.text), f"an answer without a number: {block.text}"
            waiting = None
    assert waiting is None, f"never answered: {waiting}"


@any_chapter
def test_an_exercise_has_a_hint_before_its_solution(chapter: Path):
    exercises = re.split(r"^\*\*练习 \d+　", chapter.read_text("utf-8").split("\n## 练习\n")[1], flags=re.MULTILINE)[1:]
    assert len(exercises) >= 3
    for exercise in exercises:
        folds = re.findall(r'<details class="(\w+)">|^:tags: \[(solution)', exercise, re.MULTILINE)
        assert [fold or cell for fold, cell in folds] == ["hint", "solution", "solution"], exercise


@any_chapter
def test_the_main_path_takes_as_long_as_the_chapter_says(chapter: Path):
    said = re.search(r"主线约 (\d+) 分钟", chapter.read_text("utf-8"))
    assert said is not None
    minutes = reading_minutes(chapter)
    assert minutes == pytest.approx(int(said[1]), rel=0.15)
    assert minutes <= 46


def reading_minutes(chapter: Path) -> float:
    """An estimate for the sections that are neither folded, optional nor exercises."""
    minutes, skipped = 0.0, 0  # level of the optional heading we are under
    for block in blocks(chapter):
        if block.kind == "heading":
            level, title = len(block.text) - len(block.text.lstrip("#")), block.text.lstrip("# ")
            if skipped and level <= skipped:
                skipped = 0
            if not skipped and (OPTIONAL.search(title) or title.startswith(AFTER_THE_MAIN_PATH)):
                skipped = level
        if not skipped:
            minutes += block_minutes(block)
    return minutes


def block_minutes(block: Block) -> float:
    match block.kind:
        case "ask":
            return QUESTION
        case "code" if "Explorer(" in block.text:
            return EXPLORER
        case "code":
            return CODE_LINE * len([line for line in block.text.splitlines() if line.strip()])
    formulas = block.text.count("$$") // 2
    prose = re.sub(r"\$\$.*?\$\$|\{cite.*?`.*?`", "", block.text, flags=re.DOTALL)
    return FORMULA * formulas + CHARACTER * len(re.findall(r"[\u4e00-\u9fff]|[A-Za-z0-9]+", prose))
