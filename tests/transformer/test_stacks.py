"""Stacks of blocks: agreement with PyTorch's, masks, the weights of all layers, and counts of parameters."""

import pytest
import torch
from torch import nn

from lib.attention import causal_mask, padding_mask
from lib.transformer import Decoder, Encoder, SwiGLU, TransformerBlock, alibi_bias, count_parameters


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def copied(theirs: nn.TransformerEncoder | nn.TransformerDecoder) -> tuple[nn.ModuleList, nn.Module]:
    layers = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
    blocks = [TransformerBlock.from_torch(layer) for layer in theirs.layers if isinstance(layer, layers)]
    return nn.ModuleList(blocks).eval(), theirs.norm or nn.Identity()


def test_an_encoder_equals_pytorchs():
    layer = nn.TransformerEncoderLayer(12, 3, 48, norm_first=True, batch_first=True)
    theirs = nn.TransformerEncoder(layer, 3, nn.LayerNorm(12), enable_nested_tensor=False).eval()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    ours = Encoder(12, 3, 3)
    ours.blocks, ours.norm = copied(theirs)
    x, mask = torch.randn(2, 5, 12), padding_mask([5, 3], 5)
    expected = theirs(x, src_key_padding_mask=~mask[:, 0, 0])
    torch.testing.assert_close(ours(x, mask)[0], expected, atol=1e-4, rtol=1e-4)


def test_a_decoder_equals_pytorchs():
    layer = nn.TransformerDecoderLayer(12, 3, 48, norm_first=True, batch_first=True)
    theirs = nn.TransformerDecoder(layer, 3, nn.LayerNorm(12)).eval()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    ours = Decoder(12, 3, 3)
    ours.blocks, ours.norm = copied(theirs)
    x, memory, mask = torch.randn(2, 5, 12), torch.randn(2, 7, 12), padding_mask([7, 4], 7)
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    expected = theirs(x, memory, tgt_mask=causal, tgt_is_causal=True, memory_key_padding_mask=~mask[:, 0, 0])
    torch.testing.assert_close(ours(x, memory, memory_mask=mask).output, expected, atol=1e-4, rtol=1e-4)


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
