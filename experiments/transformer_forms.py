"""What can each of the three forms do with the same sentences?

A sentence is five random characters of eight, said twice. Claim: decoder-only can't know the first half and knows the
second; encoder-only, trained as BERT is, fills a gap in either half; an encoder–decoder that reads the first half
writes the second, and its first character follows the memory when the memory is exchanged.

Seeds 0–4, for the weights at the start and the batches; the 400 test sentences are the same for all. The maps of
attention are those of seed 0 on the first test sentence.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy, pad

from experiments.store import save, spread, start
from lib.training import fit
from lib.transformer import Decoder, Encoder, LearnedPositions, RotaryAttention, mask_tokens, sinusoidal_positions

SEEDS, RATE, MASK, START = range(5), 1e-2, 8, 9
STEPS = {"decoder": 160, "encoder": 400, "both": 100}


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


def next_loss(model: nn.Module, tokens: Tensor) -> Tensor:
    return cross_entropy(model(tokens[:, :-1])[0].flatten(0, 1), tokens[:, 1:].flatten())


def gap_loss(model: nn.Module, read: Tensor, chosen: Tensor, tokens: Tensor) -> Tensor:
    return cross_entropy(model(read)[0][chosen], tokens[chosen])


def half_loss(model: nn.Module, source: Tensor, target_in: Tensor, target: Tensor) -> Tensor:
    return cross_entropy(model(source, target_in)[0].flatten(0, 1), target.flatten())


def batches(form: str, generator: Generator) -> Iterator[tuple[Tensor, ...]]:
    while True:
        tokens = repeated(64, generator)
        if form == "decoder":
            yield (tokens,)
        elif form == "encoder":
            yield *mask_tokens(tokens, mask_token=MASK, vocab_size=8, generator=generator), tokens
        else:
            yield halves(tokens)


def train(seed: int, form: str) -> nn.Module:
    torch.manual_seed(seed)
    model = {"decoder": DecoderOnly, "encoder": EncoderOnly, "both": EncoderDecoder}[form]()
    loss = {"decoder": next_loss, "encoder": gap_loss, "both": half_loss}[form]
    adamw: Any = partial(torch.optim.AdamW, foreach=True)
    fit(model, batches(form, Generator().manual_seed(seed)), loss, steps=STEPS[form], lr=RATE, optimizer=adamw)
    return model


@torch.no_grad()
def hits(model: nn.Module, form: str) -> list[float]:
    """Share of right answers at each place that is asked for."""
    if form == "decoder":  # places 2 … 10
        return (model(TEST[:, :-1])[0].argmax(-1) == TEST[:, 1:]).float().mean(0).tolist()
    if form == "both":  # places 6 … 10
        source, target_in, target = halves(TEST)
        return (model(source, target_in)[0].argmax(-1) == target).float().mean(0).tolist()
    found = []
    for place in range(10):  # each hidden in turn
        hidden = TEST.clone()
        hidden[:, place] = MASK
        found.append((model(hidden)[0][:, place].argmax(-1) == TEST[:, place]).float().mean().item())
    return found


@torch.no_grad()
def follows_memory(model: nn.Module) -> float:
    """How often the first character written is that of another sentence, when its memory is given."""
    source, target_in, target = halves(TEST)
    first = model(source.roll(1, 0), target_in)[0][:, 0].argmax(-1)
    return (first == target.roll(1, 0)[:, 0]).float().mean().item()


@torch.no_grad()
def maps(model: nn.Module, form: str) -> Tensor:
    """Weights (head, query, key) of the last layer on the first test sentence."""
    if form != "both":
        return model(TEST[:1], need_weights=True)[1][0, -1]
    source, target_in, _ = halves(TEST[:1])
    read, own, cross = model(source, target_in, need_weights=True)[1]
    pieces = torch.zeros(4, 10, 10)
    pieces[:, :5, :5], pieces[:, 5:, :5], pieces[:, 5:, 5:] = read[0, 0], cross[0, 0], own[0, 0]
    return pieces


def main() -> None:
    start()
    stored: dict[str, Any] = {"seeds": SEEDS, "steps": STEPS, "hits": {}, "maps": {}}
    for form in STEPS:
        models = [train(seed, form) for seed in SEEDS]
        stored["hits"][form] = [hits(model, form) for model in models]
        stored["maps"][form] = maps(models[0], form)
        for place, shares in enumerate(zip(*stored["hits"][form], strict=True), 1):
            print(form, place, spread(list(shares)), flush=True)
        if form == "both":
            stored["follows_memory"] = [follows_memory(model) for model in models]
            print("follows the memory", spread(stored["follows_memory"]))
    save("transformer_forms", stored)


if __name__ == "__main__":
    main()
