"""Training on eight digits to be written in reverse: a plain recipe and the book's, side by side.

Both have a bidirectional GRU of width 64, embeddings of width 32 and batches of 64. The two take turns, so that
other work on the machine weighs on both. Fails below five times the speed or an exact match of 0.99.
"""

import sys
import time
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch.optim import Adam

from lib.data import reversed_digits
from lib.seq2seq import START, PairBatch, Seq2Seq, greedy_decode, noisy_inputs, teacher_forcing_loss
from lib.training import fit

VOCAB, EMBEDDING, HIDDEN, BATCH, LENGTH = 11, 32, 64, 64, 8
PLAIN_STEPS, BOOK_STEPS, ROUNDS = 1500, 180, 3
LEAST_RATIO, LEAST_MATCH = 5.0, 0.99


class Plain(nn.Module):
    """Encoder and decoder as one writes them first: each step of the decoder does all its work by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, EMBEDDING)
        self.encoder = nn.GRU(EMBEDDING, HIDDEN, batch_first=True, bidirectional=True)
        self.cell = nn.GRUCell(EMBEDDING + 2 * HIDDEN, HIDDEN)
        self.query, self.key, self.score = (
            nn.Linear(HIDDEN, HIDDEN),
            nn.Linear(2 * HIDDEN, HIDDEN),
            nn.Linear(HIDDEN, 1),
        )
        self.output = nn.Linear(3 * HIDDEN, VOCAB)

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        encoded, _ = self.encoder(self.embedding(source))
        state = encoded.new_zeros(len(source), HIDDEN)
        logits = []
        for t in range(target_in.shape[1]):
            scores = self.score(torch.tanh(self.query(state)[:, None] + self.key(encoded)))
            context = (scores.softmax(1) * encoded).sum(1)
            state = self.cell(torch.cat([self.embedding(target_in[:, t]), context], -1), state)
            logits.append(self.output(torch.cat([state, context], -1)))
        return torch.stack(logits, 1)

    @torch.no_grad()
    def decode(self, source: Tensor) -> Tensor:
        tokens = torch.full((len(source), 1), START)
        for _ in range(LENGTH):
            tokens = torch.cat([tokens, self(source, tokens)[:, -1:].argmax(-1)], 1)
        return tokens[:, 1:]


def train_plain(model: Plain, optimizer: Adam, batches: Iterator[PairBatch], steps: int) -> None:
    for _ in range(steps):
        source, target_in, target, _ = next(batches)
        loss = F.cross_entropy(model(source, target_in).flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def train_book(seed: int) -> Seq2Seq:
    torch.manual_seed(seed)
    model, generator = Seq2Seq(VOCAB, EMBEDDING, HIDDEN), Generator().manual_seed(seed)
    batches = noisy_inputs(reversed_digits(BATCH, generator=generator), 0.3, generator=generator)
    fit(model, batches, teacher_forcing_loss, steps=BOOK_STEPS, lr=1e-2, warmup=20, clip=1.0, schedule="cosine")
    return model


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> int:
    torch.set_num_threads(1)  # times stay comparable where other work shares the cores
    torch.manual_seed(0)
    plain, books = Plain(), []
    optimizer, batches = Adam(plain.parameters(), lr=3e-3), reversed_digits(BATCH, generator=Generator().manual_seed(0))
    plain_seconds = book_seconds = 0.0
    for seed in range(ROUNDS):
        plain_seconds += seconds(lambda: train_plain(plain, optimizer, batches, PLAIN_STEPS // ROUNDS))
        book_seconds += seconds(lambda seed=seed: books.append(train_book(seed))) / ROUNDS
    test = next(reversed_digits(2000, generator=Generator().manual_seed(99)))
    plain_match = exact_match(plain.decode(test.source), test.target)
    matches = [exact_match(greedy_decode(book, test.source, START, LENGTH)[0], test.target) for book in books]
    ratio = plain_seconds / book_seconds
    print(f"plain: {PLAIN_STEPS} steps, {plain_seconds:.1f} s, exact match {plain_match:.4f}")
    print(f"book: {BOOK_STEPS} steps, {book_seconds:.1f} s, exact match {min(matches):.4f} (worst of {ROUNDS} seeds)")
    print(f"ratio {ratio:.1f} (at least {LEAST_RATIO:.0f})")
    return int(ratio < LEAST_RATIO or min(matches) < LEAST_MATCH)


def exact_match(written: Tensor, target: Tensor) -> float:
    return (written == target).all(1).float().mean().item()


if __name__ == "__main__":
    sys.exit(main())
