"""Attention with rotary positions: what it sees of where tokens stand."""

import pytest
import torch
from torch import Tensor

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


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_a_group_of_query_heads_shares_keys_and_values(kv_heads: int):
    attend, x = RotaryAttention(24, 4, kv_heads=kv_heads), torch.randn(2, 5, 24)
    whole = RotaryAttention(24, 4)
    state = dict(attend.state_dict())
    for name in ("k_proj.weight", "v_proj.weight"):
        state[name] = state[name].view(kv_heads, 6, 24).repeat_interleave(4 // kv_heads, 0).reshape(24, 24)
    whole.load_state_dict(state)
    assert attend.k_proj.weight.shape == (6 * kv_heads, 24)
    torch.testing.assert_close(attend(x)[0], whole(x)[0])


class Cache:
    """Keys and values of earlier tokens, given once."""

    def __init__(self, key: Tensor, value: Tensor) -> None:
        self.key, self.value, self.length = key, value, key.shape[-2]

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cat([self.key, key], -2), torch.cat([self.value, value], -2)


@pytest.mark.parametrize("past", [0, 1, 4, 6])
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_positions_go_on_from_the_length_of_a_cache(layout, past: int):
    attend, x = RotaryAttention(12, 3, kv_heads=1, layout=layout), torch.randn(2, 7, 12)
    _, key, value = attend.project(x[:, :past], x[:, :past])
    last, weights = attend(x[:, past:], mask=causal_mask(7 - past, 7), need_weights=True, cache=Cache(key, value))
    expected, all_weights = attend(x, mask=causal_mask(7), need_weights=True)
    torch.testing.assert_close(last, expected[:, past:])
    torch.testing.assert_close(weights, all_weights[:, :, past:])


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 7), (3, 7), (7, 7)])
def test_queries_end_where_the_context_ends(queries: int, keys: int):
    attend, x = RotaryAttention(12, 3), torch.randn(2, 9, 12)
    context = x[:, 9 - keys :]
    moved = attend(x[:, 9 - queries :], context)[0]  # positions counted from the context's first token
    torch.testing.assert_close(moved, attend(context)[0][:, keys - queries :])


@pytest.mark.parametrize(("queries", "keys"), [(2, 1), (4, 3), (5, 1), (3, 0)])
@pytest.mark.parametrize("need_weights", [True, False])
def test_a_context_shorter_than_the_queries_is_an_error(queries: int, keys: int, need_weights: bool):
    attend, x = RotaryAttention(8, 2), torch.randn(1, queries, 8)
    with pytest.raises(ValueError, match=f"context must be as long as query .*, got {queries} queries and {keys} keys"):
        attend(x, x[:, :keys], need_weights=need_weights)


@pytest.mark.parametrize("training", [True, False])
def test_queries_are_aligned_whatever_the_mode(training: bool):
    attend, x = RotaryAttention(8, 2).train(training), torch.randn(1, 4, 8)
    torch.testing.assert_close(attend(x[:, 3:], x)[0], attend(x)[0][:, 3:])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layout": "split"}, "layout must be .* got 'split'"),
        ({"base": 0.0}, "base must be above 0, got 0.0"),
        ({"base": float("nan")}, "base must be above 0, got nan"),
        ({"kv_heads": 3}, "kv_heads must divide heads"),
    ],
)
def test_bad_options_are_named_when_it_is_made(options: dict, message: str):
    with pytest.raises(ValueError, match=message):
        RotaryAttention(16, 4, **options)


def test_heads_of_odd_width_are_refused():
    with pytest.raises(ValueError, match="heads must be of even width, got dim = 12 and heads = 4"):
        RotaryAttention(12, 4)
