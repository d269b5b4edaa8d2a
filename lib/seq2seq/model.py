"""Sequence to sequence: a recurrent encoder reads the source, a recurrent decoder writes the target token by token."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from lib.attention import AdditiveAttention, masked_softmax, padding_mask
from lib.checks import check_at_least, check_tokens, values_known
from lib.seq2seq.pairs import IGNORED
from lib.seq2seq.recurrent import BidirectionalGRU

Lengths = Tensor | Sequence[int]


class Memory(NamedTuple):
    """What the decoder reads of the source."""

    states: Tensor
    """h₁ … h_S, (batch, source, 2 hidden); zeros on padding"""
    summary: Tensor
    """[→h_S; ←h₁], what each direction holds at its end, (batch, 2 hidden)"""
    keys: Tensor | None
    """W_h h₁ … W_h h_S, (batch, source, hidden); None without attention"""
    mask: Tensor | None
    """boolean (batch, source), `True` = may attend; may be None where nothing is padded"""


class Seq2Seq(nn.Module):
    """Encode with a bidirectional GRU; decode with a GRU that at each step attends to the source.

        e_{t,i} = vᵀ tanh(W_s s_{t−1} + W_h hᵢ)        α_t = softmax(e_t)        c_t = Σᵢ α_{t,i} hᵢ
        s_t = GRU([E y_{t−1}; c_t], s_{t−1})        logits_t = W_o [s_t; c_t]        s₀ = 0

    Without attention, c_t = [→h_S; ←h₁] at every step, one vector of fixed length. `encode` and `step` can be
    exported with free batch and source axes.

    Args:
        vocab_size: number of tokens, which source and target share.
        embedding_dim: width of an embedded token.
        hidden_dim: width of the decoder's state, and of each direction of the encoder.
        attention: whether the decoder attends to the source.

    Raises:
        ValueError: a size is below 1.

    Source: Bahdanau, Cho & Bengio 2015, §3; without attention Sutskever, Vinyals & Le 2014, the fixed vector handed
    to every step as in Cho et al. 2014.

    >>> model = Seq2Seq(vocab_size=11, embedding_dim=4, hidden_dim=8)
    >>> source, target_in = torch.zeros(2, 7, dtype=torch.long), torch.zeros(2, 5, dtype=torch.long)
    >>> logits, alignments = model(source, target_in, source_lengths=torch.tensor([7, 3]))
    >>> logits.shape, alignments.shape
    (torch.Size([2, 5, 11]), torch.Size([2, 5, 7]))
    """

    def __init__(self, vocab_size: int, embedding_dim: int, hidden_dim: int, attention: bool = True) -> None:
        super().__init__()
        check_at_least(1, vocab_size=vocab_size, embedding_dim=embedding_dim, hidden_dim=hidden_dim)
        context_dim = 2 * hidden_dim
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.encoder = BidirectionalGRU(embedding_dim, hidden_dim)
        self.attention = AdditiveAttention(hidden_dim, context_dim, hidden_dim) if attention else None
        self.decoder = nn.GRUCell(embedding_dim + context_dim, hidden_dim)
        self.output = nn.Linear(hidden_dim + context_dim, vocab_size)

    def forward(
        self, source: Tensor, target_in: Tensor, source_lengths: Lengths | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Predict each target token from the source and the true tokens before it.

        Args:
            source: (batch, source) integers. What stands on padding makes no difference.
            target_in: (batch, target) integers, the target shifted right behind a start token.
            source_lengths: (batch,) integers, tokens in each source; all of them when left out.

        Returns:
            Logits (batch, target, vocab_size) and alignments α (batch, target, source), None without attention.
            A source of length 0 has alignments and contexts of zeros.

        Raises:
            ValueError: shapes don't fit, or a token or a length is no integer or out of range.
        """
        check_tokens("target_in", target_in, self.embedding.num_embeddings)
        if target_in.shape[0] != source.shape[0]:
            shapes = f"source {tuple(source.shape)} and target_in {tuple(target_in.shape)}"
            raise ValueError(f"each source needs one target_in, got {shapes}")
        memory = self.encode(source, source_lengths)
        state = self.start(memory)
        states, contexts, alignments = [], [], []
        # Only the recurrence goes step by step: tokens are embedded and logits computed for all steps at once.
        for embedded in self.embedding(target_in).unbind(1):
            state, context, weights = self._advance(embedded, state, memory)
            states.append(state)
            contexts.append(context)
            alignments.append(weights)
        logits = self._logits(torch.stack(states, 1), torch.stack(contexts, 1))
        return logits, None if self.attention is None else torch.stack(alignments, 1)

    def encode(self, source: Tensor, source_lengths: Lengths | None = None) -> Memory:
        """Read the source (batch, source) once, in both directions, each sequence from its own first or last token."""
        mask = None if source_lengths is None else _source_mask(source_lengths, source)
        tokens = source if mask is None else source.masked_fill(~mask, 0)
        check_tokens("source", tokens, self.embedding.num_embeddings)
        if mask is not None and values_known() and mask.all():
            mask = None
        states, summary = self.encoder(self.embedding(tokens), mask)
        keys = None if self.attention is None else self.attention.k_proj(states)
        return Memory(states, summary, keys, mask)

    def start(self, memory: Memory) -> Tensor:
        """Return s₀, zeros (batch, hidden)."""
        return memory.states.new_zeros(memory.states.shape[0], self.decoder.hidden_size)

    def step(self, tokens: Tensor, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor, Tensor | None]:
        """Read the previous tokens (batch,), and return logits (batch, vocab_size), the next state and the weights."""
        if tokens.ndim != 1:
            raise ValueError(f"tokens must be (batch,), got {tuple(tokens.shape)}")
        check_tokens("tokens", tokens[:, None], self.embedding.num_embeddings)
        state, context, weights = self._advance(self.embedding(tokens), state, memory)
        return self._logits(state, context), state, weights

    def attend(self, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Return the context c_t (batch, 2 hidden) for a state s_{t−1}, and the weights α_t (batch, source)."""
        if self.attention is None or memory.keys is None:
            return memory.summary, None
        hidden = torch.tanh(self.attention.q_proj(state)[:, None] + memory.keys)  # (batch, source, hidden)
        weights = masked_softmax(self.attention.score(hidden).squeeze(-1), memory.mask)
        # As a product and a sum: the gradient of so small a matrix product takes three times as long.
        return (weights[..., None] * memory.states).sum(1), weights

    def _advance(self, embedded: Tensor, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor, Tensor | None]:
        context, weights = self.attend(state, memory)
        return self.decoder(torch.cat([embedded, context], -1), state), context, weights

    def _logits(self, state: Tensor, context: Tensor) -> Tensor:
        return self.output(torch.cat([state, context], -1))


def _source_mask(source_lengths: Lengths, source: Tensor) -> Tensor:
    lengths = torch.as_tensor(source_lengths, device=source.device)
    if source.ndim != 2 or lengths.shape != source.shape[:1]:
        shapes = f"{tuple(lengths.shape)} and source {tuple(source.shape)}"
        raise ValueError(f"source_lengths must be (batch,) beside source (batch, time), got {shapes}")
    return padding_mask(lengths, source.shape[1])[:, 0, 0]  # (batch, source)


def teacher_forcing_loss(
    model: Seq2Seq, source: Tensor, target_in: Tensor, target: Tensor, source_lengths: Lengths | None = None
) -> Tensor:
    """Return the mean negative log probability of the true tokens, each given the true ones before it.

        L = −(1/N) Σ_t log p(y_t | source, y_{<t})        over the N tokens that are not padding

    It is computed in single precision or better.

    Args:
        model: encoder and decoder.
        source, target_in, source_lengths: as the model takes them.
        target: (batch, target) integers, `lib.seq2seq.IGNORED` on padding.

    Raises:
        ValueError: the target doesn't fit `target_in` or the vocabulary, or is all padding; else as the model.

    Source: Williams & Zipser 1989 (teacher forcing).

    >>> model, ones = Seq2Seq(11, 4, 8), torch.ones(2, 3, dtype=torch.long)
    >>> teacher_forcing_loss(model, ones, ones, ones).shape
    torch.Size([])
    """
    real = target != IGNORED
    if target.shape != target_in.shape:
        shapes = f"target {tuple(target.shape)} and target_in {tuple(target_in.shape)}"
        raise ValueError(f"target and target_in must be of one shape, got {shapes}")
    check_tokens("target", target.masked_fill(~real, 0), model.embedding.num_embeddings)
    if values_known() and not real.any():
        raise ValueError(f"target must hold a token that is not IGNORED, got none in {tuple(target.shape)}")
    logits, _ = model(source, target_in, source_lengths)  # (batch, target, vocab_size)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return cross_entropy(logits.flatten(0, 1), target.flatten().long(), ignore_index=IGNORED)


@torch.no_grad()
def greedy_decode(
    model: Seq2Seq, source: Tensor, start: int, steps: int, source_lengths: Lengths | None = None
) -> tuple[Tensor, Tensor | None]:
    """Write the target one token at a time, each the most probable one after those written before.

        ŷ_t = argmax p(· | source, ŷ_{<t})        ŷ₀ = `start`

    Args:
        model: encoder and decoder.
        source: (batch, source).
        start: the token that stands before the first.
        steps: number of tokens to write.
        source_lengths: (batch,) integers, tokens in each source; all of them when left out.

    Returns:
        Tokens (batch, steps) and alignments (batch, steps, source), None without attention.

    Raises:
        ValueError: `start` is not in the vocabulary, `steps` is below 1, or the source doesn't fit the model.

    Source: Sutskever, Vinyals & Le 2014, §3.2, with a beam of one.

    >>> tokens, alignments = greedy_decode(Seq2Seq(11, 4, 8), torch.zeros(2, 7, dtype=torch.long), start=10, steps=5)
    >>> tokens.shape, alignments.shape
    (torch.Size([2, 5]), torch.Size([2, 5, 7]))
    """
    if not 0 <= start < model.embedding.num_embeddings:
        raise ValueError(f"start must be a token in 0 … {model.embedding.num_embeddings - 1}, got {start}")
    check_at_least(1, steps=steps)
    memory = model.encode(source, source_lengths)
    state, tokens = model.start(memory), torch.full_like(source[:, 0], start)
    written, alignments = [], []
    for _ in range(steps):
        logits, state, weights = model.step(tokens, state, memory)
        tokens = logits.argmax(-1)
        written.append(tokens)
        alignments.append(weights)
    return torch.stack(written, 1), None if model.attention is None else torch.stack(alignments, 1)
