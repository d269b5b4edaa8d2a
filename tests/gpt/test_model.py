"""MiniGPT and its cache: GPT-2's numbers, no look ahead, and the same tokens with and without the cache."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from lib.attention import causal_mask
from lib.gpt import GPTConfig, KVCache, MiniGPT, generate, sample, window_start
from lib.gpt.decoding import TokenStep
from lib.transformer import count_parameters

CONFIG = GPTConfig(vocab_size=11, context_length=9, dim=24, layers=3, heads=6)
any_heads = pytest.mark.parametrize("kv_heads", [6, 3, 2, 1])


def gpt(**changes: int) -> MiniGPT:
    """A model with large weights, so that what it says depends on all it reads."""
    torch.manual_seed(0)
    model = MiniGPT(replace(CONFIG, **changes))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def gpt2(positions: int, **options: Any) -> Any:
    """Hugging Face's model of the same size."""
    torch.manual_seed(0)
    sizes: Any = {"vocab_size": 11, "n_positions": positions, "n_embd": 24, "n_layer": 3, "n_head": 6}
    model: Any = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=None, **options)).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def some_tokens(*shape: int) -> Tensor:
    return torch.randint(CONFIG.vocab_size, shape, generator=Generator().manual_seed(1))


class TestModel:
    def test_it_is_gpt2(self):
        theirs, tokens = gpt2(positions=9), some_tokens(2, 9)
        ours = MiniGPT.from_gpt2(theirs)
        torch.testing.assert_close(ours(tokens), theirs(tokens).logits)
        assert count_parameters(ours) == theirs.num_parameters()

    def test_another_activation_is_refused(self):
        with pytest.raises(ValueError, match='other must have the activation "gelu_new", got "relu"'):
            MiniGPT.from_gpt2(gpt2(positions=9, activation_function="relu"))

    def test_the_head_is_the_embedding_and_counts_once(self):
        blocks = 3 * (12 * 24**2 + 13 * 24)
        assert count_parameters(gpt()) == 11 * 24 + 9 * 24 + blocks + 2 * 24

    def test_at_the_start_all_tokens_are_about_equally_likely(self):
        torch.manual_seed(0)
        log_p = MiniGPT(CONFIG)(some_tokens(20, 9)).log_softmax(-1)
        assert log_p.std() < 0.2
        assert log_p.mean().item() == pytest.approx(-math.log(11), abs=0.02)

    @pytest.mark.parametrize("training", [True, False])
    @any_heads
    def test_the_future_does_not_reach_the_past(self, kv_heads: int, training: bool):
        model, tokens = gpt(kv_heads=kv_heads).train(training), some_tokens(2, 9)
        changed = tokens.clone()
        changed[:, 5:] = (changed[:, 5:] + 1) % 11
        before, after = model(tokens), model(changed)
        assert torch.equal(before[:, :5], after[:, :5])
        assert ((before - after)[:, 5:].abs().amax(-1) > 1e-3).all()

    def test_the_mode_makes_no_difference(self):
        model, tokens = gpt(), some_tokens(2, 9)
        assert torch.equal(model.train()(tokens), model.eval()(tokens))

    def test_the_order_of_earlier_tokens_makes_one(self):
        model = gpt()
        assert not torch.allclose(model(torch.tensor([[1, 2, 3]]))[:, -1], model(torch.tensor([[2, 1, 3]]))[:, -1])

    @any_heads
    def test_the_weights_are_those_of_the_logits(self, kv_heads: int):
        model, tokens = gpt(kv_heads=kv_heads), some_tokens(2, 7)
        logits, weights = model.with_weights(tokens)
        torch.testing.assert_close(logits, model(tokens))
        assert weights.shape == (2, 3, 6, 7, 7)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 6, 7))
        assert (weights[..., ~causal_mask(7)] == 0).all()
        torch.testing.assert_close(model.with_weights(tokens[:, :4])[1], weights[..., :4, :4])

    @pytest.mark.parametrize(
        "tokens", [torch.zeros(3, dtype=torch.long), torch.zeros(2, 0, dtype=torch.long), torch.zeros(2, 3)]
    )
    def test_tokens_of_another_kind_are_named(self, tokens: Tensor):
        with pytest.raises(ValueError, match=r"tokens must be \(batch, time\) integers, got"):
            gpt()(tokens)

    @pytest.mark.parametrize("token", [-1, 11])
    def test_tokens_outside_the_vocabulary_are_named(self, token: int):
        with pytest.raises(ValueError, match=r"tokens must lie in 0 … 10, got"):
            gpt()(torch.tensor([[3, token]]))

    def test_more_tokens_than_positions_are_named(self):
        with pytest.raises(ValueError, match="tokens must fit the context of 9, got 0 in the cache and 10 new"):
            gpt()(some_tokens(2, 10))


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

    @any_heads
    def test_a_step_gives_what_the_model_gives(self, kv_heads: int):
        model, tokens = gpt(kv_heads=kv_heads).double(), some_tokens(2, 9)
        cache = KVCache(model.config, 2, dtype=torch.float64)
        step = TokenStep(model, cache)
        with torch.inference_mode():
            logits = torch.stack([step(tokens[:, t]) for t in range(9)], 1)
        torch.testing.assert_close(logits, model(tokens))

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
        assert cache.keys.shape == cache.values.shape == (3, 5, kv_heads, 9, 4)
        assert cache.bytes == 2 * 3 * 5 * kv_heads * 9 * 4 * size

    def test_the_buffers_stay_where_they_are(self):
        model, cache = gpt(), KVCache(CONFIG, 1)
        place = cache.keys.data_ptr()
        with torch.no_grad():
            for _ in range(9):
                model(some_tokens(1, 1), cache)
        assert cache.keys.data_ptr() == place
        assert cache.keys.shape == (3, 1, 6, 9, 4)

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


