"""MiniGPT is Hugging Face's GPT-2: logits, attention maps, gradients, cached generation, and what samples from it."""

from collections.abc import Callable
from typing import cast

import pytest
import torch
from torch import Generator, Tensor
from transformers import (
    DynamicCache,
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from lib.gpt import KVCache, MiniGPT, generate, next_token_probabilities
from tests.gpt.models import gpt2, some_tokens
from tests.parity.conftest import Agree

any_dtype = pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 5e-6), (torch.float64, 1e-13)], ids=str)


@any_dtype
def test_logits_and_gradients(agree: Agree, dtype: torch.dtype, tolerance: float):
    theirs, tokens = gpt2(positions=20).to(dtype), some_tokens(3, 17)
    ours = MiniGPT.from_gpt2(theirs)
    logits, reference = ours(tokens), theirs(tokens).logits
    agree(logits, reference, tolerance=tolerance, what="logits")
    logits.square().mean().backward()
    reference.square().mean().backward()
    agree(ours.embedding.weight.grad, theirs.transformer.wte.weight.grad, tolerance=tolerance, what="gradient")


@any_dtype
def test_attention_maps(agree: Agree, dtype: torch.dtype, tolerance: float):
    theirs, tokens = gpt2(positions=20, attn_implementation="eager").to(dtype), some_tokens(3, 17)
    _, weights = MiniGPT.from_gpt2(theirs).with_weights(tokens)
    reference = torch.stack(theirs(tokens, output_attentions=True).attentions, 1)
    agree(weights, reference, tolerance=tolerance, what="weights")


@any_dtype
def test_logits_with_a_cache(agree: Agree, dtype: torch.dtype, tolerance: float):
    theirs, tokens = gpt2(positions=20).to(dtype), some_tokens(3, 17)
    ours = MiniGPT.from_gpt2(theirs)
    our_cache, their_cache = KVCache(ours.config, 3, dtype=dtype), DynamicCache(config=theirs.config)
    with torch.no_grad():
        for part in tokens.split([5, 1, 1, 10], 1):
            reference = theirs(part, cache=their_cache)
            agree(ours(part, our_cache), reference.logits, tolerance=tolerance, what="logits")


@pytest.mark.parametrize("use_cache", [True, False])
def test_greedy_generation(use_cache: bool):
    theirs, start = gpt2(positions=64), some_tokens(2, 5)
    seen = torch.ones_like(start)
    reference = theirs.generate(start, attention_mask=seen, max_new_tokens=50, do_sample=False, pad_token_id=0)
    assert torch.equal(generate(MiniGPT.from_gpt2(theirs), start, 50, temperature=0, use_cache=use_cache), reference)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("top_k", [1, 7, 500])
@pytest.mark.parametrize("top_p", [0.05, 0.6, 1.0])
def test_logits_processors(agree: Agree, temperature: float, top_k: int, top_p: float):
    logits = 3 * torch.randn(6, 500, generator=Generator().manual_seed(0))
    warpers = LogitsProcessorList(
        [TemperatureLogitsWarper(temperature), TopKLogitsWarper(top_k), TopPLogitsWarper(top_p)]
    )
    reference = cast("Callable[..., Tensor]", warpers)  # their ids are typed as LongTensor, which torch doesn't return
    theirs = reference(torch.zeros(6, 1, dtype=torch.long), logits).softmax(-1)
    ours = next_token_probabilities(logits, temperature=temperature, top_k=top_k, top_p=top_p)
    agree(ours, theirs, tolerance=1e-6, what="probabilities")
