"""Each kind of MyST markup in the book has a plain Markdown form; any other is refused."""

import base64
import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from tools.markdown import plain_markdown
from tools.page import MarkupError, Page

Plain = Callable[..., str]


@pytest.fixture
def plain(page: Callable[..., Page]) -> Plain:
    return lambda text, language="zh": plain_markdown(text, 1, page(text, language))


@pytest.mark.parametrize(
    "text",
    [
        "# 标题 $d$\n\n段落 **粗** `{cite:p}` $[a](b)$ 与 ``{x}`y` ``",
        '<div class="ask">\n\n**先猜：** 什么？\n\n</div>',
        '- <details name="check-1"><summary>一</summary>\n\n  **对。** $x$\n\n  </details>',
        "```python\nf'{x}' # {cite:p}`a` [a](b.md)\n```",
        "$$\na = b\n$$",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "    indented {cite:p}`code`",
        "[outside](https://example.org/a_(b)) <https://example.org>",
    ],
)
def test_commonmark_formulas_and_html_stay_as_they_are(plain: Plain, text: str) -> None:
    assert plain(text) == text


@pytest.mark.parametrize("fence", [":::", "```"])
def test_an_admonition_becomes_a_quotation_under_its_title(plain: Plain, fence: str) -> None:
    text = f"前\n\n{fence}{{admonition}} 约定 $m$\n:class: convention\n\n一\n\n二\n{fence}\n\n后"
    assert plain(text) == "前\n\n> **约定 $m$**\n>\n> 一\n>\n> 二\n\n后"


def test_code_in_a_title_stays_code(plain: Plain) -> None:
    assert plain(":::{admonition} `mask`\n`a` b\n:::") == "> **`mask`**\n>\n> `a` b"


def test_a_formula_in_a_quotation_takes_one_line(plain: Plain) -> None:
    text = ":::{admonition} T\n$$\na \\\\\nb\n$$\n:::"
    assert plain(text).splitlines()[-1] == "> $$ a \\\\ b $$"


def test_an_admonition_in_a_list_keeps_its_depth(plain: Plain) -> None:
    assert plain("- a\n\n  :::{admonition} T\n  b\n  :::\n- c") == "- a\n\n  > **T**\n  >\n  > b\n- c"


def test_a_figure_becomes_an_image_from_the_repository_and_its_caption(plain: Plain) -> None:
    image = "![网格](https://github.com/Reader/small-book/raw/trunk/book/assets/grid.png)"
    assert plain("```{figure} ../assets/grid.png\n:alt: 网格\n说明 $x$\n```") == f"{image}\n\n说明 $x$"


def test_a_citation_in_parentheses_links_each_work(plain: Plain) -> None:
    assert plain("见 {cite:p}`vaswani2017attention, hochreiter1997long`。") == (
        "见 ([Vaswani 等, 2017](https://arxiv.org/abs/1706.03762); "
        "[Hochreiter 和 Schmidhuber, 1997](https://doi.org/10.1162/neco.1997))。"
    )


def test_a_citation_in_the_text_names_the_authors(plain: Plain) -> None:
    link = "([2017](https://arxiv.org/abs/1706.03762))"
    assert plain("{cite:t}`vaswani2017attention`") == f"Vaswani 等 {link}"
    assert plain("{cite:t}`vaswani2017attention`", "en") == f"Vaswani et al. {link}"


def test_a_work_without_an_address_is_cited_without_a_link(plain: Plain) -> None:
    assert plain("{cite:t}`oord2016wavenet`") == "van den Oord (2016)"


def test_authors_left_out_of_the_entry_are_not_called_others(plain: Plain) -> None:
    assert plain("{cite:p}`black2024pi0`") == "(Black 等, 2024)"


def test_citations_are_found_in_titles_tables_and_quotations(plain: Plain, page: Callable[..., Page]) -> None:
    keys = ["vaswani2017attention", "hochreiter1997long", "oord2016wavenet"]
    cite = "{{cite:t}}`{}`".format
    text = f":::{{admonition}} {cite(keys[0])}\n{cite(keys[1])}\n:::\n\n| a | b |\n|--|--|\n| 1 | {cite(keys[2])} |"
    chapter = page(text)
    assert "{cite" not in plain_markdown(text, 1, chapter)
    assert sorted(chapter.cited) == sorted(keys)


def test_the_list_of_references_has_each_work_once_in_order(page: Callable[..., Page]) -> None:
    keys = ["vaswani2017attention", "oord2016wavenet", "hochreiter1997long", "oord2016wavenet", "black2024pi0"]
    listing = page("").bibliography.listing(keys).splitlines()
    assert [line.split(".")[0] for line in listing] == [
        "- Kevin Black and others",
        "- Sepp Hochreiter and Jürgen Schmidhuber",
        "- Aäron van den Oord",
        "- Ashish Vaswani, Noam Shazeer, and Niki Parmar",
    ]
    assert "$\\pi _0$: a model. *Preprint*" in listing[0]
    assert "need\\_. In *NeurIPS*" in listing[3]