class TestGenerate:
    @any_heads
    @pytest.mark.parametrize("given", [1, 8, 9, 10, 23])
    @pytest.mark.parametrize("options", [{"temperature": 0}, {"temperature": 0.8}, {"top_k": 4, "top_p": 0.9}], ids=str)
    def test_the_same_with_and_without_cache_also_past_the_context(self, options: dict, given: int, kv_heads: int):
        model, tokens = gpt(kv_heads=kv_heads), some_tokens(3, given)
        both = [
            generate(model, tokens, 30, use_cache=use_cache, generator=Generator().manual_seed(2), **options)
            for use_cache in (True, False)
        ]
        assert torch.equal(*both)
        assert both[0].shape == (3, given + 30)
        assert torch.equal(both[0][:, :given], tokens)

    @pytest.mark.parametrize("context", [1, 2, 3, 8])
    def test_the_same_with_any_context(self, context: int):
        model = gpt(context_length=context)
        both = [generate(model, some_tokens(2, 4), 20, temperature=0, use_cache=cache) for cache in (True, False)]
        assert torch.equal(*both)

    def test_greedy_takes_the_most_likely_at_each_step(self):
        model = gpt()
        tokens = generate(model, some_tokens(2, 3), 6, temperature=0)
        assert torch.equal(tokens[:, 3:], model(tokens).argmax(-1)[:, 2:-1])

    def test_sampling_is_a_draw_a_step(self):
        model, start = gpt(), some_tokens(2, 3)
        tokens, generator = start, Generator().manual_seed(3)
        for _ in range(6):
            drawn = sample(model(tokens)[:, -1], temperature=1.5, top_p=0.9, generator=generator)
            tokens = torch.cat([tokens, drawn[:, None]], 1)
        options = {"temperature": 1.5, "top_p": 0.9, "generator": Generator().manual_seed(3)}
        assert torch.equal(generate(model, start, 6, **options), tokens)

    @pytest.mark.parametrize("first", [0, 3, 11])
    def test_going_on_later_gives_what_at_once_gives(self, first: int):
        model, start = gpt(), some_tokens(2, 5)
        later = generate(model, generate(model, start, first, temperature=0), 20 - first, temperature=0)
        assert torch.equal(later, generate(model, start, 20, temperature=0))

    def test_sequences_of_a_batch_do_not_know_of_each_other(self):
        model, start = gpt(), some_tokens(3, 5)
        apart = [generate(model, row[None], 20, temperature=0) for row in start]
        assert torch.equal(generate(model, start, 20, temperature=0), torch.cat(apart))

    def test_the_same_tokens_as_hugging_face(self):
        theirs, start = gpt2(positions=64), some_tokens(2, 5)
        reference = theirs.generate(
            start, attention_mask=torch.ones_like(start), max_new_tokens=50, do_sample=False, pad_token_id=0
        )
        assert torch.equal(generate(MiniGPT.from_gpt2(theirs), start, 50, temperature=0), reference)

    @pytest.mark.parametrize("context", [1, 2, 7, 16])
    def test_the_window_holds_more_than_half_a_context_and_never_more_than_one(self, context: int):
        for length in range(1, 100):
            start = window_start(length, context)
            assert start == 0 if length <= context else context // 2 < length - start <= context
            assert start - window_start(length - 1, context) in (0, (context + 1) // 2)

    @pytest.mark.parametrize("training", [True, False])
    def test_the_mode_comes_back_and_no_gradient_is_recorded(self, training: bool):
        model = gpt().train(training)
        tokens = generate(model, some_tokens(1, 3), 4, temperature=0)
        assert model.training is training
        model(tokens).sum().backward()  # what was generated can be trained on

    def test_the_mode_comes_back_after_an_error(self):
        model = gpt().train()
        with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
            generate(model, some_tokens(1, 3), 4, top_k=0)
        assert model.training

    def test_nothing_new_is_a_copy(self):
        start = some_tokens(2, 3)
        same = generate(gpt(), start, 0)
        assert torch.equal(same, start)
        assert same.data_ptr() != start.data_ptr()

    def test_bad_input_is_named(self):
        with pytest.raises(ValueError, match="new_tokens must not be negative, got -1"):
            generate(gpt(), some_tokens(1, 3), -1)
        with pytest.raises(ValueError, match=r"tokens must be \(batch, time\) integers, got \(3,\)"):
            generate(gpt(), some_tokens(3), 1)
