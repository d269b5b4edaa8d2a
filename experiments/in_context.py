"""Can a language model follow a dictionary that stands in its prompt, without a step of training?

Claim: a model of two layers that has read many dictionaries, a new one in each text, gives the value of a key that its
prompt has shown once, though it never saw this dictionary; of a key not yet shown it can only guess. One trained on a
single dictionary knows that one by heart and doesn't look at the prompt: with a new dictionary it only guesses.

Controls: keys not yet shown; one layer instead of two; learned positions instead of RoPE. Both learn most of it in the
same steps at the same rate, which was not tuned.

A text is a row of pairs: a key, then its value; keys are drawn, so that some come back. Measured is the share of right
values by how often the key stood before, on 512 texts.

Seeds 0–4, for the weights at the start, the texts and the test alike.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Generator, Tensor, nn

from experiments.store import save, spread, start
from lib.attention import MultiHeadAttention
from lib.gpt import pretrain
from lib.transformer import Decoder, LearnedPositions, RotaryAttention

SEEDS, STEPS = range(5), 800
KEYS, PAIRS = 8, 12  # a key is one of 8 tokens, a value one of 8 others; pairs in a text
KINDS = {  # layers, a new dictionary in each text, RoPE
    "many": (2, True, True),
    "one": (2, False, True),
    "one layer": (1, True, True),
    "learned positions": (2, True, False),
}


class LanguageModel(nn.Module):
    """An embedding, blocks with a causal mask, a linear answer."""

    def __init__(self, layers: int, rope: bool, dim: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(2 * KEYS, dim)
        self.positions = None if rope else LearnedPositions(2 * PAIRS, dim)
        attention = RotaryAttention if rope else MultiHeadAttention
        self.stack = Decoder(dim, heads, layers, cross_attention=False, attention=attention)
        self.answer = nn.Linear(dim, 2 * KEYS)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        x = x if self.positions is None else x + self.positions(tokens.shape[1])
        return self.answer(self.stack(x).output)


def texts(count: int, generator: Generator, dictionary: Tensor | None = None) -> Tensor:
    """Rows of pairs (count, 2·PAIRS); each of a dictionary of its own, unless one is given."""
    values = KEYS + torch.rand(count, KEYS, generator=generator).argsort(-1) if dictionary is None else dictionary
    shown = torch.rand(count, KEYS, generator=generator).argsort(-1)[:, : KEYS // 2]  # half of them: they come back
    keys = shown.gather(1, torch.randint(KEYS // 2, (count, PAIRS), generator=generator))
    return torch.stack([keys, values.expand(count, -1).gather(1, keys)], -1).flatten(1)


def only_dictionary(seed: int) -> Tensor:
    return KEYS + torch.randperm(KEYS, generator=Generator().manual_seed(seed))


def batches(seed: int, new: bool) -> Iterator[tuple[Tensor, Tensor]]:
    """Texts and their next tokens, of which only the values count: the keys are drawn."""
    generator = Generator().manual_seed(seed)
    while True:
        rows = texts(64, generator, None if new else only_dictionary(seed))
        targets = rows[:, 1:].clone()
        targets[:, 1::2] = -100
        yield rows[:, :-1], targets


@torch.no_grad()
def examine(model: Callable[[Tensor], Tensor], rows: Tensor) -> list[float]:
    """The share of right values, by how often the key stood before: never, once, twice or more."""
    keys, values = rows[:, ::2], rows[:, 1::2]
    right = model(rows[:, :-1])[:, ::2].argmax(-1) == values
    before = (keys[:, :, None] == keys[:, None, :]).tril(-1).sum(-1).clamp(max=2)
    return [right[before == times].double().mean().item() for times in range(3)]


def run(kind: str, seed: int, steps: int = STEPS) -> dict[str, list[float]]:
    """Accuracies on new dictionaries, and on the one that was read if there was only one."""
    layers, new, rope = KINDS[kind]
    torch.manual_seed(seed)
    model = LanguageModel(layers, rope)
    pretrain(model, batches(seed, new), steps=steps, lr=3e-3)
    generator = Generator().manual_seed(100 + seed)
    found = {"new": examine(model, texts(512, generator))}
    return found if new else found | {"own": examine(model, texts(512, generator, only_dictionary(seed)))}


def main() -> None:
    start()
    runs = {kind: [run(kind, seed) for seed in SEEDS] for kind in KINDS}
    for kind, each in runs.items():
        for test in each[0]:
            print(kind, test, *(spread([found[test][times] for found in each]) for times in range(3)), flush=True)
    save("in_context", {"seeds": SEEDS, "steps": STEPS, "runs": runs})


if __name__ == "__main__":
    main()
