"""Grouped-query attention: each query head with the keys of its group, in multi-head attention's numbers."""

import pytest
import torch

from lib.attention import causal_mask, dot_product_attention
from lib.gpt.grouped_attention import GroupedQueryAttention

any_heads = pytest.mark.parametrize("kv_heads", [6, 3, 2, 1])


@any_heads
def test_each_query_head_attends_with_the_keys_of_its_group(kv_heads: int):
    torch.manual_seed(0)
    attend, x, mask = GroupedQueryAttention(24, 6, kv_heads), torch.randn(2, 5, 24), causal_mask(5)
    q, k, v = attend.qkv_proj(x).split((24, 4 * kv_heads, 4 * kv_heads), -1)
    heads = []
    for head in range(6):
        group = head * kv_heads // 6
        query, key, value = q[..., 4 * head :], k[..., 4 * group :], v[..., 4 * group :]
        heads.append(dot_product_attention(query[..., :4], key[..., :4], value[..., :4], mask))
    output, weights = attend(x, mask, need_weights=True)
    torch.testing.assert_close(weights, torch.stack([w for _, w in heads], 1))
    torch.testing.assert_close(output, attend.out_proj(torch.cat([o for o, _ in heads], -1)))
    torch.testing.assert_close(attend(x, mask)[0], output)


@any_heads
def test_fewer_key_heads_have_fewer_weights(kv_heads: int):
    count = sum(p.numel() for p in GroupedQueryAttention(24, 6, kv_heads).parameters() if p.ndim == 2)
    assert count == 2 * 24**2 * (1 + kv_heads / 6)


def test_heads_that_do_not_divide_are_named():
    with pytest.raises(ValueError, match="got dim = 24, heads = 6, kv_heads = 4"):
        GroupedQueryAttention(24, 6, 4)
