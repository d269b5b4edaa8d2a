"""Hugging Face's BERT encoder: Post-LN, biases, GELU, a small epsilon, and padding."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from lib.attention import MultiHeadAttention, padding_mask
from lib.transformer import Encoder, FeedForward

NAMES = {
    "attention.self.query": "attention.q_proj",
    "attention.self.key": "attention.k_proj",
    "attention.self.value": "attention.v_proj",
    "attention.output.dense": "attention.out_proj",
    "attention.output.LayerNorm": "attention_norm",
    "intermediate.dense": "feed_forward.up_proj",
    "output.dense": "feed_forward.down_proj",
    "output.LayerNorm": "feed_forward_norm",
}


def bert(dtype: torch.dtype, implementation: str) -> Any:
    config: Any = BertConfig(
        vocab_size=11,
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=40,
        max_position_embeddings=16,
        layer_norm_eps=1e-12,
    )
    config._attn_implementation = implementation
    model: Any = BertModel(config, add_pooling_layer=False)
    model = model.to(dtype).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=float(parameter.ndim == 1), std=0.2)
    return model


def copied(theirs: Any) -> Encoder:
    config = theirs.config
    ours = Encoder(
        config.hidden_size,
        config.num_attention_heads,
        config.num_hidden_layers,
        norm="post",
        attention=partial(MultiHeadAttention, bias=True),
        feed_forward=partial(FeedForward, hidden=config.intermediate_size),
        norm_layer=partial(nn.LayerNorm, eps=config.layer_norm_eps),
    )
    state = {}
    for name, tensor in theirs.encoder.state_dict().items():
        layer, module, kind = name.removeprefix("layer.").partition(".")[0], name.split(".", 2)[2], name.split(".")[-1]
        state[f"blocks.{layer}.{NAMES[module.removesuffix('.' + kind)]}.{kind}"] = tensor
    ours.to(next(theirs.parameters()).dtype).load_state_dict(state)
    return ours.eval()


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-13)], ids=str)
def test_bert_encoder(agree, dtype: torch.dtype, tolerance: float, implementation: str):
    theirs = bert(dtype, implementation)
    ours, tokens, mask = copied(theirs), torch.randint(11, (3, 7)), padding_mask([7, 4, 1], 7)
    embedded: Tensor = theirs.embeddings(tokens)
    output, maps = ours(embedded, mask, need_weights=True)
    expected = theirs(tokens, attention_mask=mask[:, 0, 0].long(), output_attentions=implementation == "eager")
    real = mask[:, 0, 0]
    agree(output[real], expected.last_hidden_state[real], tolerance=tolerance)
    if expected.attentions is not None:
        attentions = torch.stack(expected.attentions, 1)  # (batch, layers, heads, time, time)
        agree(maps, attentions, tolerance=tolerance, what="attention weights")


def test_a_large_epsilon_is_told_from_a_small_one():
    theirs = bert(torch.float64, "eager")
    ours, tokens = copied(theirs), torch.randint(11, (3, 7))
    for module in ours.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-5
    difference = ours(theirs.embeddings(tokens))[0] - theirs(tokens).last_hidden_state
    assert difference.abs().max() > 1e-6
