"""Stacks of blocks: masks, caches, the weights of all layers, and counts of parameters."""

import pytest
import torch
from torch import Tensor, nn

from lib.attention import causal_mask, padding_mask
from lib.transformer import Decoder, Encoder, SwiGLU, TransformerBlock, alibi_bias, count_parameters


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def test_pre_ln_ends_with_a_norm_and_post_ln_has_it_already():
    x = 100 * torch.randn(2, 5, 12)
    for norm in ("pre", "post"):
        output = Encoder(12, 3, 2, norm=norm)(x)[0]
        torch.testing.assert_close(output.mean(-1), torch.zeros(2, 5), atol=1e-5, rtol=0)
        torch.testing.assert_close(output.var(-1, correction=0), torch.ones(2, 5), atol=1e-2, rtol=0)


def test_the_weights_of_all_layers_come_along_when_asked_for():
    encoder, x, mask = Encoder(12, 3, 2), torch.randn(2, 5, 12), padding_mask([5, 3], 5)
    output, weights = encoder(x, mask, need_weights=True)
    plain, none = encoder(x, mask)
    assert weights.shape == (2, 2, 3, 5, 5)
    assert none is None
    torch.testing.assert_close(plain, output)
    torch.testing.assert_close(weights[:, 0], encoder.blocks[0](x, mask, need_weights=True).weights)
    assert (weights[1, ..., 3:] == 0).all()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("cross_attention", [True, False])
def test_a_decoder_never_sees_the_future(cross_attention: bool, training: bool):
    decoder = Decoder(12, 3, 2, cross_attention=cross_attention).train(training)
    memory = torch.randn(2, 7, 12) if cross_attention else None
    x = torch.randn(2, 5, 12)
    changed = torch.cat([x[:, :3], torch.randn(2, 2, 12)], 1)
    before, after = decoder(x, memory).output, decoder(changed, memory).output
    torch.testing.assert_close(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3:], after[:, 3:])


def test_a_decoder_alone_is_an_encoder_under_a_causal_mask():
    decoder, encoder = Decoder(12, 3, 2, cross_attention=False), Encoder(12, 3, 2)
    encoder.load_state_dict(decoder.state_dict())
    x = torch.randn(2, 5, 12)
    output, weights, cross_weights = decoder(x, need_weights=True)
    expected, expected_weights = encoder(x, causal_mask(5), need_weights=True)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(weights, expected_weights)
    assert cross_weights is None


def test_a_decoder_reads_its_memory_in_each_layer():
    decoder, x, memory = Decoder(12, 3, 2), torch.randn(2, 5, 12), torch.randn(2, 7, 12)
    mask = padding_mask([7, 4], 7)
    output, _, cross_weights = decoder(x, memory, memory_mask=mask, need_weights=True)
    assert cross_weights.shape == (2, 2, 3, 5, 7)
    assert (cross_weights[1, ..., 4:] == 0).all()
    hidden = memory.masked_fill(~mask[:, 0, 0, :, None], 1e3)
    torch.testing.assert_close(decoder(x, hidden, memory_mask=mask).output, output)
    assert not torch.allclose(decoder(x, -memory, memory_mask=mask).output, output)


def test_a_further_mask_of_a_decoder_counts_besides_the_causal_one():
    decoder, x = Decoder(12, 3, 2, cross_attention=False), torch.randn(2, 5, 12)
    weights = decoder(x, mask=padding_mask([5, 2], 5), need_weights=True).weights
    assert (weights[..., ~causal_mask(5)] == 0).all()
    assert (weights[1, ..., 2:] == 0).all()


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (causal_mask(5).float(), "mask must be boolean"),
        (causal_mask(5).int(), "mask must be boolean"),
        (causal_mask(4), r"mask of shape \(4, 4\) does not broadcast"),
        (torch.ones(2, 1, 5, 6, dtype=torch.bool), r"mask of shape \(2, 1, 5, 6\) does not broadcast"),
        (torch.ones(3, 1, 5, 5, dtype=torch.bool), r"mask of shape \(3, 1, 5, 5\)"),
        (torch.ones(2, 4, 5, 5, dtype=torch.bool), r"mask of shape \(2, 4, 5, 5\)"),
    ],
)
@pytest.mark.parametrize("need_weights", [True, False])
def test_a_mask_that_does_not_fit_a_decoder_is_named(mask: Tensor, message: str, need_weights: bool):
    with pytest.raises(ValueError, match=message):
        Decoder(12, 3, 2, cross_attention=False)(torch.zeros(2, 5, 12), mask=mask, need_weights=need_weights)


