"""The three forms, small, and the sentences they read."""

from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import pad

from lib.transformer import Decoder, Encoder, LearnedPositions, RotaryAttention, sinusoidal_positions

MASK, START = 8, 9


def repeated(count: int, generator: Generator) -> Tensor:
    half = torch.randint(8, (count, 5), generator=generator)
    return torch.cat([half, half], 1)


TEST = repeated(400, Generator().manual_seed(99))


class DecoderOnly(nn.Module):
    """Causal, with RoPE: predicts the next token."""

    def __init__(self, dim: int = 32) -> None:
        super().__init__()
        self.embed, self.answer = nn.Embedding(10, dim), nn.Linear(dim, 8)
        self.stack = Decoder(dim, 4, 2, cross_attention=False, attention=RotaryAttention)

    def forward(self, tokens: Tensor, need_weights: bool = False) -> tuple[Tensor, Any]:
        x, weights, _ = self.stack(self.embed(tokens), need_weights=need_weights)
        return self.answer(x), weights


class EncoderOnly(nn.Module):
    """Both ways, with learned positions: fills gaps."""

    def __init__(self, dim: int = 32) -> None:
        super().__init__()
        self.embed, self.answer = nn.Embedding(10, dim), nn.Linear(dim, 8)
        self.positions, self.stack = LearnedPositions(10, dim, std=0.5), Encoder(dim, 4, 2)

    def forward(self, tokens: Tensor, need_weights: bool = False) -> tuple[Tensor, Any]:
        x, weights = self.stack(self.embed(tokens) + self.positions(10), need_weights=need_weights)
        return self.answer(x), weights


class EncoderDecoder(nn.Module):
    """Reads the first half, writes the second."""

    def __init__(self, dim: int = 32) -> None:
        super().__init__()
        self.embed, self.answer = nn.Embedding(10, dim), nn.Linear(dim, 8)
        self.encoder, self.decoder = Encoder(dim, 4, 1), Decoder(dim, 4, 1)

    def forward(self, source: Tensor, target_in: Tensor, need_weights: bool = False) -> tuple[Tensor, Any]:
        positions = sinusoidal_positions(5, 32)
        memory, read = self.encoder(self.embed(source) + positions, need_weights=need_weights)
        x, own, cross = self.decoder(self.embed(target_in) + positions, memory, need_weights=need_weights)
        return self.answer(x), (read, own, cross)


def halves(tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Source, the decoder's input, which is shifted and begins with START, and target."""
    source, target = tokens[:, :5], tokens[:, 5:]
    return source, pad(target[:, :-1], (1, 0), value=START), target