def test_equations_are_numbered_through_the_page(plain: Plain) -> None:
    text = "{eq}`second`\n\n$$ a $$ (first)\n\n$$\nb\n$$ (second)"
    assert plain(text) == "式 (2)\n\n$$\na \\tag{1}\n$$\n\n$$\nb \\tag{2}\n$$"


def test_a_link_to_another_page_leads_to_the_published_one(plain: Plain) -> None:
    published = "https://reader.github.io/small-book"
    assert plain("[术语](glossary.md)") == f"[术语]({published}/glossary.html)"
    assert plain("[a `b`](../en/glossary.md)") == f"[a `b`]({published}/en/glossary.html)"


OTHER_PAGE = """# 术语

## 掩码

## Attention 掩码

(a_label)=
## 3 练习

### Key, value!
"""


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("掩码", "掩码"),
        ("attention-掩码", "attention-掩码"),
        ("key-value", "key-value"),
        ("术语", "术语"),
        ("a_label", "a-label"),
    ],
)
def test_a_link_to_a_place_on_another_page_keeps_its_anchor(
    plain: Plain, page: Callable[..., Page], name: str, identifier: str
) -> None:
    (page("").path.parent / "other.md").write_text(OTHER_PAGE, encoding="utf-8")
    published = f"https://reader.github.io/small-book/other.html#{identifier}"
    assert plain(f"[a](other.md#{name})") == f"[a]({published})"
    table = f"| a | b |\n|---|---|\n| 1 | [b](other.md#{name}) |"
    assert published in plain(table)


@pytest.mark.parametrize("name", ["nowhere", "3-练习", "Attention"])
def test_a_place_that_another_page_does_not_have_is_an_error(
    plain: Plain, page: Callable[..., Page], name: str
) -> None:
    (page("").path.parent / "other.md").write_text(OTHER_PAGE, encoding="utf-8")
    with pytest.raises(MarkupError, match=rf"page\.md:1: link to other.md#{name}"):
        plain(f"[a](other.md#{name})")


def test_a_link_within_the_page_finds_its_heading(plain: Plain) -> None:
    text = "[掩码](#掩码-a)\n\n## 掩码 A\n\n## 其他"
    assert plain(text) == '[掩码](#掩码-A)\n\n<a id="掩码-A"></a>\n\n## 掩码 A\n\n## 其他'


def test_a_label_is_kept_only_where_the_page_links_to_it(plain: Plain) -> None:
    assert plain("(here)=\n文") == "文"
    assert plain("(here)=\n[文](#here)") == '<a id="here"></a>\n\n[文](#here)'


def test_a_comment_is_dropped(plain: Plain) -> None:
    assert plain("a\n\n% not for readers\n\nb").split() == ["a", "b"]


def test_footnotes_become_raised_numbers(plain: Plain) -> None:
    assert plain("文[^1]\n\n[^1]: 注") == "文<sup>[1]</sup>\n\n<sup>[1]</sup> 注"


@pytest.mark.parametrize(
    ("markup", "line", "complaint"),
    [
        (":::{note}\na\n:::", 3, "unknown directive {note}"),
        ("```{code-cell} ipython3\n1\n```", 3, "unknown directive {code-cell}"),
        (":::{admonition} T\na\n\n{ref}`b`\n:::", 6, "unknown role {ref}"),
        (":::{admonition} T\n:class: c\n\na\n{ref}`b`\n:::", 7, "unknown role {ref}"),
        (":::{admonition} T\n:colour: red\n\na\n:::", 3, "colour"),
        (":::{admonition}\n:::", 3, "argument"),
        ("a\nb {math}`x`", 4, "unknown role {math}"),
        ("{cite:p}`nobody2000nothing`", 3, "no entry nobody2000nothing"),
        ("{eq}`nowhere`", 3, "no equation is labelled nowhere"),
        ("[a](missing.md)", 3, "link to missing.md"),
        ("[a](#missing)", 3, "no heading or label is called missing"),
        ("```{note}\na\n```", 3, "unknown directive {note}"),
        ("- a\n\n  ```{tip}\n  b\n  ```", 5, "unknown directive {tip}"),
        (":::note\na\n:::", 3, "unknown markup colon_fence"),
        ("| a |\n|---|\n| {abbr}`b` |", 5, "unknown role {abbr}"),
        ("# {sub}`b`", 3, "unknown role {sub}"),
        ("[a]{.class}", 3, "unknown markup span_open"),
        ("`a`{.python}", 3, "unknown markup code_inline"),
        ('[a](glossary.md "title")', 3, "write links and footnotes as"),
        ("[a][b]\n\n[b]: glossary.md", 3, "write links and footnotes as"),
        ("[a](<glossary.md>)", 3, "link to <glossary.md>"),
        ("[![a](../assets/grid.png)](glossary.md)", 3, "write links and footnotes as"),
        ("[](glossary.md)", 3, "link to glossary.md has no text"),
        ("[a](project:glossary.md)", 3, "unknown scheme"),
        ("<project:#a>", 3, "write links and footnotes as"),
        ('<a href="glossary.md">a</a>', 3, "link to glossary.md in HTML"),
        ('<div>\n<img alt="a" src="../assets/grid.png">\n</div>', 3, "link to ../assets/grid.png in HTML"),
        ("> :::{admonition} T\n> a\n> :::", 3, "has to start its line"),
    ],
)
def test_what_cannot_be_shown_is_an_error_that_names_file_and_line(
    plain: Plain, markup: str, line: int, complaint: str
) -> None:
    with pytest.raises(MarkupError, match=rf"page\.md:{line}: .*{complaint}"):
        plain(f"前\n\n{markup}")


