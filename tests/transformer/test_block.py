"""The block: what its parts promise, and where norm and dropout stand."""

from functools import partial
from typing import Any, TypeVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.attention import MultiHeadAttention, causal_mask
from lib.transformer import Decoder, FeedForward, SwiGLU, TransformerBlock, alibi_bias

M = TypeVar("M", bound=nn.Module)
any_norm = pytest.mark.parametrize("norm", ["pre", "post"])


class Counted(nn.LayerNorm):
    """A norm of one's own."""


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def shaken(module: M) -> M:
    """Biases and norms get values of their own, so that one forgotten shows."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, mean=float(parameter.ndim == 1), std=0.3)
    return module


@any_norm
def test_two_changes_are_added_each_with_its_norm(norm):
    x, block = torch.randn(2, 5, 12), shaken(TransformerBlock(12, 3, norm=norm))
    first, second = block.attention_norm, block.feed_forward_norm
    if norm == "pre":
        x1 = x + block.attention(first(x))[0]
        expected = x1 + block.feed_forward(second(x1))
    else:
        x1 = first(x + block.attention(x)[0])
        expected = second(x1 + block.feed_forward(x1))
    torch.testing.assert_close(block(x).output, expected)


@any_norm
@pytest.mark.parametrize("norm_layer", [nn.LayerNorm, nn.RMSNorm, partial(nn.LayerNorm, eps=0.5, bias=False)])
def test_three_changes_are_added_each_with_its_norm(norm, norm_layer):
    block: Any = shaken(TransformerBlock(12, 3, norm=norm, cross_attention=True, norm_layer=norm_layer))
    x, memory = torch.randn(2, 5, 12), torch.randn(2, 7, 12)
    steps = [
        (block.attention_norm, lambda x: block.attention(x)[0]),
        (block.cross_norm, lambda x: block.cross(x, memory)[0]),
        (block.feed_forward_norm, block.feed_forward),
    ]
    expected = x
    for one_norm, change in steps:
        expected = expected + change(one_norm(expected)) if norm == "pre" else one_norm(expected + change(expected))
    torch.testing.assert_close(block(x, memory=memory).output, expected)


@any_norm
@pytest.mark.parametrize("norm_layer", [nn.RMSNorm, partial(nn.LayerNorm, eps=0.5, bias=False), Counted])
def test_every_norm_is_made_by_norm_layer(norm, norm_layer):
    block = TransformerBlock(12, 3, norm=norm, cross_attention=True, norm_layer=norm_layer)
    norms = [block.attention_norm, block.cross_norm, block.feed_forward_norm]
    assert len({id(one) for one in norms}) == 3
    for one in norms:
        assert type(one) is type(norm_layer(12))
        assert one.extra_repr() == norm_layer(12).extra_repr()


def test_at_zero_weights_a_pre_ln_block_is_the_identity_and_a_post_ln_block_norms_twice():
    x, memory = torch.randn(2, 5, 12), torch.randn(2, 7, 12)
    pre, post = (TransformerBlock(12, 3, norm=norm, cross_attention=True) for norm in ("pre", "post"))
    for name, parameter in (*pre.named_parameters(), *post.named_parameters()):
        if "norm" not in name:
            nn.init.zeros_(parameter)
    assert torch.equal(pre(x, memory=memory).output, x)
    torch.testing.assert_close(post(x, memory=memory).output, F.layer_norm(x, (12,)), atol=1e-4, rtol=0)


@any_norm
def test_weights_are_given_when_asked_for_and_change_nothing(norm):
    block, x, memory = (
        TransformerBlock(12, 3, norm=norm, cross_attention=True),
        torch.randn(2, 5, 12),
        torch.randn(2, 7, 12),
    )
    output, weights, cross_weights = block(x, memory=memory, need_weights=True)
    plain = block(x, memory=memory)
    assert weights.shape == (2, 3, 5, 5)
    assert cross_weights.shape == (2, 3, 5, 7)
    assert plain.weights is None
    assert plain.cross_weights is None
    torch.testing.assert_close(plain.output, output)


def test_dropout_falls_on_each_change_while_training_only():
    block, x = TransformerBlock(12, 3, dropout=0.999999), torch.randn(2, 5, 12)
    assert torch.equal(block.train()(x).output, x)
    assert not torch.allclose(block.eval()(x).output, x)


@any_norm
def test_the_mode_does_not_change_what_is_masked(norm):
    block, x = TransformerBlock(12, 3, norm=norm), torch.randn(2, 5, 12)
    changed = torch.cat([x[:, :3], torch.randn(2, 2, 12)], 1)
    for mode in (True, False):
        block.train(mode)
        before, after = block(x, causal_mask(5)).output, block(changed, causal_mask(5)).output
        torch.testing.assert_close(before[:, :3], after[:, :3])


def test_what_a_block_is_made_of_can_be_chosen():
    block = TransformerBlock(
        12, 3, attention=partial(MultiHeadAttention, bias=True), feed_forward=SwiGLU, norm_layer=nn.RMSNorm
    )
    assert block.get_parameter("attention.q_proj.bias").shape == (12,)
    assert isinstance(block.feed_forward, SwiGLU)
    assert isinstance(block.feed_forward_norm, nn.RMSNorm)
    narrow = TransformerBlock(12, 3, feed_forward=partial(FeedForward, hidden=5))
    assert narrow.get_parameter("feed_forward.up_proj.weight").shape == (5, 12)


def test_the_attention_that_reads_memory_can_be_chosen():
    biased = partial(MultiHeadAttention, bias=True)
    block = TransformerBlock(12, 3, cross_attention=biased)
    assert block.get_parameter("cross.q_proj.bias").shape == (12,)
    assert "attention.q_proj.bias" not in block.state_dict()
    x, memory = torch.randn(2, 5, 12), torch.randn(2, 7, 12)
    for stack in (Decoder(12, 3, 2, cross_attention=biased), block):
        output = stack(x, memory).output if isinstance(stack, Decoder) else stack(x, memory=memory).output
        assert output.shape == x.shape


class CachedAttention(nn.Module):
    """What an attention of one's own needs: to be called like MultiHeadAttention, with keywords of its own."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.inner = MultiHeadAttention(dim, heads)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, need_weights: bool = False, *, cache: list[Tensor]
    ) -> tuple[Tensor, Tensor | None]:
        cache.append(x)
        return self.inner(x, torch.cat(cache, 1), causal_mask(x.shape[1], sum(c.shape[1] for c in cache)), need_weights)


