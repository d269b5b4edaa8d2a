"""Sampling: each filter's promise a row at a time, at the borders, and beside Hugging Face's processors."""

import math
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from lib.gpt import apply_temperature, keep_top_k, keep_top_p, next_token_probabilities, sample

LOGITS = 3 * torch.randn(5, 37, generator=Generator().manual_seed(0))
UNUSED: Any = torch.zeros(5, 1, dtype=torch.long)  # Hugging Face's processors are handed the tokens so far
FILTERS = {
    "temperature": lambda z: apply_temperature(z, 0.7),
    "greedy": lambda z: apply_temperature(z, 0),
    "top-k": lambda z: keep_top_k(z, 4),
    "top-p": lambda z: keep_top_p(z, 0.8),
    "top-p of 1": lambda z: keep_top_p(z, 1.0),
    "probabilities": lambda z: next_token_probabilities(z, temperature=0.7, top_k=9, top_p=0.8),
}
any_filter = pytest.mark.parametrize("change", FILTERS.values(), ids=FILTERS.keys())


def kept(logits: Tensor) -> Tensor:
    return (logits > -math.inf).sum(-1)


def entropy(p: Tensor) -> Tensor:
    return torch.special.entr(p).sum(-1)


class TestAnyFilter:
    @any_filter
    def test_rows_do_not_know_of_each_other(self, change):
        apart = torch.stack([change(row) for row in LOGITS])
        assert torch.equal(change(LOGITS), apart)
        assert torch.equal(change(LOGITS[None, :, None]), apart[None, :, None])

    @any_filter
    def test_the_input_stays_as_it_is(self, change):
        logits = LOGITS.clone()
        change(logits).zero_()
        assert torch.equal(logits, LOGITS)

    @any_filter
    def test_what_was_taken_out_before_stays_out(self, change):
        logits = LOGITS.index_fill(-1, torch.tensor([0, 3, 36]), -math.inf)
        left = [i for i in range(37) if i not in (0, 3, 36)]
        assert not change(logits).isnan().any()
        assert torch.equal(change(logits)[:, left], change(LOGITS[:, left]))

    @any_filter
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
    def test_half_precision_is_computed_in_single(self, change, dtype: torch.dtype):
        logits, single = LOGITS.to(dtype), torch.promote_types(dtype, torch.float32)
        torch.testing.assert_close(change(logits).to(single), change(logits.to(single)))


class TestTemperature:
    @pytest.mark.parametrize("t", [0.3, 1.0, 2.5])
    def test_equals_hugging_face(self, t: float):
        assert torch.equal(apply_temperature(LOGITS, t), TemperatureLogitsWarper(t)(UNUSED, LOGITS))

    def test_entropy_falls_with_it(self):
        ladder = torch.stack([entropy(next_token_probabilities(LOGITS, temperature=t)) for t in (4, 2, 1, 0.5, 0.1, 0)])
        assert (ladder.diff(dim=0) < 0).all()
        assert (ladder[-1] == 0).all()

    def test_zero_leaves_the_first_of_the_most_likely(self):
        p = next_token_probabilities(torch.tensor([[1.0, 5.0, 5.0], [-math.inf, -3.0, -9.0]]), temperature=0)
        assert p.tolist() == [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]

    @pytest.mark.parametrize("t", [1e-320, 1e-30, 1e-3])
    def test_close_to_zero_tends_to_greedy(self, t: float):
        p = next_token_probabilities(torch.tensor([1.0, 2.0, -math.inf]), temperature=t)
        assert p.tolist() == [0.0, 1.0, 0.0]

    @pytest.mark.parametrize("t", [1e30, 1e300, math.inf])
    def test_a_high_one_tends_to_even_odds(self, t: float):
        p = next_token_probabilities(torch.tensor([1.0, 20.0, -math.inf]), temperature=t)
        assert p.tolist() == [0.5, 0.5, 0.0]

    @pytest.mark.parametrize("t", [-1, -1e-9, math.nan])
    def test_below_zero_is_refused(self, t: float):
        with pytest.raises(ValueError, match=f"temperature must be at least 0, got {t}"):
            apply_temperature(LOGITS, t)


class TestTopK:
    @pytest.mark.parametrize("k", [1, 4, 37, 1000])
    def test_k_are_kept_and_they_are_the_largest(self, k: int):
        out = keep_top_k(LOGITS, k)
        assert (kept(out) == min(k, 37)).all()
        assert torch.equal(out, TopKLogitsWarper(k)(UNUSED, LOGITS))

    def test_of_equals_the_first_stay_where_hugging_face_keeps_all(self):
        logits = torch.tensor([[1.0, 2.0, 2.0, 2.0, 2.0]])
        assert keep_top_k(logits, 2).tolist() == [[-math.inf, 2.0, 2.0, -math.inf, -math.inf]]
        assert kept(TopKLogitsWarper(2)(UNUSED[:1], logits)) == 4

    @pytest.mark.parametrize("k", [0, -3])
    def test_below_one_is_refused(self, k: int):
        with pytest.raises(ValueError, match=f"top_k must be at least 1, got {k}"):
            keep_top_k(LOGITS, k)


