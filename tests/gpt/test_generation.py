"""Generation: the same tokens with and without the cache, also past the context, and those of Hugging Face."""

import pytest
import torch
from torch import Generator

from lib.gpt import MiniGPT, generate, sample, window_start
from tests.gpt.models import gpt, gpt2, some_tokens

any_heads = pytest.mark.parametrize("kv_heads", [6, 3, 2, 1])


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
        with pytest.raises(ValueError, match="new_tokens must be at least 0, got -1"):
            generate(gpt(), some_tokens(1, 3), -1)
        with pytest.raises(ValueError, match=r"tokens must be \(batch, time\) integers, got \(3,\)"):
            generate(gpt(), some_tokens(3), 1)
