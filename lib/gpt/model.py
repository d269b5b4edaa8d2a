"""A small GPT-2: embeddings, a stack of blocks under a causal mask, and a score for each possible next token."""

import math
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from lib.attention import MultiHeadAttention, causal_mask
from lib.checks import check_tokens
from lib.gpt.config import GPTConfig
from lib.gpt.kv_cache import KVCache, LayerCache
from lib.transformer import FeedForward, LearnedPositions, TransformerBlock


class SelfAttention(MultiHeadAttention):
    """Multi-head self-attention whose queries, keys and values come from one matrix, as in GPT-2.

    One product instead of three: for a single new token it is the number of operations that takes time.

    >>> attend = SelfAttention(dim=8, heads=4, kv_heads=2)
    >>> attend.qkv_proj.weight.shape, attend(torch.zeros(3, 5, 8))[0].shape
    (torch.Size([16, 8]), torch.Size([3, 5, 8]))
    """

    def __init__(self, dim: int, heads: int, *, kv_heads: int | None = None) -> None:
        super().__init__(dim, heads, kv_heads=kv_heads, bias=True)

    def _add_projections(self, bias: bool) -> None:
        self.qkv_proj = nn.Linear(self.dim, self.dim + 2 * self.kv_heads * self.head_dim, bias=bias)

    def project(self, query: Tensor, context: Tensor, past: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of the same tokens, (batch, heads or kv_heads, time, head_dim)."""
        if context is not query:
            raise ValueError("context must be left out: this attention is from tokens to themselves")
        q, k, v = self._split(self.qkv_proj(query)).split((self.heads, self.kv_heads, self.kv_heads), -3)
        return q, k, v


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
        self._initialise()

    def _initialise(self) -> None:
        for name, parameter in self.named_parameters():
            if name.endswith(("out_proj.weight", "down_proj.weight")):  # they write into the residual stream
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * self.config.layers))
            elif parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Return logits (batch, time, vocab_size) of the token after each of `tokens` (batch, time).

        With a cache, positions go on from its length, earlier tokens are read from it, and the new ones are added
        to it. Raises ValueError where the tokens don't fit the context, the cache or the vocabulary.
        """
        return self._run(tokens, cache)[0]

    def with_weights(self, tokens: Tensor, cache: KVCache | None = None) -> tuple[Tensor, Tensor]:
        """Return the logits, and the attention weights (batch, layers, heads, time, key) they were made with.

        >>> model = MiniGPT(GPTConfig(vocab_size=10, context_length=16, dim=8, layers=2, heads=4))
        >>> model.with_weights(torch.tensor([[3, 1, 4, 1, 5]]))[1].shape
        torch.Size([1, 2, 4, 5, 5])
        """
        logits, maps = self._run(tokens, cache, need_weights=True)
        return logits, torch.stack(maps, 1)

    def _run(self, tokens: Tensor, cache: KVCache | None, *, need_weights: bool = False) -> tuple[Tensor, list[Tensor]]:
        self._check(tokens, cache)
        time, past = tokens.shape[1], 0 if cache is None else cache.length
        x = self.embedding(tokens) + self.positions(time, offset=past)  # (batch, time, dim)
        mask = causal_mask(time, past + time, device=x.device) if time > 1 else None  # one token sees all so far
        maps: list[Tensor] = []
        for layer, block in enumerate(self.blocks):
            options = {} if cache is None else {"cache": LayerCache(cache, layer)}
            x, weights, _ = block(x, mask, need_weights=need_weights, **options)
            maps.append(weights)
        if cache is not None:
            cache.length += time
        return self.head(self.norm(x)), maps

    def _check(self, tokens: Tensor, cache: KVCache | None) -> None:
        check_tokens("tokens", tokens, self.config.vocab_size)
        (batch, time), past = tokens.shape, 0 if cache is None else cache.length
        if past + time > self.config.context_length:
            got = f"{past} in the cache and {time} new"
            raise ValueError(f"tokens must fit the context of {self.config.context_length}, got {got}")
        if cache is not None and cache.batch_size != batch:
            raise ValueError(f"cache must be for {batch} sequences, got one for {cache.batch_size}")

    @classmethod
    def from_gpt2(cls, other: Any) -> Self:
        """Copy Hugging Face's `GPT2LMHeadModel`.

        Raises ValueError naming an option that has no counterpart here, dropout at work in training mode, or a weight
        that is missing, unexpected or of another shape.
        """
        theirs = other.config
        for option, known in _GPT2_OPTIONS.items():
            if (value := getattr(theirs, option, known[0])) not in known:
                raise ValueError(f"other must have {option} = {known[0]!r}, got {value!r}")
        if theirs.n_inner not in (None, 4 * theirs.n_embd):
            raise ValueError(f"other must have n_inner = 4 · n_embd = {4 * theirs.n_embd}, got {theirs.n_inner}")
        if other.training and (dropout := max(theirs.resid_pdrop, theirs.embd_pdrop, theirs.attn_pdrop)):
            raise ValueError(f"other must be in evaluation mode or without dropout, got dropout {dropout} in training")
        ours = cls(GPTConfig(theirs.vocab_size, theirs.n_positions, theirs.n_embd, theirs.n_layer, theirs.n_head))
        state = _renamed(other.state_dict())
        if "head.weight" in state and not torch.equal(state["head.weight"], state["embedding.weight"]):
            raise ValueError("other must have a head that is its embedding (tied), got another lm_head.weight")
        try:
            ours.to(other.dtype).load_state_dict(state)
        except RuntimeError as error:
            raise ValueError(f"other must have the weights of a GPT2LMHeadModel, got {error}") from None
        return ours.train(other.training)


def _block(config: GPTConfig) -> TransformerBlock:
    return TransformerBlock(
        config.dim,
        config.heads,
        attention=partial(SelfAttention, kv_heads=config.kv_heads),
        feed_forward=partial(FeedForward, activation=partial(gelu, approximate="tanh")),
    )


# Options of Hugging Face's class that change its numbers, and the values that MiniGPT has built in.
_GPT2_OPTIONS = {
    "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
    "layer_norm_epsilon": (1e-5,),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "reorder_and_upcast_attn": (False,),
    "add_cross_attention": (False,),
    "tie_word_embeddings": (True,),
}

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


def _renamed(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Their weights under our names; the matrices of their linear maps are stored transposed."""
    renamed: dict[str, Tensor] = {}
    for name, x in state.items():
        x = x.T if x.ndim == 2 and ".c_" in name else x
        for theirs, ours in _GPT2_NAMES.items():
            name = name.replace(theirs, ours)
        renamed[name] = x
    return renamed
