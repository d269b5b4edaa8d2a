"""Attention with rotary positions: what it sees of where tokens stand."""

import pytest
import torch

from lib.attention import MultiHeadAttention, causal_mask, dot_product_attention
from lib.transformer import RotaryAttention, apply_rope


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_queries_and_keys_are_turned_and_values_are_not(layout):
    attend, x = RotaryAttention(12, 3, base=100.0, layout=layout), torch.randn(2, 5, 12)
    q, k, v = MultiHeadAttention.project(attend, x, x)
    q, k = (apply_rope(t, base=100.0, layout=layout) for t in (q, k))
    output, weights = dot_product_attention(q, k, v, causal_mask(5))
    ours = attend(x, mask=causal_mask(5), need_weights=True)
    torch.testing.assert_close(ours[0], attend.out_proj(output.transpose(1, 2).flatten(2)))
    torch.testing.assert_close(ours[1], weights)


def test_equal_tokens_apart_are_told_apart_by_distance_alone():
    attend, token = RotaryAttention(12, 3), torch.randn(12)
    _, weights = attend(token.expand(1, 9, 12), need_weights=True)
    ratio = weights[..., 1:, :].log().diff(dim=-1)  # differences of scores between neighbouring keys
    torch.testing.assert_close(ratio[..., 1:, 1:], ratio[..., :-1, :-1])
    assert weights.std(-1).min() > 0


def test_the_last_queries_alone_give_the_last_rows():
    attend, x = RotaryAttention(12, 3), torch.randn(2, 7, 12)
    torch.testing.assert_close(attend(x[:, 5:], x, causal_mask(2, 7))[0], attend(x, mask=causal_mask(7))[0][:, 5:])


def test_heads_of_odd_width_are_refused():
    with pytest.raises(ValueError, match="heads must be of even width, got dim = 12 and heads = 4"):
        RotaryAttention(12, 4)
