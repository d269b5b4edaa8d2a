"""What chapter 2.1.2 claims about drawing the next token: G4."""

import math
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from lib.gpt import keep_top_k, keep_top_p, next_token_probabilities, sample
from tests.claims.prose import stated, stated_text

PAGE = "gpt"
NOTHING: Any = torch.empty(0, dtype=torch.long)  # Hugging Face's processors want the tokens so far, and ignore them


def logits(*shape: int, seed: int = 0) -> Tensor:
    return 3 * torch.randn(shape, generator=Generator().manual_seed(seed))


def entropy(probabilities: Tensor) -> Tensor:
    return torch.special.entr(probabilities).sum(-1)


def test_g4_entropy_rises_with_temperature_from_greedy_to_uniform():
    rows, warmth = logits(20, 13), (0.0, 0.3, 0.7, 1.0, 1.5, 3.0, 1e3)
    entropies = torch.stack([entropy(next_token_probabilities(rows, temperature=t)) for t in warmth])
    assert (entropies.diff(dim=0) > 0).all()
    assert (entropies[0] == 0).all()
    torch.testing.assert_close(entropies[-1], torch.full((20,), math.log(13)), atol=1e-3, rtol=0)


@pytest.mark.parametrize("k", [1, 3, 13, 99])
def test_g4_top_k_keeps_k_and_their_proportions(k: int):
    rows = logits(20, 13)
    p, kept = rows.softmax(-1), next_token_probabilities(rows, top_k=k)
    assert ((kept > 0).sum(-1) == min(k, 13)).all()
    best = p.topk(min(k, 13)).values.sum(-1, keepdim=True)
    torch.testing.assert_close(kept, torch.where(kept > 0, p / best, 0.0))


@pytest.mark.parametrize("threshold", [0.05, 0.5, 0.9, 0.999])
def test_g4_top_p_keeps_the_smallest_set_of_that_mass(threshold: float):
    rows = logits(50, 13)
    p, kept = rows.softmax(-1), next_token_probabilities(rows, top_p=threshold) > 0
    mass = (p * kept).sum(-1)
    least = p.masked_fill(~kept, 1.0).amin(-1)
    assert (mass >= threshold - 1e-5).all()
    assert (mass - least < threshold + 1e-5).all()  # without its least likely member it falls short
    assert (p.masked_fill(kept, 0.0).amax(-1) <= least).all()  # what is out is no likelier than what is in


@pytest.mark.parametrize("temperature", [0.4, 1.0, 2.5])
@pytest.mark.parametrize(("k", "p"), [(None, None), (5, None), (None, 0.8), (7, 0.6)])
def test_g4_equals_the_processors_of_hugging_face(temperature: float, k: int | None, p: float | None):
    rows = logits(40, 23)
    theirs = TemperatureLogitsWarper(temperature)(NOTHING, rows)
    theirs = theirs if k is None else TopKLogitsWarper(k)(NOTHING, theirs)
    theirs = theirs if p is None else TopPLogitsWarper(p)(NOTHING, theirs)
    ours = next_token_probabilities(rows, temperature=temperature, top_k=k, top_p=p)
    torch.testing.assert_close(ours, theirs.softmax(-1))


def test_g4_at_a_tie_hugging_face_keeps_more_than_k_and_we_never_do():
    tied = torch.tensor([[2.0, 1.0, 1.0, 1.0, 0.0]])
    assert TopKLogitsWarper(2)(NOTHING, tied).isfinite().sum() == 4
    assert keep_top_k(tied, 2).isfinite().sum() == 2


def test_g4_the_edges_that_the_chapter_names():
    z = torch.tensor([3.0, 1.0, 2.0])
    assert sample(z, temperature=0).item() == 0
    assert torch.equal(keep_top_p(z, 1.0), z)
    assert keep_top_p(z, 0.0).isfinite().tolist() == [True, False, False]
    with pytest.raises(ValueError, match="temperature must be at least 0"):
        next_token_probabilities(z, temperature=-1.0)
    with pytest.raises(ValueError, match="top_k must be at least 1"):
        keep_top_k(z, 0)


def test_g4_top_p_follows_the_shape_and_top_k_does_not():
    k, p = int(stated(PAGE, r"都取 k = (\d+) 和 p")), stated(PAGE, r"都取 k = \d+ 和 p = ([\d.]+)：")
    sharp, flat = torch.tensor([0.92, 0.02, 0.02, 0.02, 0.02]).log(), torch.zeros(5)
    assert [keep_top_k(z, k).isfinite().sum().item() for z in (sharp, flat)] == [k, k]
    assert [keep_top_p(z, p).isfinite().sum().item() for z in (sharp, flat)] == [1, 5]
    four = [float(n) for n in stated_text(PAGE, r"四个候选的概率是 ([\d.、]+)，取 top-p").split("、")]
    threshold = stated(PAGE, r"取 top-p = ([\d.]+)，留下几个")  # the third self-check
    kept = keep_top_p(torch.tensor(four).log(), threshold).isfinite()
    assert kept.sum() == {"三": 3}[stated_text(PAGE, r"(.)个：0.8 不够，加上 0.15 是 0.95")]
    mass = torch.tensor(four)[kept].sum().item()
    assert mass == pytest.approx(stated(PAGE, r"加上 0.15 是 ([\d.]+)<"))
    assert mass == pytest.approx(stated(PAGE, r"重新归一化，各除以 ([\d.]+)。"))


def test_g4_draws_come_as_often_as_they_are_likely():
    z = logits(6)
    draws = sample(z.expand(20_000, 6), temperature=1.3, top_k=4, generator=Generator().manual_seed(0))
    shares = torch.bincount(draws, minlength=6) / 20_000
    torch.testing.assert_close(shares, next_token_probabilities(z, temperature=1.3, top_k=4), atol=0.015, rtol=0)
