"""A small GPT-2: embeddings, a stack of blocks under a causal mask, and a score for each possible next token."""

import math
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from lib.attention import causal_mask
from lib.gpt.config import GPTConfig
from lib.gpt.grouped_attention import GroupedQueryAttention
from lib.gpt.kv_cache import KVCache
from lib.transformer import FeedForward, LearnedPositions, TransformerBlock


class MiniGPT(nn.Module):
    """Score each possible next token, at every position at once.

        h₀ = E[tokens] + P        hₗ = blockₗ(hₗ₋₁)        logits = LN(h_L) Eᵀ

    Built as GPT-2: Pre-LN blocks, learned positions, GELU in its tanh form, biases, a last norm, and a head that is
    the embedding again (tied, so its weights count once). The causal mask holds in training and in evaluation.
    Weights are drawn with a standard deviation of 0.02; those that write into the residual stream with
    0.02 / √(2 layers).

    Args:
        config: its shape.

    Source: Radford et al. 2019, §2.3; tied embedding: Press & Wolf 2017.

    >>> model = MiniGPT(GPTConfig(vocab_size=10, context_length=16, dim=8, layers=2, heads=4))
    >>> model(torch.tensor([[3, 1, 4, 1, 5]])).shape
    torch.Size([1, 5, 10])
    """

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.dim)
        self.positions = LearnedPositions(config.context_length, config.dim)
        self.blocks = nn.ModuleList(_block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.dim)
        self.head = nn.Linear(config.dim, config.vocab_size, bias=False)
        self.head.weight = self.embedding.weight
        _initialise(self)

    @classmethod
    def from_gpt2(cls, other: Any) -> Self:
        """Copy Hugging Face's `GPT2LMHeadModel`, which stores the matrices of its linear maps transposed.

        Raises ValueError where its activation is not GPT-2's own, "gelu_new".
        """
        theirs = other.config
        if theirs.activation_function != "gelu_new":
            raise ValueError(f'other must have the activation "gelu_new", got "{theirs.activation_function}"')
        ours = cls(GPTConfig(theirs.vocab_size, theirs.n_positions, theirs.n_embd, theirs.n_layer, theirs.n_head))
        ours.load_state_dict({_our_name(name): _our_layout(name, x) for name, x in other.state_dict().items()})
        return ours

    def forward(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Return logits (batch, time, vocab_size) of the token after each of `tokens` (batch, time).

        With a cache, positions go on from its length, earlier tokens are read from it, and the new ones are added
        to it. Raises ValueError where the tokens don't fit the context, the cache or the vocabulary.
        """
        return self._run(tokens, cache, need_weights=False)[0]

    def with_weights(self, tokens: Tensor, cache: KVCache | None = None) -> tuple[Tensor, Tensor]:
        """Return the logits, and the attention weights (batch, layers, heads, time, key) they were made with.

        >>> model = MiniGPT(GPTConfig(vocab_size=10, context_length=16, dim=8, layers=2, heads=4))
        >>> model.with_weights(torch.tensor([[3, 1, 4, 1, 5]]))[1].shape
        torch.Size([1, 2, 4, 5, 5])
        """
        logits, maps = self._run(tokens, cache, need_weights=True)
        return logits, torch.stack(maps, 1)

    def _run(self, tokens: Tensor, cache: KVCache | None, need_weights: bool) -> tuple[Tensor, list[Tensor]]:
        self.check_tokens(tokens)
        self._check_fit(tokens, cache)
        time, past = tokens.shape[1], 0 if cache is None else cache.length
        x = self.embedding(tokens) + self.positions(time, offset=past)
        mask = causal_mask(time, past + time, device=x.device) if time > 1 else None  # one token sees all so far
        maps = []
        for layer, block in enumerate(self.blocks):
            update = None if cache is None else partial(cache.update, layer)
            x, weights, _ = block(x, mask, need_weights=need_weights, update=update)
            maps.append(weights)
        if cache is not None:
            cache.length += time
        return self.head(self.norm(x)), maps

    def check_tokens(self, tokens: Tensor) -> None:
        """Raise ValueError unless tokens are (batch, time) integers of the vocabulary, at least one a sequence."""
        if tokens.ndim != 2 or tokens.shape[1] == 0 or tokens.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"tokens must be (batch, time) integers, got {tuple(tokens.shape)} {tokens.dtype}")
        if ((tokens < 0) | (tokens >= self.config.vocab_size)).any():
            got = f"{tokens.min().item()} … {tokens.max().item()}"
            raise ValueError(f"tokens must lie in 0 … {self.config.vocab_size - 1}, got {got}")

    def _check_fit(self, tokens: Tensor, cache: KVCache | None) -> None:
        (batch, time), past = tokens.shape, 0 if cache is None else cache.length
        if past + time > self.config.context_length:
            got = f"{past} in the cache and {time} new"
            raise ValueError(f"tokens must fit the context of {self.config.context_length}, got {got}")
        if cache is not None and cache.batch_size != batch:
            raise ValueError(f"cache must be for {batch} sequences, got one for {cache.batch_size}")


def _block(config: GPTConfig) -> TransformerBlock:
    return TransformerBlock(
        config.dim,
        config.heads,
        attention=partial(GroupedQueryAttention, kv_heads=config.kv_heads),
        feed_forward=partial(FeedForward, activation=partial(gelu, approximate="tanh")),
    )


def _initialise(model: MiniGPT) -> None:
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1:
            residual = name.endswith(("out_proj.weight", "down_proj.weight"))
            nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * model.config.layers) if residual else 0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)


_GPT2_NAMES = {
    "transformer.": "",
    "wte": "embedding",
    "wpe": "positions",
    "h.": "blocks.",
    "ln_1": "attention_norm",
    "ln_2": "feed_forward_norm",
    "ln_f": "norm",
    "attn.c_attn": "attention.qkv_proj",
    "attn.c_proj": "attention.out_proj",
    "mlp.c_fc": "feed_forward.up_proj",
    "mlp.c_proj": "feed_forward.down_proj",
    "lm_head": "head",
}


def _our_name(name: str) -> str:
    for theirs, ours in _GPT2_NAMES.items():
        name = name.replace(theirs, ours)
    return name


def _our_layout(name: str, weight: Tensor) -> Tensor:
    return weight.T if weight.ndim == 2 and ".c_" in name else weight
