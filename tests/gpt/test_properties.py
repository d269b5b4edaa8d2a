"""What holds for samplers and MiniGPT whatever the numbers: kept sets, rows, draws, derivatives."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor
from torch.func import functional_call

from lib.gpt import GPTConfig, MiniGPT, apply_temperature, keep_top_k, keep_top_p, next_token_probabilities, sample

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@st.composite
def rows_of_logits(draw: st.DrawFn) -> Tensor:
    """Logits (…, vocab_size) of any leading shape and type, with ties and with tokens that are out already."""
    shape = (*draw(st.lists(st.integers(1, 3), max_size=2)), draw(st.integers(1, 12)))
    generator = Generator().manual_seed(draw(st.integers(0, 10_000)))
    logits = draw(st.sampled_from([0.5, 3.0, 30.0])) * torch.randn(shape, generator=generator)
    if draw(st.booleans()):
        logits = logits.round()  # ties
    out = torch.rand(shape, generator=generator) < draw(st.sampled_from([0.0, 0.3]))
    out[..., 0] = False
    return logits.masked_fill(out, -math.inf).to(draw(st.sampled_from(DTYPES)))


@given(rows_of_logits(), st.integers(1, 15))
def test_top_k_keeps_the_k_largest_and_no_more(logits: Tensor, k: int):
    kept = keep_top_k(logits, k)
    count, finite = (kept > -math.inf).sum(-1), (logits > -math.inf).sum(-1)
    assert torch.equal(count, finite.clamp(max=k))
    least = kept.masked_fill(kept == -math.inf, math.inf).amin(-1, keepdim=True)
    assert (logits[kept == -math.inf] <= least.expand_as(logits)[kept == -math.inf]).all()
    assert torch.equal(kept[kept > -math.inf], logits[kept > -math.inf])


@given(rows_of_logits(), st.floats(0, 1))
def test_top_p_keeps_the_smallest_set_with_that_mass(logits: Tensor, p: float):
    kept = keep_top_p(logits, p)
    assert torch.equal(kept[kept > -math.inf], logits[kept > -math.inf])
    p_i = logits.double().softmax(-1)
    mass = p_i.masked_fill(kept == -math.inf, 0.0).sum(-1)
    assert (mass >= p - 1e-5).all()
    smallest = p_i.masked_fill(kept == -math.inf, math.inf).amin(-1)
    several = (kept > -math.inf).sum(-1) > 1
    assert (several | (kept > -math.inf).any(-1)).all()
    if p < 1:
        assert (mass - smallest < p + 1e-5)[several].all()  # without its least likely token it would not do
    else:
        assert torch.equal(kept, logits)


@given(
    rows_of_logits(),
    st.sampled_from([0.0, 1e-30, 0.4, 1.0, 3.0]),
    st.none() | st.integers(1, 15),
    st.none() | st.floats(0, 1),
)
@settings(max_examples=100)
def test_probabilities_are_a_distribution_of_each_row_by_itself(
    logits: Tensor, t: float, k: int | None, p: float | None
):
    before = logits.clone()
    probabilities = next_token_probabilities(logits, temperature=t, top_k=k, top_p=p)
    assert torch.equal(logits, before)
    assert probabilities.shape == logits.shape
    assert (probabilities >= 0).all()
    torch.testing.assert_close(probabilities.sum(-1), torch.ones_like(probabilities[..., 0]))
    assert (probabilities[logits == -math.inf] == 0).all()
    rows = logits.reshape(-1, logits.shape[-1])
    apart = torch.stack([next_token_probabilities(row, temperature=t, top_k=k, top_p=p) for row in rows])
    torch.testing.assert_close(probabilities.reshape(rows.shape), apart)
    drawn = sample(logits, temperature=t, top_k=k, top_p=p, generator=Generator().manual_seed(0))
    assert drawn.shape == logits.shape[:-1]
    assert (probabilities.gather(-1, drawn[..., None]) > 0).all()
    if t == 0:
        assert torch.equal(drawn, logits.argmax(-1))


@given(rows_of_logits(), st.floats(0.05, 20), st.floats(0.05, 20))
def test_temperatures_multiply(logits: Tensor, s: float, t: float):
    twice, once = apply_temperature(apply_temperature(logits.double(), s), t), apply_temperature(logits.double(), s * t)
    torch.testing.assert_close(twice, once)


def test_half_precision_draws_from_the_distribution_in_single():
    logits = torch.linspace(0, 0.01, 1000).log().bfloat16()[None].expand(200, -1)
    in_half, in_single = (sample(each, generator=Generator().manual_seed(0)) for each in (logits, logits.float()))
    assert torch.equal(in_half, in_single)
    probabilities = next_token_probabilities(logits)
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(200))


SMOOTH: dict[str, Callable[[Tensor], Tensor]] = {
    "temperature": lambda z: apply_temperature(z, 0.7),
    "top-k": lambda z: keep_top_k(z, 3).clamp(min=-1e3),  # finite, for finite differences
    "top-p": lambda z: keep_top_p(z, 0.8).clamp(min=-1e3),
    "all": lambda z: next_token_probabilities(z, temperature=1.3, top_k=4, top_p=0.9),
}


@pytest.mark.parametrize("function", SMOOTH.values(), ids=SMOOTH.keys())
def test_gradients_are_those_of_finite_differences(function: Callable[[Tensor], Tensor]):
    logits = torch.randn(2, 3, 6, dtype=torch.float64, generator=Generator().manual_seed(0)).requires_grad_()
    assert torch.autograd.gradcheck(function, logits)


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_gradients_of_the_model_are_those_of_finite_differences(kv_heads: int):
    torch.manual_seed(0)
    model = MiniGPT(GPTConfig(5, context_length=4, dim=8, layers=2, heads=4, kv_heads=kv_heads)).double()
    tokens = torch.tensor([[3, 1, 4], [0, 1, 2]])
    names = [
        "embedding.weight",
        "positions.weight",
        "blocks.0.attention.qkv_proj.weight",
        "blocks.1.attention_norm.bias",
    ]
    weights = [torch.randn_like(model.get_parameter(name)).mul(0.3).requires_grad_() for name in names]

    def logits(*weights: Tensor) -> Tensor:
        return functional_call(model, dict(zip(names, weights, strict=True)), (tokens,), tie_weights=True)

    assert torch.autograd.gradcheck(logits, weights)