# schematics and sources

TEMPLATE = '<svg viewBox="0 0 400 200"><text x="9" y="9" fill="var(--ink)">{{ query | typeset }}</text></svg>'
SCHEMATIC = "```{{schematic}} look\n:alt: 一个“查询”\n{}\n```"


@pytest.fixture
def template(page: Callable[..., Page]) -> None:
    book = page("").site.root / "book"
    (book / "schematics").mkdir()
    (book / "schematics/look.svg").write_text(TEMPLATE)
    (book / "assets/colours.css").write_text('html[data-theme="light"] {\n  --paper: #fff;\n  --ink: #123;\n}\n')


@pytest.mark.usefixtures("template")
def test_a_schematic_becomes_a_picture_that_needs_no_style_sheet_and_its_caption(plain: Plain) -> None:
    image, _, caption = plain(SCHEMATIC.format("query: $q_1$ 查询\n---\n说明 $x$，{cite:t}`oord2016wavenet`。")).split(
        "\n"
    )
    assert caption == "说明 $x$，van den Oord (2016)。"
    found = re.fullmatch(r'<img alt="一个“查询”" width="460" src="data:image/svg\+xml;base64,(.*)">', image)
    assert found
    svg = base64.b64decode(found[1]).decode()
    assert 'fill="#123"' in svg
    assert '<rect width="100%" height="100%" fill="#fff"/>' in svg
    assert "var(" not in svg
    assert "".join(ElementTree.fromstring(svg).itertext()) == "q1 查询"


@pytest.mark.usefixtures("template")
def test_a_schematic_in_a_list_keeps_its_depth(plain: Plain) -> None:
    text = "- a\n\n  " + SCHEMATIC.format("query: 查询\n---\n说明").replace("\n", "\n  ")
    assert [line[:6] for line in plain(text).split("\n")] == ["- a", "", "  <img", "", "  说明"]


@pytest.mark.usefixtures("template")
@pytest.mark.parametrize(
    ("markup", "line", "complaint"),
    [
        (SCHEMATIC.format("query: 查询\nkey: 键"), 3, "schematic look has no word key"),
        (SCHEMATIC.format("---\n说明"), 3, "schematic look needs the word query"),
        (SCHEMATIC.format("查询"), 3, "write the words as"),
        (SCHEMATIC.format("query: [查询"), 3, "no YAML"),
        (SCHEMATIC.replace("look", "gone").format("query: 查询"), 3, "no schematic is called gone; known are look"),
        ("```{schematic} look\nquery: 查询\n```", 3, ":alt:"),
        (SCHEMATIC.format("query: 查询\n---\n说明\n{ref}`b`"), 8, "unknown role {ref}"),
        ("```{source} lib.attention.nothing\n```", 3, "no source of lib.attention.nothing"),
        ("```{source} lib.attention\n```", 3, "no source of lib.attention: it is no function"),
        ("```{source} torch.nn.Linear\n```", 3, "no source of torch.nn.Linear"),
    ],
)
def test_a_fault_of_a_schematic_or_source_names_file_and_line(
    plain: Plain, markup: str, line: int, complaint: str
) -> None:
    with pytest.raises(MarkupError, match=rf"page\.md:{line}: .*{complaint}"):
        plain(f"前\n\n{markup}")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("lib.attention.dot_product_attention", "attention/dot_product.py"),
        ("lib.gpt.MiniGPT", "gpt/model.py"),
        ("lib.gpt.MiniGPT.forward", "gpt/model.py"),
    ],
)
def test_a_source_becomes_a_link_to_its_file_without_lines(plain: Plain, name: str, file: str) -> None:
    address = f"https://github.com/Reader/small-book/blob/trunk/lib/{file}"
    text = f"```{{source}} {name}\n```"
    assert plain(text) == f"**[`{name}`]({address}) 的源码**"
    assert plain(text, "en") == f"**Source of [`{name}`]({address})**"