class TestTopP:
    @pytest.mark.parametrize("p", [0.05, 0.3, 0.7, 0.95, 0.999])
    def test_the_smallest_set_with_that_mass_as_in_hugging_face(self, p: float):
        out = keep_top_p(LOGITS, p)
        chances = LOGITS.softmax(-1).masked_fill(out == -math.inf, 0)
        least = chances.masked_fill(chances == 0, 1).amin(-1)
        assert (chances.sum(-1) >= p).all()
        assert (chances.sum(-1) - least < p).all()
        assert torch.equal(out, TopPLogitsWarper(p)(UNUSED, LOGITS))

    @pytest.mark.parametrize(("p", "size"), [(0.5, 1), (0.75, 2), (0.875, 3), (0.5 + 1e-5, 2), (0.875 + 1e-5, 4)])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
    def test_met_exactly_nothing_more_is_kept(self, p: float, size: int, dtype: torch.dtype):
        assert kept(keep_top_p(torch.tensor([0.125, 0.5, 0.125, 0.25], dtype=dtype).log(), p)) == size

    def test_hugging_face_adds_one_where_rounding_hides_that_it_is_met(self):
        tenths = torch.full((1, 10), 0.1).log()
        ours = [kept(keep_top_p(tenths, n / 10)).item() for n in range(1, 10)]
        theirs = [kept(TopPLogitsWarper(n / 10)(UNUSED[:1], tenths)).item() for n in range(1, 10)]
        assert ours == list(range(1, 10))
        assert theirs != ours

    def test_the_token_that_crosses_is_kept(self):
        out = keep_top_p(torch.tensor([0.1, 0.6, 0.3]).log(), 0.7)
        assert out.exp().tolist() == pytest.approx([0, 0.6, 0.3])

    def test_of_equals_the_first_stay(self):
        assert keep_top_p(torch.zeros(4), 0.5).tolist() == [0, 0, -math.inf, -math.inf]

    @pytest.mark.parametrize("p", [0.0, 1e-9, 0.01])
    def test_one_always_stays(self, p: float):
        assert torch.equal(keep_top_p(LOGITS, p), keep_top_k(LOGITS, 1))

    def test_one_is_the_identity_even_for_the_least_likely(self):
        logits = torch.tensor([[0.0, -90.0, -1e4], [3.0, -math.inf, 3.0]])
        assert torch.equal(keep_top_p(logits, 1.0), logits)

    @pytest.mark.parametrize("p", [-0.1, 1.0001, math.nan])
    def test_outside_zero_to_one_is_refused(self, p: float):
        with pytest.raises(ValueError, match=f"top_p must lie in 0 … 1, got {p}"):
            keep_top_p(LOGITS, p)


class TestNextTokenProbabilities:
    @pytest.mark.parametrize(("t", "k", "p"), [(0.5, 5, 0.9), (2.0, 20, 0.6), (1.3, 2, 0.5)])
    def test_the_order_is_that_of_hugging_face(self, t: float, k: int, p: float):
        theirs = LogitsProcessorList([TemperatureLogitsWarper(t), TopKLogitsWarper(k), TopPLogitsWarper(p)])
        expected = theirs(UNUSED, LOGITS).softmax(-1)
        ours = next_token_probabilities(LOGITS, temperature=t, top_k=k, top_p=p)
        torch.testing.assert_close(ours, expected)
        assert torch.equal(ours > 0, expected > 0)

    def test_rows_sum_to_one_and_the_default_is_softmax(self):
        torch.testing.assert_close(next_token_probabilities(LOGITS), LOGITS.softmax(-1))
        filtered = next_token_probabilities(LOGITS, temperature=0.7, top_k=9, top_p=0.8)
        torch.testing.assert_close(filtered.sum(-1), torch.ones(5))

    def test_odds_among_the_kept_stay(self):
        p, base = next_token_probabilities(LOGITS, top_k=6), LOGITS.softmax(-1)
        torch.testing.assert_close(p, base * (p > 0) / (base * (p > 0)).sum(-1, keepdim=True))

    @pytest.mark.parametrize("row", [[math.nan, 1.0], [math.inf, 1.0], [-math.inf, -math.inf]])
    def test_a_row_without_a_distribution_is_refused(self, row: list[float]):
        with pytest.raises(ValueError, match="logits must hold a finite number in each row"):
            next_token_probabilities(torch.tensor([[0.0, 1.0], row]))

    @pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
    def test_logits_need_a_vocabulary(self, shape: tuple[int, ...]):
        with pytest.raises(ValueError, match=r"logits must be \(..., vocab_size\) real numbers, got"):
            next_token_probabilities(torch.zeros(shape))


class TestSample:
    def test_draws_follow_the_probabilities(self):
        logits = torch.tensor([0.1, 0.2, 0.3, 0.4]).log()
        draws = sample(logits.expand(20_000, 4), top_k=3, generator=Generator().manual_seed(0))
        shares = draws.bincount(minlength=4) / 20_000
        assert shares[0] == 0
        torch.testing.assert_close(shares, next_token_probabilities(logits, top_k=3), atol=0.01, rtol=0)

    @pytest.mark.parametrize("shape", [(37,), (5, 37), (2, 3, 37)])
    @pytest.mark.parametrize("temperature", [0, 1.0])
    def test_one_token_a_row(self, shape: tuple[int, ...], temperature: float):
        tokens = sample(torch.zeros(shape), temperature=temperature, generator=Generator().manual_seed(0))
        assert tokens.shape == shape[:-1]
        assert tokens.dtype == torch.long

    def test_temperature_zero_is_argmax_and_draws_nothing(self):
        generator = Generator().manual_seed(0)
        before = generator.get_state()
        assert torch.equal(sample(LOGITS, temperature=0, generator=generator), LOGITS.argmax(-1))
        assert torch.equal(generator.get_state(), before)

    def test_the_generator_alone_decides(self):
        logits = torch.zeros(50, 9)
        draws = [sample(logits, generator=Generator().manual_seed(seed)) for seed in (1, 1, 2)]
        assert torch.equal(draws[0], draws[1])
        assert not torch.equal(draws[0], draws[2])