def test_attention_of_ones_own_gets_its_keywords():
    block, x, cache = TransformerBlock(12, 3, attention=CachedAttention), torch.randn(2, 5, 12), []
    steps = [block(x[:, t : t + 1], cache=cache).output for t in range(5)]
    torch.testing.assert_close(torch.cat(steps, 1), block(x, cache=[]).output)


def test_a_bias_reaches_the_scores():
    block, x = TransformerBlock(12, 3), torch.randn(2, 5, 12)
    update, _ = block.attention(block.attention_norm(x), bias=alibi_bias(3, 5))
    after = x + update
    expected = after + block.feed_forward(block.feed_forward_norm(after))
    torch.testing.assert_close(block(x, bias=alibi_bias(3, 5)).output, expected)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match='norm must be "pre" or "post", got \'middle\''):
        TransformerBlock(12, 3, norm="middle")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"heads must divide dim, .*got dim = 12, heads = 5"):
        TransformerBlock(12, 5)


def test_a_memory_is_given_where_it_is_read_and_nowhere_else():
    x, memory = torch.zeros(2, 5, 12), torch.zeros(2, 7, 12)
    with pytest.raises(ValueError, match="memory must be given"):
        TransformerBlock(12, 3, cross_attention=True)(x)
    with pytest.raises(ValueError, match="memory and memory_mask must be None"):
        TransformerBlock(12, 3)(x, memory=memory)
