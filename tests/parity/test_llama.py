"""Hugging Face's LLaMA: RoPE in the half layout, SwiGLU, RMSNorm, grouped-query attention, a head of its own."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from lib.transformer import Decoder, RotaryAttention, SwiGLU

NAMES = {
    "model.embed_tokens.": "embedding.",
    "model.layers.": "stack.blocks.",
    "self_attn.o_proj": "attention.out_proj",
    "self_attn.": "attention.",
    "mlp.": "feed_forward.",
    "input_layernorm": "attention_norm",
    "post_attention_layernorm": "feed_forward_norm",
    "model.norm": "stack.norm",
    "lm_head": "head",
}


class Llama(nn.Module):
    """The same model, of our parts."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        dim, theta = config.hidden_size, config.rope_parameters["rope_theta"]
        self.embedding = nn.Embedding(config.vocab_size, dim)
        self.stack = Decoder(
            dim,
            config.num_attention_heads,
            config.num_hidden_layers,
            cross_attention=False,
            attention=partial(RotaryAttention, kv_heads=config.num_key_value_heads, base=theta, layout="half"),
            feed_forward=partial(SwiGLU, hidden=config.intermediate_size),
            norm_layer=partial(nn.RMSNorm, eps=config.rms_norm_eps),
        )
        self.head = nn.Linear(dim, config.vocab_size, bias=False)

    def forward(self, tokens: Tensor, caches: list[Any] | None = None) -> Tensor:
        return self.head(self.stack(self.embedding(tokens), caches=caches).output)


class Cache:
    """Keys and values of one layer, put end to end."""

    def __init__(self) -> None:
        self.pair: tuple[Tensor, Tensor] | None = None

    @property
    def length(self) -> int:
        return 0 if self.pair is None else self.pair[0].shape[-2]

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        if self.pair is not None:
            key, value = torch.cat([self.pair[0], key], -2), torch.cat([self.pair[1], value], -2)
        self.pair = key, value
        return self.pair


def models(dtype: torch.dtype, kv_heads: int, theta: float = 500.0) -> tuple[Any, Llama]:
    config = LlamaConfig(
        vocab_size=11,
        hidden_size=48,
        intermediate_size=56,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=kv_heads,
        max_position_embeddings=64,
        rms_norm_eps=1e-3,
        rope_parameters={"rope_type": "default", "rope_theta": theta},
        tie_word_embeddings=False,
    )
    theirs: Any = LlamaForCausalLM(config)
    theirs = theirs.to(dtype).eval()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, mean=float(parameter.ndim == 1), std=0.2)
    state = {}
    for name, tensor in theirs.state_dict().items():
        for old, new in NAMES.items():
            name = name.replace(old, new)
        state[name] = tensor
    ours = Llama(config).to(dtype)
    ours.load_state_dict(state)
    return theirs, ours.eval()


# Their cosines and their norms are computed in single precision whatever the model's type.
types = pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float64, 2e-5)], ids=str)


@types
@pytest.mark.parametrize("kv_heads", [6, 3, 1])
def test_logits(agree, dtype: torch.dtype, tolerance: float, kv_heads: int):
    theirs, ours = models(dtype, kv_heads)
    tokens = torch.randint(11, (3, 37))
    agree(ours(tokens), theirs(tokens).logits, tolerance=tolerance, what="logits")


def test_gradients(agree):
    theirs, ours = models(torch.float32, 2)
    tokens = torch.randint(11, (3, 9))
    upstream = torch.randn(3, 9, 11)
    for model, logits in ((ours, ours(tokens)), (theirs, theirs(tokens).logits)):
        model.zero_grad()
        (logits * upstream).sum().backward()
    inner, theirs_inner = ours.stack.blocks, theirs.model.layers
    pairs = [
        (ours.embedding.weight, theirs.model.embed_tokens.weight),
        (inner[0].get_parameter("attention.k_proj.weight"), theirs_inner[0].self_attn.k_proj.weight),
        (inner[2].get_parameter("feed_forward.gate_proj.weight"), theirs_inner[2].mlp.gate_proj.weight),
    ]
    grads = [torch.cat([weight.grad.flatten() for weight in side]) for side in zip(*pairs, strict=True)]
    scale = grads[1].abs().max()
    agree(grads[0] / scale, grads[1] / scale, tolerance=1e-5, what="gradients, the largest being 1")


@types
@pytest.mark.parametrize("sizes", [[5, 1, 1, 1], [3, 4, 1], [1, 7]], ids=str)
def test_logits_with_a_cache(agree, dtype: torch.dtype, tolerance: float, sizes: list[int]):
    theirs, ours = models(dtype, 2)
    tokens, caches = torch.randint(11, (2, 8)), [Cache() for _ in range(3)]
    steps = [ours(part, caches) for part in tokens.split(sizes, 1)]
    agree(torch.cat(steps, 1), theirs(tokens).logits, tolerance=tolerance, what="logits")


def test_the_other_layout_or_base_is_told_apart():
    theirs, ours = models(torch.float32, 2)
    tokens = torch.randint(11, (2, 8))
    expected = theirs(tokens).logits
    for base, layout in ((500.0, "interleaved"), (10000.0, "half")):
        for block in ours.stack.blocks:
            attention: Any = block.attention
            attention.rotate.keywords.update(base=base, layout=layout)
        assert (ours(tokens) - expected).abs().max() > 1e-2
