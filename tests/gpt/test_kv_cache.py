"""The KV cache: the numbers of a pass without it, in any parts, with gradients and without."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator

from lib.gpt import KVCache
from tests.gpt.models import CONFIG, gpt, some_tokens

any_heads = pytest.mark.parametrize("kv_heads", [6, 3, 2, 1])


class TestCache:
    @any_heads
    @pytest.mark.parametrize("sizes", [(1,) * 9, (4, 5), (3, 1, 1, 4), (9,)])
    def test_in_parts_gives_what_at_once_gives(self, sizes: tuple[int, ...], kv_heads: int):
        model, tokens = gpt(kv_heads=kv_heads).double(), some_tokens(2, 9)
        cache = KVCache(model.config, 2, dtype=torch.float64)
        with torch.no_grad():
            parts = [model(part, cache) for part in tokens.split(list(sizes), 1)]
        torch.testing.assert_close(torch.cat(parts, 1), model(tokens))
        assert cache.length == 9

    def test_weights_with_a_cache_are_the_last_rows(self):
        model, tokens = gpt(), some_tokens(2, 9)
        cache = KVCache(CONFIG, 2)
        with torch.no_grad():
            model(tokens[:, :6], cache)
            _, weights = model.with_weights(tokens[:, 6:], cache)
        torch.testing.assert_close(weights, model.with_weights(tokens)[1][..., 6:, :])

    @pytest.mark.parametrize(("kv_heads", "dtype", "size"), [(6, torch.float32, 4), (2, torch.bfloat16, 2)])
    def test_bytes_are_two_numbers_for_each_place(self, kv_heads: int, dtype: torch.dtype, size: int):
        cache = KVCache(replace(CONFIG, kv_heads=kv_heads), 5, dtype=dtype)
        assert [buffer.shape for buffer in (*cache.keys, *cache.values)] == 6 * [(5, kv_heads, 9, 4)]
        assert cache.bytes == 2 * 3 * 5 * kv_heads * 9 * 4 * size

    def test_the_buffers_stay_where_they_are(self):
        model, cache = gpt(), KVCache(CONFIG, 1)
        places = [buffer.data_ptr() for buffer in (*cache.keys, *cache.values)]
        with torch.no_grad():
            for _ in range(9):
                model(some_tokens(1, 1), cache)
        assert [buffer.data_ptr() for buffer in (*cache.keys, *cache.values)] == places

    def test_emptied_it_begins_anew(self):
        model, cache = gpt(), KVCache(CONFIG, 1)
        with torch.no_grad():
            first = model(some_tokens(1, 5), cache)
            cache.length = 0
            assert torch.equal(model(some_tokens(1, 5), cache), first)

    def test_a_full_one_says_so_and_stays_usable(self):
        model, cache = gpt(), KVCache(CONFIG, 2)
        with torch.no_grad():
            model(some_tokens(2, 8), cache)
            with pytest.raises(ValueError, match="tokens must fit the context of 9, got 8 in the cache and 2 new"):
                model(some_tokens(2, 2), cache)
            model(some_tokens(2, 1), cache)

    def test_another_batch_is_named(self):
        with pytest.raises(ValueError, match="cache must be for 3 sequences, got one for 2"):
            gpt()(some_tokens(3, 4), KVCache(CONFIG, 2))
        with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
            KVCache(CONFIG, 0)

    @given(data=st.data(), kv_heads=st.sampled_from([6, 3, 1]), gradients=st.booleans())
    @settings(max_examples=25)
    def test_any_split_gives_what_one_pass_gives(self, data: st.DataObject, kv_heads: int, gradients: bool):
        batch, time = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 9))
        cuts = sorted(data.draw(st.sets(st.integers(1, time - 1)))) if time > 1 else []
        model, tokens = gpt(kv_heads=kv_heads).double(), some_tokens(batch, time)
        cache = KVCache(model.config, batch, dtype=torch.float64)
        with torch.set_grad_enabled(gradients):
            logits = torch.cat([model(part, cache) for part in tokens.tensor_split(cuts, 1)], 1)
        torch.testing.assert_close(logits, model(tokens))
        assert cache.length == time


class TestGradients:
    """A pass in parts is the same function of the weights as one in one piece."""

    @any_heads
    @pytest.mark.parametrize("sizes", [(9,), (4, 5), (1,) * 9, (3, 1, 5)])
    def test_gradients_go_through_the_cache(self, sizes: tuple[int, ...], kv_heads: int):
        model, tokens = gpt(kv_heads=kv_heads).double(), some_tokens(2, 9)
        weights = torch.randn(2, 9, 11, dtype=torch.float64, generator=Generator().manual_seed(4))
        cache = KVCache(model.config, 2, dtype=torch.float64)
        in_parts = torch.cat([model(part, cache) for part in tokens.split(list(sizes), 1)], 1)
        parameters = list(model.parameters())
        expected = torch.autograd.grad((weights * model(tokens)).sum(), parameters)
        torch.testing.assert_close(torch.autograd.grad((weights * in_parts).sum(), parameters), expected)

    @pytest.mark.parametrize("later", [torch.no_grad, torch.inference_mode])
    @pytest.mark.parametrize("size", [1, 4])
    def test_what_is_read_later_without_gradients_leaves_those_before_alone(self, later: Any, size: int):
        model, tokens, cache = gpt(), some_tokens(1, 9), KVCache(CONFIG, 1)
        first = model(tokens[:, :size], cache)
        with later():
            second = model(tokens[:, size:], cache)
        torch.testing.assert_close(second, model(tokens)[:, size:])
        first.sum().backward()
        expected = torch.autograd.grad(model(tokens[:, :size]).sum(), model.embedding.weight)[0]
        torch.testing.assert_close(model.embedding.weight.grad, expected)

    def test_one_filled_without_gradients_is_read_with_them(self):
        model, tokens, cache = gpt(), some_tokens(1, 9), KVCache(CONFIG, 1)
        with torch.no_grad():
            model(tokens[:, :4], cache)
        second = model(tokens[:, 4:], cache)
        torch.testing.assert_close(second, model(tokens)[:, 4:])
        second.sum().backward()  # through the new tokens; the earlier ones are constants

    def test_one_made_in_inference_mode_is_used_outside(self):
        model, tokens = gpt(), some_tokens(1, 9)
        with torch.inference_mode():
            cache = KVCache(CONFIG, 1)
        parts = torch.cat([model(tokens[:, :4], cache), model(tokens[:, 4:], cache)], 1)
        torch.testing.assert_close(parts, model(tokens))
