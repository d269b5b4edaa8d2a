"""Sequence to sequence: a recurrent encoder reads the source, a recurrent decoder writes the target token by token.

Tokens are integers (batch, time), batch first. `model(source, target_in)` gives all steps at once, with the true
previous tokens as input (teacher forcing); `greedy_decode` feeds the model what it wrote itself.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from lib.attention import AdditiveAttention, masked_softmax, padding_mask
from lib.seq2seq.pairs import IGNORED


class Memory(NamedTuple):
    """What the encoder leaves to the decoder, computed once a sequence."""

    states: Tensor
    """h₁ … h_S, (batch, source, 2 hidden); zeros on padding"""
    summary: Tensor
    """[→h_S; ←h₁], what each direction holds at its end, (batch, 2 hidden)"""
    keys: Tensor | None
    """W_h h₁ … W_h h_S, (batch, source, hidden); None without attention"""
    mask: Tensor | None
    """boolean (batch, source), `True` = may attend; None where nothing is padded"""


class Seq2Seq(nn.Module):
    """Encode with a bidirectional GRU; decode with a GRU that at each step looks at the source anew.

        e_{t,i} = vᵀ tanh(W_s s_{t−1} + W_h hᵢ)        α_t = softmax(e_t)        c_t = Σᵢ α_{t,i} hᵢ
        s_t = GRU([E y_{t−1}; c_t], s_{t−1})        logits_t = W_o [s_t; c_t]        s₀ = 0

    Without attention, c_t = [→h_S; ←h₁] at every step: one vector of fixed length is all that the decoder learns
    of the source. Nothing else differs.

    Args:
        vocab_size: number of tokens, which source and target share.
        embedding_dim: width of an embedded token.
        hidden_dim: width of the decoder's state, and of each direction of the encoder.
        attention: whether the decoder looks back.

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
        if min(vocab_size, embedding_dim, hidden_dim) < 1:
            sizes = f"{vocab_size}, {embedding_dim} and {hidden_dim}"
            raise ValueError(f"vocab_size, embedding_dim and hidden_dim must be at least 1, got {sizes}")
        context_dim = 2 * hidden_dim
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.encoder = nn.GRU(embedding_dim, hidden_dim, batch_first=True, bidirectional=True)
        self.attention = AdditiveAttention(hidden_dim, context_dim, hidden_dim) if attention else None
        self.decoder = nn.GRUCell(embedding_dim + context_dim, hidden_dim)
        self.output = nn.Linear(hidden_dim + context_dim, vocab_size)

    def forward(
        self, source: Tensor, target_in: Tensor, source_lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Predict each target token from the source and the true tokens before it.

        Args:
            source: (batch, source). What stands on padding makes no difference.
            target_in: (batch, target), the target shifted right behind a start token.
            source_lengths: (batch,) integers, tokens in each source; all of them when left out.

        Returns:
            Logits (batch, target, vocab_size) and alignments α (batch, target, source), None without attention.
            A source of length 0 has alignments and contexts of zeros.

        Raises:
            ValueError: shapes don't fit, or a token or a length is out of range.
        """
        self._check_tokens("target_in", target_in, batch=len(source))
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

    def encode(self, source: Tensor, source_lengths: Tensor | None = None) -> Memory:
        """Read the source (batch, source) once, in both directions, each sequence from its own first or last token."""
        mask = None if source_lengths is None else _source_mask(source_lengths, source)
        tokens = source if mask is None else source.masked_fill(~mask, 0)
        self._check_tokens("source", tokens, batch=len(source))
        embedded = self.embedding(tokens)
        if mask is None or mask.all():  # nothing is padded
            mask, (states, last) = None, self.encoder(embedded)
        else:
            states, last = self._read_packed(embedded, mask.sum(-1))
        keys = None if self.attention is None else self.attention.k_proj(states)
        return Memory(states, torch.cat([last[0], last[1]], -1), keys, mask)

    def start(self, memory: Memory) -> Tensor:
        """Return s₀, zeros (batch, hidden): whatever the decoder learns of the source comes through c_t."""
        return memory.states.new_zeros(len(memory.states), self.decoder.hidden_size)

    def step(self, tokens: Tensor, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor, Tensor | None]:
        """Read the previous tokens (batch,), and return logits (batch, vocab_size), the next state and the weights."""
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

    def _read_packed(self, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Run the encoder so that its backward direction begins at each sequence's last token, not in the padding."""
        empty = (lengths == 0)[:, None]
        packed = pack_padded_sequence(embedded, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        packed, last = self.encoder(packed)
        states, _ = pad_packed_sequence(packed, batch_first=True, total_length=embedded.shape[1])
        return states.masked_fill(empty[..., None], 0.0), last.masked_fill(empty, 0.0)

    def _check_tokens(self, name: str, tokens: Tensor, batch: int) -> None:
        vocab_size = self.embedding.num_embeddings
        if tokens.ndim != 2 or len(tokens) != batch or tokens.shape[1] == 0:
            raise ValueError(f"{name} must be ({batch}, time) with at least one step, got {tuple(tokens.shape)}")
        if tokens.min() < 0 or tokens.max() >= vocab_size:
            got = f"{tokens.min().item()} … {tokens.max().item()}"
            raise ValueError(f"{name} must hold tokens in 0 … {vocab_size - 1}, got {got}")


def _source_mask(lengths: Tensor, source: Tensor) -> Tensor:
    if source.ndim != 2 or lengths.shape != source.shape[:1]:
        shapes = f"{tuple(lengths.shape)} and source {tuple(source.shape)}"
        raise ValueError(f"source_lengths must be (batch,) beside source (batch, time), got {shapes}")
    return padding_mask(lengths, source.shape[1])[:, 0, 0]


def teacher_forcing_loss(
    model: Seq2Seq, source: Tensor, target_in: Tensor, target: Tensor, source_lengths: Tensor | None = None
) -> Tensor:
    """Return the mean negative log probability of the true tokens, each given the true ones before it.

        L = −(1/N) Σ_t log p(y_t | source, y_{<t})        over the N tokens that are not padding

    Args:
        model: encoder and decoder.
        source, target_in, source_lengths: as the model takes them.
        target: (batch, target), `lib.seq2seq.IGNORED` on padding.

    Source: Williams & Zipser 1989 (teacher forcing).

    >>> model, ones = Seq2Seq(11, 4, 8), torch.ones(2, 3, dtype=torch.long)
    >>> teacher_forcing_loss(model, ones, ones, ones).shape
    torch.Size([])
    """
    logits, _ = model(source, target_in, source_lengths)
    return cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=IGNORED)


@torch.no_grad()
def greedy_decode(
    model: Seq2Seq, source: Tensor, start: int, steps: int, source_lengths: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Write the target one token at a time, each the most probable one after those written before.

        ŷ_t = argmax p(· | source, ŷ_{<t})        ŷ₀ = `start`

    The decoder's state is carried along: a step costs the same however much has been written.

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
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    memory = model.encode(source, source_lengths)
    state, tokens = model.start(memory), torch.full_like(source[:, 0], start)
    written, alignments = [], []
    for _ in range(steps):
        logits, state, weights = model.step(tokens, state, memory)
        tokens = logits.argmax(-1)
        written.append(tokens)
        alignments.append(weights)
    return torch.stack(written, 1), None if model.attention is None else torch.stack(alignments, 1)
