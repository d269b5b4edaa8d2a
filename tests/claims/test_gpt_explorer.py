"""The sampling explorer of chapter 2.1.2: its numbers at every point of its grid, from the page's own cells."""

from pathlib import Path
from typing import Any

import jupytext
import pytest
import torch

import lib.explore
from lib.data import poems
from lib.gpt import CharTokenizer, GPTConfig, MiniGPT, next_token_probabilities

PAGE = Path(__file__).parents[2] / "book" / "zh" / "gpt.md"
NEEDED = (
    "import torch",
    "def only_top_k(",
    "def entropy(",
    "ranked = context_logits",
)


@pytest.fixture(scope="module")
def cells() -> dict[str, Any]:
    """Run the imports and the explorer's cells on an untrained model with some life in its logits."""
    letters = CharTokenizer("".join(poem.text for poem in poems("zh")))
    torch.manual_seed(0)
    poet = MiniGPT(GPTConfig(letters.vocab_size, context_length=24, dim=16, layers=1, heads=2)).requires_grad_(False)
    for weight in poet.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    made: list[lib.explore.Explorer] = []

    class Recorded(lib.explore.Explorer):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            made.append(self)

    sources = [cell.source for cell in jupytext.read(PAGE).cells if cell.cell_type == "code"]
    space: dict[str, Any] = {"letters": letters, "poet": poet, "dice": torch.Generator()}
    original, lib.explore.Explorer = lib.explore.Explorer, Recorded
    try:
        for part in NEEDED:
            source = next(source for source in sources if part in source)
            exec(source, space)
    finally:
        lib.explore.Explorer = original
    return space | {"explorer": made[0]}


def test_g4_the_explorer_shows_next_token_probabilities_at_every_point(cells: dict[str, Any]):
    explorer, temperatures, ks, ps = (cells[name] for name in ("explorer", "temperatures", "ks", "ps"))
    points = 0
    for i, temperature in enumerate(temperatures):
        for j, k in enumerate(ks):
            for n, p in enumerate(ps):
                explorer.slider_0, explorer.slider_1, explorer.slider_2 = i, j, n
                expected = next_token_probabilities(cells["context_logits"], temperature=temperature, top_k=k, top_p=p)
                shown = explorer.shown()
                for context in (0, 1):
                    bars = torch.as_tensor(shown[context]["values"], dtype=torch.float)
                    row, names = expected[context], cells["ranked"][context]
                    torch.testing.assert_close(bars[:-1], row[names], atol=1e-6, rtol=0)
                    assert bars[-1].item() == pytest.approx(1 - row[names].sum().item(), abs=1e-5)
                    told = shown[2 + context]
                    assert told["count"] == (row > 0).sum()
                    assert told["disorder"] == pytest.approx(torch.special.entr(row).sum().item(), abs=1e-4)
                points += 1
    assert points == len(temperatures) * len(ks) * len(ps) == 216


def test_g4_the_kept_mass_is_what_the_kept_tokens_had_before_the_filters(cells: dict[str, Any]):
    explorer, ks, ps = cells["explorer"], cells["ks"], cells["ps"]
    explorer.slider_0, explorer.slider_1, explorer.slider_2 = 3, ks.index(10), ps.index(1.0)
    p = cells["context_logits"].softmax(-1)  # temperature 1
    for context in (0, 1):
        mass = explorer.shown()[2 + context]["mass"]
        assert mass == pytest.approx(p[context].topk(10).values.sum().item(), abs=1e-5)


def test_g4_the_line_that_is_shown_continues_its_context(cells: dict[str, Any]):
    said = cells["said"]
    assert said.shape == (6, 6, 6, 2)
    for context, text in enumerate(cells["contexts"]):
        assert all(line.startswith(text) and len(line) == 12 for line in said[..., context].flat)
    assert len(set(said[0, ..., 0].flat)) == 1  # greedy is greedy, however the filters stand
