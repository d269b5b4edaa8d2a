"""Do heads divide the work?

Claim: a reader of two layers with four heads each, asked at every pronoun for the word before and for the noun that it
means, grows a head that reads the word before, for every seed; reading the noun is mostly spread over several heads.
One head a layer answers as well, and the two layers then divide the work.

Controls: the same width with one head a layer, on the same sentences; each head's output set to zero in turn, and what
that costs on each question: a head is needed for a question, or only looks so.

Seeds 0–9, for the weights at the start and the sentences alike. The rate is the best of `RATES` on seeds 10–12.
"""

from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy

from experiments.store import save, spread, start
from lib.attention import MultiHeadAttention
from lib.training import fit

SEEDS, STEPS, RATES = range(10), 300, (3e-3, 1e-2, 3e-2)


def sentences(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Three nouns of three kinds and three pronouns, a verb after each; and where the nouns stand that are meant."""
    kinds, pronouns = torch.rand(2, count, 3, generator=generator).argsort(-1)
    tokens = torch.randint(15, 21, (count, 12), generator=generator)  # verbs everywhere, at first
    which = torch.randint(4, (count, 3), generator=generator)
    tokens[:, 0:6:2], tokens[:, 6::2] = 4 * kinds + which, 12 + pronouns
    return tokens, 2 * kinds.argsort(-1).gather(-1, pronouns)


class Reader(nn.Module):
    """Reads a sentence and gives two words at each place, and the weights (batch, layer, head, query, key)."""

    def __init__(self, dim: int = 32, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(21, dim), nn.Embedding(12, dim)
        self.layers = nn.ModuleList(MultiHeadAttention(dim, heads) for _ in range(layers))
        self.answers = nn.Linear(dim, 2 * 21)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        x, maps = self.words(tokens) + self.positions.weight, []
        for layer in self.layers:
            update, weights = layer(x, need_weights=True)
            x, maps = x + update, [*maps, weights]
        return self.answers(x).unflatten(-1, (2, 21)), torch.stack(maps, 1)


def right_answers(tokens: Tensor, referents: Tensor) -> Tensor:
    return torch.stack([tokens[:, 5:11:2], tokens.gather(1, referents)], -1)  # (batch, pronoun, question)


def reading_loss(model: Reader, tokens: Tensor, referents: Tensor) -> Tensor:
    answers = model(tokens)[0][:, 6::2]  # asked at pronouns only
    return cross_entropy(answers.flatten(0, 2), right_answers(tokens, referents).flatten())


def train(seed: int, heads: int, lr: float) -> Reader:
    torch.manual_seed(seed)
    reader, generator = Reader(heads=heads), Generator().manual_seed(seed)
    fit(reader, (sentences(64, generator) for _ in range(STEPS)), reading_loss, steps=STEPS, lr=lr)
    return reader


@torch.no_grad()
def accuracy(reader: Reader, tokens: Tensor, referents: Tensor) -> list[float]:
    """Of the question for the word before, and of that for the noun."""
    right = reader(tokens)[0][:, 6::2].argmax(-1) == right_answers(tokens, referents)
    return right.float().mean((0, 1)).tolist()


def without(reader: Reader, layer: int, head: int, test: tuple[Tensor, Tensor]) -> list[float]:
    """Accuracies with one head's output set to zero."""
    attend: Any = reader.layers[layer]
    kept = (torch.arange(attend.dim) // attend.head_dim != head).float()
    with attend.out_proj.register_forward_pre_hook(lambda _, inputs: inputs[0] * kept):
        return accuracy(reader, *test)


def run(seed: int, heads: int = 4, lr: float = 1e-2) -> dict[str, Any]:
    """Accuracies; each head's weight on the word before and on the noun; accuracies without each head."""
    reader, test = train(seed, heads, lr), sentences(1000, Generator().manual_seed(1000 + seed))
    tokens, referents = test
    with torch.no_grad():
        maps = reader(tokens)[1][:, :, :, 6::2]  # (batch, layer, head, pronoun, key)
    where = referents[:, None, None, :, None].expand(-1, 2, heads, -1, 1)
    return {
        "accuracy": accuracy(reader, *test),
        "previous": maps[..., [0, 1, 2], [5, 7, 9]].mean((0, 3)).tolist(),  # (layer, head)
        "referent": maps.gather(-1, where).mean((0, 3, 4)).tolist(),
        "without": [[without(reader, layer, head, test) for head in range(heads)] for layer in range(2)],
    }


def main() -> None:
    start()
    tuning = {lr: [min(run(seed, heads, lr)["accuracy"]) for heads in (4, 1) for seed in (10, 11, 12)] for lr in RATES}
    lr = max(RATES, key=lambda rate: sum(tuning[rate]))
    print("worse accuracy by rate:", {rate: spread(values) for rate, values in tuning.items()}, "→", lr, flush=True)
    runs = {heads: [run(seed, heads, lr) for seed in SEEDS] for heads in (4, 1)}
    save("head_roles", {"seeds": SEEDS, "steps": STEPS, "lr": lr, "tuning": tuning, "four": runs[4], "one": runs[1]})
    for heads, found in runs.items():
        for i, question in enumerate(("previous", "referent")):
            clearest = spread([max(map(max, each[question])) for each in found])
            print(f"{heads} heads, {question}: {clearest}, accuracy {spread([r['accuracy'][i] for r in found])}")


if __name__ == "__main__":
    main()
