"""The local Sphinx extensions, one job each, without building a book."""

import runpy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup
from docutils import nodes

from tests.book.conftest import ROOT
from tests.book.mathml import faults

EXTENSIONS = ROOT / "book" / "extensions"


def extension(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXTENSIONS / f"{name}.py"))


# formulas


@pytest.mark.parametrize(
    "latex",
    [
        r"T_{\max}",
        r"x^{\min}",
        r"a_{\log}^{\exp}",
        r"\frac{\max}{\min}",
        r"\sqrt[\max]{\sin}",
        r"\underset{\max}{x}",
        r"\overset{\operatorname{softmax}}{=}",
        r"a_{\operatorname{softmax}}",
        r"\operatorname*{arg\,max}_{x} f_{\operatorname{arg\,max}}",
        r"\max_x \lim_{n\to\infty} \log_2 x",
        r"\log\frac{\exp x}{\sum_j \exp x_j}",
        r"\underbrace{x_{\det}}_{\dim}",
    ],
)
def test_the_name_of_a_function_is_one_element_wherever_it_stands(latex: str, katex: Callable[[str], str]) -> None:
    assert faults(BeautifulSoup(katex(latex), "html.parser")) == []


def test_functions_keep_what_they_say(katex: Callable[[str], str]) -> None:
    page = BeautifulSoup(katex(r"T_{\max} < \log x"), "html.parser")
    math = page.find("math")
    assert math is not None
    math.annotation.decompose()  # pyright: ignore[reportOptionalMemberAccess]
    assert math.get_text() == "Tmax\u2061<log\u2061x"


@pytest.fixture(scope="module")
def katex() -> Callable[[str], str]:
    loaded = extension("formulas")
    katex = loaded["katex"]
    original = katex.render_latex
    loaded["setup"](None)
    ours = katex.render_latex
    katex.render_latex = original
    return ours


# typography

HALVES = [
    ("他说 “好” 。", "他说“好”。"),
    ("权重\n的和", "权重的和"),
    ("一句话： 权重", "一句话：权重"),
    ("softmax —— 它", "softmax——它"),
    ("等等 …… 吧", "等等……吧"),
    ("用 `q` 和 k", "用 `q` 和 k"),
]
ENGLISH = [
    "he said “yes” — and left",
    "the learners’ data",
    "What is “attention”? It “looks back”.",
    "more … and more",
    "Vaswani’s “Attention Is All You Need”, 2017",
    "a – b",
]


@pytest.mark.parametrize(("source", "shown"), HALVES)
def test_chinese_is_closed_up(source: str, shown: str) -> None:
    assert closed("zh_CN", source) == shown


@pytest.mark.parametrize("source", [*ENGLISH, *(source for source, _ in HALVES)])
def test_an_english_page_keeps_every_space(source: str) -> None:
    assert closed("en", source) == source


@pytest.mark.parametrize("source", ENGLISH)
def test_english_on_a_chinese_page_keeps_the_spaces_of_its_quotes_and_dashes(source: str) -> None:
    assert closed("zh_CN", source) == source
    assert closed("zh_CN", f"参考：{source}。然后").removeprefix("参考：").removesuffix("。然后") == source


def test_the_pieces_of_a_paragraph_are_seen_together() -> None:
    assert closed("zh_CN", "一句话：", " 权重", " “softmax”", " 的和\n", "是") == "一句话：权重“softmax”的和是"
    assert closed("zh_CN", "see ", "“Attention”", " — it is all") == "see “Attention” — it is all"


def closed(language: str, *pieces: str) -> str:
    paragraph = nodes.paragraph("", "", *(nodes.emphasis("", "", nodes.Text(piece)) for piece in pieces))
    document = nodes.container("", paragraph)
    app = SimpleNamespace(config=SimpleNamespace(language=language))
    extension("typography")["close_up_paragraphs"](app, document)
    return paragraph.astext()


def test_marks_around_a_formula_are_part_of_it() -> None:
    pieces = [nodes.Text("设（"), nodes.math("", "x"), nodes.Text("），"), nodes.math("", "y"), nodes.Text(" 与 z。")]
    paragraph = nodes.paragraph("", "", *pieces)
    extension("typography")["bind_marks"](None, nodes.container("", paragraph), "")
    assert [piece.astext() for piece in paragraph] == ["设", r"\text{（}x\text{），}", "", "y", " 与 z。"]


# fresh

RENEWS = {
    "KERNELS": [
        "lib/attention/masks.py",
        "lib/data/texts/poems.txt",
        "lib/fonts/face.otf",
        "lib/explore/explorer.js",
        "lib/explore/explorer.css",
        "lib/data/images/photo.png",
        "lib/data/table.json",
        "experiments/claim/results.json",
        "experiments/claim.py",
        "requirements.txt",
        "pyproject.toml",
    ],
    "READERS": ["book/extensions/anchors.py", "book/references.bib"],
    "FRAME": ["book/assets/book.css", "book/assets/vendor/face.woff2", "book/templates/layout.html"],
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in RENEWS.items() for name in names])
def test_whatever_a_page_is_made_of_renews_it(tmp_path: Path, kind: str, name: str) -> None:
    fresh = extension("fresh")
    seen = [fresh["fingerprint"](tmp_path, fresh[kind])]
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    for content in (b"", b"one", b"two"):
        file.write_bytes(content)
        seen.append(fresh["fingerprint"](tmp_path, fresh[kind]))
    file.unlink()
    assert len(set(seen)) == len(seen)
    assert fresh["fingerprint"](tmp_path, fresh[kind]) == seen[0]


