"""MiniGPT: GPT-2's numbers, no look ahead, one forward pass."""

import math
from typing import Any, ClassVar

import pytest
import torch
from torch import Generator, Tensor, nn
from transformers import GPT2Config, PreTrainedConfig

from lib.attention import MultiHeadAttention, causal_mask
from lib.gpt import GPTConfig, MiniGPT, SelfAttention, generate
from lib.transformer import FeedForward, count_parameters
from tests.gpt.models import CONFIG, gpt, gpt2, some_tokens

any_heads = pytest.mark.parametrize("kv_heads", [6, 3, 2, 1])


class TestModel:
    def test_it_is_gpt2(self):
        theirs, tokens = gpt2(positions=9), some_tokens(2, 9)
        ours = MiniGPT.from_gpt2(theirs)
        torch.testing.assert_close(ours(tokens), theirs(tokens).logits)
        assert count_parameters(ours) == theirs.num_parameters()

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

    def test_weights_start_with_a_deviation_of_a_fiftieth_and_those_into_the_residual_stream_with_less(self):
        torch.manual_seed(0)
        model = MiniGPT(GPTConfig(vocab_size=200, context_length=100, dim=96, layers=8, heads=4))
        residual = ("attention.out_proj.weight", "feed_forward.down_proj.weight")
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                expected = 0.02 / math.sqrt(2 * 8) if name.endswith(residual) else 0.02
                assert parameter.std().item() == pytest.approx(expected, rel=0.05), name
                assert parameter.mean().abs() < 0.1 * expected
            else:
                assert (parameter == (1.0 if name.endswith("norm.weight") else 0.0)).all(), name
        assert sum(name.endswith(residual) for name, _ in model.named_parameters()) == 16

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_mixed_and_half_precision(self, dtype: torch.dtype):
        torch.manual_seed(0)
        model, tokens = MiniGPT(CONFIG), some_tokens(2, 9)
        exact = model(tokens)
        with torch.autocast("cpu", dtype):
            mixed = model(tokens)
        mixed.float().sum().backward()
        for rounded in (mixed, model.to(dtype)(tokens)):
            torch.testing.assert_close(rounded.float(), exact, atol=0.02, rtol=0.02)

    def test_an_empty_batch_has_no_logits(self):
        assert gpt()(torch.zeros(0, 5, dtype=torch.long)).shape == (0, 5, 11)
        assert generate(gpt(), torch.zeros(0, 5, dtype=torch.long), 3).shape == (0, 8)


