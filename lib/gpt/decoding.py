"""One token at a time: MiniGPT's forward pass for one new token of each sequence, made lean."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, gelu, scaled_dot_product_attention

from lib.gpt.kv_cache import KVCache
from lib.gpt.model import MiniGPT


class TokenStep:
    """Give the logits that `model(tokens, cache)` gives for one new token, in about half the time.

    There is so little to compute that what surrounds it decides: here the weights are looked up once, and a step
    is a flat run of fused operations. The query sees every key so far, so it needs no mask; the cache is read
    through views; nothing is checked.

    Args:
        model: its weights are shared, not copied.
        cache: the tokens so far, fewer than the context; each step adds one.

    >>> from lib.gpt import GPTConfig
    >>> model = MiniGPT(GPTConfig(vocab_size=10, context_length=16, dim=8, layers=2, heads=4))
    >>> cache = KVCache(model.config, batch_size=3)
    >>> step = TokenStep(model, cache)
    >>> with torch.inference_mode():
    ...     step(torch.tensor([1, 2, 3])).shape, cache.length
    (torch.Size([3, 10]), 1)
    """

    def __init__(self, model: MiniGPT, cache: KVCache) -> None:
        config = model.config
        self.cache, self.dim, self.kv_heads = cache, (config.dim,), config.kv_heads
        self.query_shape = (cache.batch_size, config.kv_heads, config.heads // config.kv_heads, config.head_dim)
        self.parts_shape = (cache.batch_size, config.heads + 2 * config.kv_heads, 1, config.head_dim)
        self.parts = (config.heads, 2 * config.kv_heads)
        self.embedding, self.positions = model.embedding.weight, model.positions.weight
        self.layers = [_weights(block, store) for block, store in zip(model.blocks, cache.buffer, strict=True)]
        self.norm, self.head = _norm(model.norm), model.head.weight.T

    def __call__(self, tokens: Tensor) -> Tensor:
        """Return logits (batch, vocab_size) of the token after `tokens` (batch,)."""
        x = embedding(tokens, self.embedding) + self.positions[self.cache.length]
        for layer in self.layers:
            x = x + self._attention(torch.layer_norm(x, self.dim, *layer.attention_norm), layer)
            x = x + _feed_forward(torch.layer_norm(x, self.dim, *layer.feed_forward_norm), layer)
        self.cache.length += 1
        return torch.layer_norm(x, self.dim, *self.norm) @ self.head

    def _attention(self, x: Tensor, layer: "_Layer") -> Tensor:
        query, new = _linear(x, layer.qkv_proj).view(self.parts_shape).split(self.parts, 1)
        past = self.cache.length
        layer.store.narrow(2, past, 1).copy_(new)
        key, value = layer.store.narrow(2, 0, past + 1).split(self.kv_heads, 1)
        heads = scaled_dot_product_attention(query.reshape(self.query_shape), key, value)
        return _linear(heads.reshape(len(x), -1), layer.out_proj)


Map = tuple[Tensor, Tensor]


class _Layer(NamedTuple):
    """Weights of a block, and its part of the cache."""

    attention_norm: Map
    qkv_proj: Map
    out_proj: Map
    feed_forward_norm: Map
    up_proj: Map
    down_proj: Map
    store: Tensor
    """(batch, 2 kv_heads, context_length, head_dim), keys first"""


def _weights(block: Any, store: Tensor) -> _Layer:
    attention, feed_forward = block.attention, block.feed_forward
    return _Layer(
        _norm(block.attention_norm),
        _map(attention.qkv_proj),
        _map(attention.out_proj),
        _norm(block.feed_forward_norm),
        _map(feed_forward.up_proj),
        _map(feed_forward.down_proj),
        store,
    )


def _feed_forward(x: Tensor, layer: _Layer) -> Tensor:
    return _linear(gelu(_linear(x, layer.up_proj), approximate="tanh"), layer.down_proj)


def _linear(x: Tensor, weights: Map) -> Tensor:
    bias, weight = weights
    return torch.addmm(bias, x, weight)


def _map(linear: nn.Linear) -> Map:
    return linear.bias, linear.weight.T


def _norm(norm: nn.LayerNorm) -> Map:
    return norm.weight, norm.bias