def test_a_file_that_moves_renews_the_pages_and_what_python_leaves_behind_does_not(tmp_path: Path) -> None:
    fresh = extension("fresh")
    (tmp_path / "lib/a").mkdir(parents=True)
    (tmp_path / "lib/b").mkdir()
    (tmp_path / "lib/a/x.txt").write_text("1")
    before = fresh["fingerprint"](tmp_path, fresh["KERNELS"])
    (tmp_path / "lib/a/__pycache__").mkdir()
    (tmp_path / "lib/a/__pycache__/x.pyc").write_bytes(b"1")
    assert fresh["fingerprint"](tmp_path, fresh["KERNELS"]) == before
    (tmp_path / "lib/a/x.txt").rename(tmp_path / "lib/b/x.txt")
    assert fresh["fingerprint"](tmp_path, fresh["KERNELS"]) != before


def test_every_file_of_the_library_and_of_the_frame_is_watched() -> None:
    fresh = extension("fresh")
    for folder, kind in (("lib", "KERNELS"), ("book/extensions", "READERS"), ("book/assets", "FRAME")):
        watched = {path for pattern in fresh[kind] for path in ROOT.glob(pattern)}
        files = {path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts}
        scripts = {path for path in files if path.suffix == ".js"} if folder == "book/extensions" else set()
        assert files - watched - scripts == set()


# anchors


@pytest.mark.parametrize(
    ("slug", "ids", "named"),
    [
        ("核回归", ["id3"], ["核回归", "id3"]),
        ("attention-掩码", ["attention"], ["attention-掩码", "attention"]),
        ("identity", ["identity"], ["identity"]),
        ("idea", ["idea"], ["idea"]),
        ("练习-1", ["id4"], ["练习-1", "id4"]),
        ("21-gpt", ["gpt"], ["gpt"]),
        ("", ["id5"], ["id5"]),
    ],
)
def test_a_section_is_named_by_its_heading(slug: str, ids: list[str], named: list[str]) -> None:
    section = nodes.section(ids=ids, slug=slug)
    extension("anchors")["name_by_heading"](None, nodes.container("", section))
    assert section["ids"] == named


# schematics


TEMPLATE = """
<svg viewBox="0 0 400 200">
{% for token in tokens %}<text x="9" y="9" fill="var(--ink)">{{ token | typeset }}</text>{% endfor %}
{{ tokens[1] }}
</svg>
"""


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    (tmp_path / "row.svg").write_text(TEMPLATE.strip())
    return tmp_path


def test_the_words_of_a_page_stand_in_the_drawing_as_text(templates: Path) -> None:
    svg = extension("schematics")["draw"](templates, "row", {"tokens": ["一 < 二", "岁"]}, 'a "row"')
    drawing = ElementTree.fromstring(svg)
    assert [drawing.get(name) for name in ("role", "aria-label", "width")] == ["img", 'a "row"', "460"]
    assert [text.text for text in drawing.findall("{http://www.w3.org/2000/svg}text")] == ["一 < 二", "岁"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ({}, "needs the word tokens"),
        ({"tokens": ["一", "岁"], "token": "一"}, "has no word token"),
        ({"tokens": ["一"]}, "no element 1"),
    ],
)
def test_a_word_too_few_or_too_many_is_an_error(templates: Path, words: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=f"schematic row:? .*{complaint}"):
        extension("schematics")["draw"](templates, "row", words, "a row")


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("$W_Q$", "WQ"),
        ("$QK^T / √d$ 的和", "QKT / √d 的和"),
        ("a_b", "a_b"),
        ("$x_{t-1}$", "xt-1"),
        ("5 $ & <", "5 $ & <"),
    ],
)
def test_a_formula_is_set_and_keeps_what_it_says(word: str, shown: str) -> None:
    set_word = extension("schematics")["typeset"](word)
    assert "".join(ElementTree.fromstring(f"<text>{set_word}</text>").itertext()) == shown
    assert ("<tspan" in set_word) == ("$W" in word or "$Q" in word or "$x" in word)


def test_a_caption_is_below_the_words() -> None:
    read = extension("schematics")["read"]
    assert read(["a: 1.0", "b: [yes, 二]", "---", "一句", "话"]) == ({"a": "1.0", "b": ["yes", "二"]}, ["一句", "话"])
    assert read(["a: 一"]) == ({"a": "一"}, [])


# sources


@pytest.mark.parametrize(
    ("name", "file", "first"),
    [
        ("lib.attention.dot_product_attention", "lib/attention/dot_product.py", "def dot_product_attention("),
        ("lib.attention.kernel_regression", "lib/attention/kernel_regression.py", "def kernel_regression("),
        ("lib.gpt.MiniGPT", "lib/gpt/model.py", "class MiniGPT("),
        ("lib.gpt.MiniGPT.forward", "lib/gpt/model.py", "    def forward("),
    ],
)
def test_a_source_is_what_stands_in_its_file(name: str, file: str, first: str) -> None:
    found = extension("sources")["find"](name)
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines(keepends=True)
    assert found.file == file
    assert found.lines == lines[found.start - 1 : found.start - 1 + len(found.lines)]
    assert found.lines[0].startswith(first)


@pytest.mark.parametrize(
    "name", ["lib.attention.nothing", "lib.attention", "lib.nothing", "torch.nn.Linear", "a b", ""]
)
def test_what_has_no_source_in_lib_is_an_error_that_names_it(name: str) -> None:
    with pytest.raises(ValueError, match=f"no source of {name}: "):
        extension("sources")["find"](name)
