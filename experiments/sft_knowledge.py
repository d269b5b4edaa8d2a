"""Where does what a fine-tuned model says come from: pretraining or the dialogues?

A small GPT reads four quatrains, then is fine-tuned on four dialogues, 「问静夜思答床前明月光，疑是地上霜。」, whose
answers are the first halves only; nothing else is mixed in. Asked for twice as much, does it go on with the second
half, which no dialogue holds?

Controls: the same dialogues on a model that read the first halves only, and on one that read nothing. Also measured:
the loss on the quatrains before and after, and with all matrices rounded to fewer bits.

Seeds 0–4, for the weights at the start and the order of windows alike.
"""

import copy
from itertools import repeat
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy

from experiments.store import save, start
from experiments.training import over_seeds
from lib.data import poems_by_heart
from lib.gpt import CharTokenizer, GPTConfig, MiniGPT, generate, next_token_loss, pretrain, text_windows, window_batches
from lib.training import fit

SEEDS, READING, TUNING, CONTEXT = range(5), 140, 60, 32
SOURCES = ("whole", "first halves", "nothing")
QUATRAINS = {poem.title: poem.text for poem in poems_by_heart("zh")}
TEXT = "".join(QUATRAINS.values())
CHAT = CharTokenizer(TEXT + "问答" + "".join(QUATRAINS))


class Talks(NamedTuple):
    """Dialogues of unequal length."""

    tokens: Tensor
    """(dialogues, time), filled up with 0"""
    answer: Tensor
    """(dialogues, time), `True` for the tokens of the answer"""


def talks() -> Talks:
    rows = [CHAT.encode(f"问{title}答{verse[:12]}") for title, verse in QUATRAINS.items()]
    longest = max(map(len, rows))
    tokens = torch.zeros(len(rows), longest, dtype=torch.long)
    answer = torch.zeros_like(tokens, dtype=torch.bool)
    for row, ids in enumerate(rows):
        tokens[row, : len(ids)] = torch.tensor(ids)
        answer[row, len(ids) - 12 : len(ids)] = True
    return Talks(tokens, answer)


def answer_loss(model: MiniGPT, tokens: Tensor, answer: Tensor) -> Tensor:
    targets = tokens.masked_fill(~answer, -100)[:, 1:]
    return cross_entropy(model(tokens[:, :-1]).flatten(0, 1), targets.flatten())


def circle(text: str) -> Tensor:
    return torch.tensor(CHAT.encode(text + text[:CONTEXT]))


@torch.no_grad()
def reading_loss(model: MiniGPT) -> float:
    return next_token_loss(model, *text_windows(circle(TEXT), CONTEXT)).item()


def replies(model: MiniGPT, length: int = 24) -> list[str]:
    prompts = [torch.tensor([CHAT.encode(f"问{title}答")]) for title in QUATRAINS]
    found = [generate(model, prompt, length, temperature=0)[0, prompt.shape[1] :] for prompt in prompts]
    return [CHAT.decode(reply.tolist()) for reply in found]


def known(model: MiniGPT) -> dict[str, float]:
    """How many of the four first halves are right, and which part of the second's characters, punctuation aside."""
    said = list(zip(replies(model), QUATRAINS.values(), strict=True))
    pairs = [pair for reply, verse in said for pair in zip(reply[12:], verse[12:], strict=True)]
    second = [a == b for a, b in pairs if b not in "，。"]  # the marks stand at the same places in every poem
    return {"first": sum(reply[:12] == verse[:12] for reply, verse in said), "second": sum(second) / len(second)}


def quantised(model: MiniGPT, bits: int) -> MiniGPT:
    """Return a copy with each row of each matrix rounded to `bits` bits."""
    rounded, top = copy.deepcopy(model), 2 ** (bits - 1) - 1
    for weight in (each for each in rounded.parameters() if each.ndim == 2):
        scale = weight.detach().abs().amax(1, keepdim=True) / top
        weight.data = (weight.detach() / scale).round() * scale
    return rounded


def run(seed: int, source: str) -> dict[str, Any]:
    torch.manual_seed(seed)
    model = MiniGPT(GPTConfig(CHAT.vocab_size, context_length=CONTEXT, dim=64, layers=2, heads=4))
    first_halves = "".join(verse[:12] for verse in QUATRAINS.values())
    if read := {"whole": TEXT, "first halves": first_halves, "nothing": ""}[source]:
        windows = window_batches(circle(read), CONTEXT, 16, generator=Generator().manual_seed(seed))
        pretrain(model, windows, steps=READING)
    before, asked, path, dialogues = reading_loss(model), known(model), [], talks()

    def note(step: int) -> None:
        if step % 5 == 0:
            path.append(answer_loss(model, *dialogues).item())

    bits = {str(each): reading_loss(quantised(model, each)) for each in (8, 6, 4, 3, 2)} if source == "whole" else {}
    fit(model, repeat(dialogues), answer_loss, steps=TUNING, lr=2e-3, schedule="cosine", callback=note)
    after = {"after": reading_loss(model), **known(model)}
    return {"before": before, "asked": asked, "bits": bits, "loss": path, **after}


def main() -> None:
    start()
    runs = over_seeds(run, SEEDS, SOURCES, {key: itemgetter(key) for key in ("first", "second", "before", "after")})
    save("sft_knowledge", {"seeds": SEEDS, "steps": TUNING, "runs": runs})


if __name__ == "__main__":
    main()
