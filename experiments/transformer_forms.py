"""What can each of the three forms do with the same sentences?

A sentence is five random characters of eight, said twice. Claim: decoder-only can't know the first half and knows the
second; encoder-only, trained as BERT is, fills a gap in either half; an encoder–decoder that reads the first half
writes the second, told the characters before (teacher forcing). Its first character can only come from the memory:
without, one in eight would be right.

The three are not trained alike (RoPE, learned and sinusoidal positions; one layer and one, or two; as many steps as
each needs), so this says what each can do, and nothing of which learns faster.

Seeds 0–4, for the weights at the start and the batches; the 400 test sentences are the same for all. The maps of
attention are those of seed 0 on the first test sentence.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy

from experiments.store import save, spread, start
from experiments.training import ADAMW, first_losses, tens
from experiments.transformer_forms_models import MASK, TEST, DecoderOnly, EncoderDecoder, EncoderOnly, halves, repeated
from lib.training import fit
from lib.transformer import mask_tokens

SEEDS, RATE = range(5), 1e-2
STEPS = {"decoder": 160, "encoder": 400, "both": 100}


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


def prepare(seed: int, form: str) -> tuple[nn.Module, dict[str, Any]]:
    """The model, and what `fit` needs besides it."""
    torch.manual_seed(seed)
    model = {"decoder": DecoderOnly, "encoder": EncoderOnly, "both": EncoderDecoder}[form]()
    loss = {"decoder": next_loss, "encoder": gap_loss, "both": half_loss}[form]
    options = {"steps": STEPS[form], "lr": RATE, "optimizer": ADAMW}
    return model, {"batches": batches(form, Generator().manual_seed(seed)), "loss": loss, **options}


def train(seed: int, form: str) -> nn.Module:
    model, options = prepare(seed, form)
    fit(model, **options)
    return model


def early(form: str) -> list[float]:
    """Loss of seed 0, a mean of each ten of the first twenty steps."""
    model, options = prepare(0, form)
    return tens(first_losses(model, count=20, **options))


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
    stored: dict[str, Any] = {"seeds": SEEDS, "steps": STEPS, "early": {form: early(form) for form in STEPS}}
    stored |= {"hits": {}, "maps": {}}
    for form in STEPS:
        models = [train(seed, form) for seed in SEEDS]
        stored["hits"][form] = [hits(model, form) for model in models]
        stored["maps"][form] = maps(models[0], form)
        for place, shares in enumerate(zip(*stored["hits"][form], strict=True), 1):
            print(form, place, spread(list(shares)), flush=True)
    save("transformer_forms", stored)


if __name__ == "__main__":
    main()