class TestOneForwardPass:
    """Training, generation with and without the cache, hooks and a changed part: all run the same code."""

    def generated(self, model: MiniGPT) -> list[Tensor]:
        """With and without the cache; drawn, so that any change of the logits shows sooner or later."""
        draws = [Generator().manual_seed(5) for _ in range(2)]
        start = some_tokens(8, 3)
        return [generate(model, start, 12, use_cache=g is draws[0], generator=g) for g in draws]

    def test_a_changed_activation_changes_what_is_generated(self):
        model = gpt()
        before = self.generated(model)
        for part in model.modules():
            if isinstance(part, FeedForward):
                part.activation = torch.neg
        after = self.generated(model)
        assert torch.equal(*after)
        assert not torch.equal(before[0], after[0])

    @pytest.mark.parametrize(
        "name", ["", "embedding", "blocks.1", "blocks.0.attention", "blocks.2.feed_forward", "norm"]
    )
    def test_a_hook_sees_every_step_and_its_change_counts(self, name: str):
        model, calls = gpt(), []

        def double(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> Any:
            calls.append(name)
            if isinstance(output, Tensor):
                return -output
            return type(output)(-output[0], *output[1:]) if hasattr(output, "_fields") else (-output[0], *output[1:])

        before = self.generated(model)
        handle = model.get_submodule(name).register_forward_hook(double)
        after = self.generated(model)
        handle.remove()
        assert len(calls) == 2 * 12
        assert torch.equal(*after)
        assert not torch.equal(before[0], after[0])


class TestFromGPT2:
    """Each option of Hugging Face's class is honoured or refused by name."""

    CHANGED: ClassVar[dict[str, Any]] = {
        "activation_function": "relu",
        "layer_norm_epsilon": 0.1,
        "scale_attn_weights": False,
        "scale_attn_by_inverse_layer_idx": True,
        "reorder_and_upcast_attn": True,
        "add_cross_attention": True,
        "tie_word_embeddings": False,
        "n_inner": 50,
    }
    # These change what the class around the numbers does, not its logits.
    WITHOUT_EFFECT: ClassVar[set[str]] = {
        *("initializer_range", "use_cache", "bos_token_id", "eos_token_id", "pad_token_id"),
        *("summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels", "summary_first_dropout"),
    }
    SIZES: ClassVar[set[str]] = {"vocab_size", "n_positions", "n_embd", "n_layer", "n_head"}
    DROPOUT: ClassVar[set[str]] = {"resid_pdrop", "embd_pdrop", "attn_pdrop"}

    def test_every_option_of_the_class_is_known(self):
        ours = {*self.CHANGED, *self.WITHOUT_EFFECT, *self.SIZES, *self.DROPOUT}
        theirs = (
            {*GPT2Config.__annotations__}
            - {*PreTrainedConfig.__annotations__}
            - {"model_type", "keys_to_ignore_at_inference", "attribute_map"}
        )
        assert theirs - ours == set()
        assert theirs >= self.SIZES

    @pytest.mark.parametrize("option", CHANGED)
    def test_an_option_that_changes_the_numbers_is_named(self, option: str):
        theirs = gpt2(positions=9, **{option: self.CHANGED[option]})
        with pytest.raises(ValueError, match=f"other must have {option} = .*, got {self.CHANGED[option]!r}"):
            MiniGPT.from_gpt2(theirs)

    @pytest.mark.parametrize("option", sorted(DROPOUT))
    def test_dropout_at_work_is_refused(self, option: str):
        others = dict.fromkeys(self.DROPOUT, 0.0)
        theirs = gpt2(positions=9, **{**others, option: 0.3})
        assert MiniGPT.from_gpt2(theirs).training is False
        with pytest.raises(ValueError, match=r"other must be in evaluation mode or without dropout, got dropout 0.3"):
            MiniGPT.from_gpt2(theirs.train())

    def test_a_head_that_is_not_the_embedding_is_refused(self):
        theirs = gpt2(positions=9)
        theirs.lm_head.weight = nn.Parameter(torch.randn(11, 24))
        with pytest.raises(ValueError, match=r"other must have a head that is its embedding \(tied\)"):
            MiniGPT.from_gpt2(theirs)

    def test_missing_and_unexpected_weights_are_named(self):
        theirs = gpt2(positions=9)
        theirs.transformer.h[1].attn.extra = nn.Parameter(torch.zeros(3))
        del theirs.transformer.ln_f
        with pytest.raises(ValueError, match=r'(?s)Missing key.*"norm.weight", "norm.bias".*Unexpected key.*extra'):
            MiniGPT.from_gpt2(theirs)

    @pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
    def test_the_type_is_theirs(self, dtype: torch.dtype):
        theirs = gpt2(positions=9).to(dtype)
        ours = MiniGPT.from_gpt2(theirs)
        assert {parameter.dtype for parameter in ours.parameters()} == {dtype}


class TestSelfAttention:
    @any_heads
    def test_it_is_multi_head_attention_with_one_matrix(self, kv_heads: int):
        torch.manual_seed(0)
        ours, plain = SelfAttention(24, 6, kv_heads=kv_heads), MultiHeadAttention(24, 6, kv_heads=kv_heads, bias=True)
        sizes = (24, 4 * kv_heads, 4 * kv_heads)
        state = {f"out_proj.{kind}": ours.out_proj.state_dict()[kind] for kind in ("weight", "bias")}
        for kind, stacked in ours.qkv_proj.state_dict().items():
            state |= {f"{name}_proj.{kind}": part for name, part in zip("qkv", stacked.split(sizes), strict=True)}
        plain.load_state_dict(state)
        x, mask = torch.randn(2, 5, 24), causal_mask(5)
        for need_weights in (False, True):
            torch.testing.assert_close(ours(x, None, mask, need_weights), plain(x, None, mask, need_weights))

    def test_another_context_is_refused(self):
        with pytest.raises(ValueError, match="context must be left out"):
            SelfAttention(8, 2)(torch.zeros(1, 5, 8), torch.zeros(1, 5, 8))