@pytest.mark.parametrize("batch", [2, 3])  # with 3 as many as heads
@pytest.mark.parametrize("where", ["mask", "memory_mask"])
def test_a_mask_for_a_batch_is_not_taken_for_one_for_heads(where: str, batch: int):
    x, mask = torch.randn(batch, 5, 12), torch.ones(batch, 5, 5, dtype=torch.bool)
    with pytest.raises(ValueError, match=rf"mask of shape \({batch}, 5, 5\)"):
        Decoder(12, 3, 2)(x, x, **{where: mask})
    with pytest.raises(ValueError, match=rf"mask of shape \({batch}, 5, 5\)"):
        Encoder(12, 3, 2)(x, mask)
    Decoder(12, 3, 2)(x, x, **{where: mask[:, None]})


def test_each_layer_of_a_decoder_has_a_cache_of_its_own():
    decoder, x = Decoder(12, 3, 2, cross_attention=False), torch.zeros(2, 5, 12)
    for caches in ([], [object()], [object()] * 3):
        with pytest.raises(ValueError, match=f"caches must be 2, one a layer, got {len(caches)}"):
            decoder(x, caches=caches)
    with pytest.raises(ValueError, match="caches must be 2, one a layer, got one cache"):
        decoder(x, cache=object())
    with pytest.raises(ValueError, match="cache must not be given to an encoder"):
        Encoder(12, 3, 2)(x, cache=object())


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("need_weights", [True, False])
def test_a_row_with_nothing_to_attend_to_gets_no_update_from_attention(norm, need_weights: bool):
    decoder, x = Decoder(12, 3, 1, norm=norm, cross_attention=False), torch.randn(2, 5, 12, requires_grad=True)
    output = decoder(x, mask=torch.zeros(5, 5, dtype=torch.bool), need_weights=need_weights).output
    (grad,) = torch.autograd.grad(output.square().sum(), x)
    assert grad.isfinite().all()
    nn.init.zeros_(decoder.get_parameter("blocks.0.attention.out_proj.weight"))
    torch.testing.assert_close(output, decoder(x).output)


def test_a_bias_reaches_each_layer():
    encoder, x = Encoder(12, 3, 2), torch.randn(2, 5, 12)
    expected = x
    for block in encoder.blocks:
        expected = block(expected, bias=alibi_bias(3, 5)).output
    torch.testing.assert_close(encoder(x, bias=alibi_bias(3, 5))[0], encoder.norm(expected))
    decoder = Decoder(12, 3, 2)
    unbiased = decoder(x, x).output
    assert not torch.allclose(decoder(x, x, bias=alibi_bias(3, 5)).output, unbiased)


def test_layers_learn_apart():
    first, second = (block.get_parameter("attention.q_proj.weight") for block in Encoder(12, 3, 2).blocks)
    assert not torch.equal(first, second)


def test_a_memory_is_given_where_it_is_read_and_nowhere_else():
    x = torch.zeros(2, 5, 12)
    with pytest.raises(ValueError, match="memory must be given"):
        Decoder(12, 3, 2)(x)
    with pytest.raises(ValueError, match="memory and memory_mask must be None"):
        Decoder(12, 3, 2, cross_attention=False)(x, x)


def test_a_stack_has_a_layer():
    with pytest.raises(ValueError, match="layers must be at least 1, got 0"):
        Encoder(12, 3, 0)


class TestCount:
    def test_a_block_has_12_d_squared_weights_besides_norms_and_biases(self):
        norms, biases = 4 * 48, 4 * 48 + 48
        assert count_parameters(TransformerBlock(48, 3)) == 12 * 48**2 + norms + biases
        assert count_parameters(TransformerBlock(48, 3, feed_forward=SwiGLU)) == 12 * 48**2 + norms

    def test_a_cross_attention_adds_four_d_squared_and_a_norm(self):
        more = count_parameters(TransformerBlock(48, 3, cross_attention=True))
        assert more - count_parameters(TransformerBlock(48, 3)) == 4 * 48**2 + 2 * 48

    def test_a_tied_tensor_counts_once(self):
        embedding, head = nn.Embedding(10, 4), nn.Linear(4, 10)
        untied = count_parameters(nn.ModuleList([embedding, head]))
        head.weight = embedding.weight
        assert (untied, count_parameters(nn.ModuleList([embedding, head]))) == (90, 50)

    def test_frozen_parameters_count(self):
        assert count_parameters(nn.Linear(3, 4).requires_grad_(False)) == 16
