"""Positions of public models: BLOOM's ALiBi, RoPE of LLaMA and GPT-J, and two sinusoidal tables."""

import math

import pytest
import torch
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as gptj_rope
from transformers.models.gptj.modeling_gptj import create_sinusoidal_positions
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as llama_rope
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

from lib.attention import causal_mask, masked_softmax
from lib.transformer import alibi_bias, alibi_slopes, apply_rope, sinusoidal_positions


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 8, 12, 16, 20, 32, 71, 112])
def test_alibi_slopes_of_bloom(agree, heads: int):
    theirs = build_alibi_tensor(torch.ones(1, 6, dtype=torch.long), heads, torch.float32)  # (heads, 1, key)
    positions = torch.arange(6)
    agree(alibi_slopes(heads)[:, None, None] * positions, theirs, tolerance=1e-6, what="slope · key position")


@pytest.mark.parametrize("heads", [1, 3, 8, 12])
@pytest.mark.parametrize(("queries", "keys"), [(9, 9), (1, 9), (4, 9)])
def test_alibi_bias_of_bloom_up_to_a_constant_in_each_row(agree, heads: int, queries: int, keys: int):
    theirs = build_alibi_tensor(torch.ones(1, keys, dtype=torch.long), heads, torch.float32)
    scores, causal = torch.randn(heads, queries, keys), causal_mask(queries, keys)
    ours = alibi_bias(heads, queries, keys)
    shift = (ours - theirs).masked_fill(~causal, math.nan)  # the same in a row, wherever it may look
    last = torch.arange(keys - queries, keys) * -alibi_slopes(heads)[:, None]
    torch.testing.assert_close(shift[:, causal], last[..., None].expand_as(shift)[:, causal])
    agree(
        masked_softmax(scores + ours, causal), masked_softmax(scores + theirs, causal), tolerance=1e-6, what="weights"
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-5)], ids=str)
def test_rope_of_llama_in_the_half_layout(agree, dtype: torch.dtype, tolerance: float):
    x, positions = torch.randn(2, 3, 11, 8, dtype=dtype), torch.arange(4, 15)
    angles = positions[:, None] * 10000.0 ** (-torch.arange(0, 8, 2) / 8)  # single precision, as theirs
    both = torch.cat([angles, angles], -1).expand(2, 11, 8).to(dtype)
    theirs, _ = llama_rope(x, x, both.cos(), both.sin())
    agree(apply_rope(x, positions, layout="half"), theirs, tolerance=tolerance)


def test_rope_of_gpt_j_in_the_interleaved_layout(agree):
    x, positions = torch.randn(2, 3, 11, 8), torch.arange(4, 15)
    sin, cos = create_sinusoidal_positions(32, 8)[positions].chunk(2, -1)  # (time, pairs)
    theirs = gptj_rope(x.transpose(1, 2), sin.expand(2, 11, 4), cos.expand(2, 11, 4)).transpose(1, 2)
    agree(apply_rope(x, positions), theirs, tolerance=1e-5)


@pytest.mark.parametrize("dim", [2, 7, 16])
def test_sinusoidal_table_of_marian(agree, dim: int):
    theirs = MarianSinusoidalPositionalEmbedding(50, dim).create_weight()  # sines first, then cosines
    order = torch.cat([torch.arange(0, dim, 2), torch.arange(1, dim, 2)])
    agree(sinusoidal_positions(50, dim)[:, order], theirs, tolerance=1e-6)
