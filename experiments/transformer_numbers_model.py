"""Numbers of four digits, their readings, and the model that learns to read them."""

import torch
from torch import Tensor, nn

from lib.transformer import BlockOutput, Decoder, Encoder, sinusoidal_positions

CHARACTERS = "零一二三四五六七八九十百千。"
START, LONGEST = 14, 8  # 三千四百五十六。


def reading(number: int) -> str:
    """Chinese reading of a number of four digits.

    >>> reading(3050), reading(3005), reading(3400)
    ('三千零五十', '三千零五', '三千四百')
    """
    text = ""
    for digit, unit in zip(f"{number:04}", ["千", "百", "十", ""], strict=True):
        if digit != "0":
            text += CHARACTERS[int(digit)] + unit
        elif not text.endswith("零"):
            text += "零"
    return text.rstrip("零")


def pairs() -> tuple[Tensor, Tensor]:
    """Digits (9000, 4) and readings (9000, 8), filled up with the end token."""
    numbers = range(1000, 10_000)
    digits = [[int(digit) for digit in str(number)] for number in numbers]
    readings = [[CHARACTERS.index(c) for c in reading(number).ljust(LONGEST, "。")] for number in numbers]
    return torch.tensor(digits), torch.tensor(readings)


def digit_places(source: Tensor, target: Tensor) -> Tensor:
    """Where the digit stands whose character is written, (numbers, 8); −1 where it is none of 一 … 九."""
    places = torch.full_like(target, -1)
    for number, (digits, characters) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        nonzero = [place for place, digit in enumerate(digits) if digit]
        written = [step for step, character in enumerate(characters) if 1 <= character <= 9]
        places[number, written] = torch.tensor(nonzero)
    return places


class Speller(nn.Module):
    """Reads digits, writes characters."""

    def __init__(self, dim: int = 32, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.source_embed, self.target_embed = nn.Embedding(10, dim), nn.Embedding(15, dim)
        self.encoder, self.decoder = Encoder(dim, heads, layers), Decoder(dim, heads, layers)
        self.answer = nn.Linear(dim, 14)

    def encode(self, source: Tensor) -> Tensor:
        x = self.source_embed(source)
        return self.encoder(x + sinusoidal_positions(*x.shape[1:]))[0]

    def decode(self, target_in: Tensor, memory: Tensor) -> Tensor:
        return self.answer(self.read(target_in, memory).output)

    def read(self, target_in: Tensor, memory: Tensor, need_weights: bool = False) -> BlockOutput:
        x = self.target_embed(target_in)
        return self.decoder(x + sinusoidal_positions(*x.shape[1:]), memory, need_weights=need_weights)


def shifted(target: Tensor) -> Tensor:
    """What the decoder reads: the target one step late, behind START."""
    return torch.cat([torch.full((len(target), 1), START), target[:, :-1]], 1)
