"""What chapter 2.1.4 claims of trained models: S2 the bottleneck, S3 exposure bias, S5 dates."""

from collections.abc import Callable, Iterator
from datetime import date

import pytest
import torch
from torch import Generator, Tensor

from lib.data import DATE_ALPHABET, DATE_FORMS, date_batch, dates, decode_text, encode_text, reversed_digits
from lib.seq2seq import START, PairBatch, Seq2Seq, greedy_decode, noisy_inputs, pair_batch, teacher_forcing_loss
from lib.training import fit

DAY, ENGLISH, CHINESE = date(2024, 3, 5), "March 5, 2024", "2024年3月5日"


def seeded(seed: int) -> Generator:
    return Generator().manual_seed(seed)


def train(
    model: Seq2Seq, batches: Iterator[PairBatch], steps: int, watch: Callable[[int], object] | None = None
) -> Seq2Seq:
    loss = teacher_forcing_loss
    fit(model, batches, loss, steps=steps, lr=1e-2, warmup=20, clip=1.0, schedule="cosine", callback=watch)
    return model


def write(model: Seq2Seq, batch: PairBatch) -> Tensor:
    return greedy_decode(model, batch.source, START, batch.target.shape[1], batch.source_lengths)[0]


def both_ways(model: Seq2Seq, batch: PairBatch) -> tuple[Tensor, Tensor]:
    """Which tokens are right with the true prefix, and with the model's own."""
    forced = model(batch.source, batch.target_in, batch.source_lengths)[0].argmax(-1)
    return forced == batch.target, write(model, batch) == batch.target


class Trained:
    """A model trained on lengths 1 … 10, and both kinds of accuracy on the way."""

    def __init__(self, attention: bool) -> None:
        torch.manual_seed(0)
        self.model, self.log = Seq2Seq(11, 32, 48, attention=attention), []
        self.test = next(reversed_digits(200, generator=seeded(8)))
        batches = reversed_digits(48, generator=seeded(1), lengths=(1, 10))
        train(self.model, batches, steps=200, watch=self.look)

    def look(self, step: int) -> None:
        if step % 50 == 0:
            self.log.append(both_ways(self.model, self.test))

    def exact(self, length: int) -> float:
        batch = next(reversed_digits(200, generator=seeded(length), lengths=(length, length)))
        return (write(self.model, batch) == batch.target).all(1).float().mean().item()


@pytest.fixture(scope="module")
def attentive() -> Trained:
    return Trained(attention=True)


@pytest.fixture(scope="module")
def one_vector() -> Trained:
    return Trained(attention=False)


def test_s2_both_manage_short_sequences_and_only_attention_long_ones(attentive: Trained, one_vector: Trained):
    assert min(attentive.exact(length) for length in (2, 6, 8)) > 0.85
    assert one_vector.exact(2) > 0.9
    assert one_vector.exact(6) < attentive.exact(6) - 0.1
    assert one_vector.exact(8) < 0.5
    assert one_vector.exact(10) < 0.2 < attentive.exact(10)


def test_s3_whole_sequences_are_as_often_right_with_the_true_prefix_as_with_ones_own(
    attentive: Trained, one_vector: Trained
):
    for forced, free in attentive.log + one_vector.log:
        assert torch.equal(forced.all(1), free.all(1))


def test_s3_tokens_are_more_often_right_with_the_true_prefix_until_there_are_no_errors(
    attentive: Trained, one_vector: Trained
):
    gaps = [(forced.float().mean() - free.float().mean()).item() for forced, free in one_vector.log]
    assert min(gaps[1:]) > 0.08
    forced, free = attentive.log[-1]
    assert forced.float().mean() - free.float().mean() < 0.05


def after_an_error(model: Seq2Seq, batch: PairBatch, position: int) -> float:
    memory = model.encode(batch.source)
    state, tokens, right = model.start(memory), torch.full_like(batch.source[:, 0], START), []
    for t, answer in enumerate(batch.target.unbind(1)):
        logits, state, _ = model.step(tokens, state, memory)
        tokens = logits.argmax(-1)
        right.append(tokens == answer)
        if t == position:
            tokens = (answer + 1) % 10
    return torch.stack(right, 1)[:, position + 1 :].float().mean().item()


@torch.no_grad()
def test_s3_one_wrong_token_spoils_what_follows(attentive: Trained, one_vector: Trained):
    for trained in (attentive, one_vector):
        unharmed = trained.log[-1][1][:, 2:].float().mean().item()
        assert after_an_error(trained.model, trained.test, 1) < unharmed - 0.1


def running_sums(count: int, generator: Generator) -> Iterator[PairBatch]:
    while True:
        source = torch.randint(10, (count, 5), generator=generator)
        yield pair_batch(source.unbind(), (source.cumsum(1) % 10).unbind())


@torch.no_grad()
def test_s3_where_the_answer_rests_on_the_one_before_an_error_stays_for_good():
    torch.manual_seed(0)
    with torch.enable_grad():
        model = train(Seq2Seq(11, 32, 48), running_sums(48, seeded(1)), steps=250)
    batch = next(running_sums(200, seeded(2)))
    assert (write(model, batch) == batch.target).float().mean() > 0.85
    assert after_an_error(model, batch, 1) < 0.3


@torch.no_grad()
def test_s3_noise_on_the_inputs_heals_it():
    torch.manual_seed(0)
    batches = noisy_inputs(reversed_digits(48, generator=seeded(1)), 0.5, generator=seeded(2))
    with torch.enable_grad():
        model = train(Seq2Seq(11, 32, 48), batches, steps=180)
    assert after_an_error(model, next(reversed_digits(200, generator=seeded(8))), 3) > 0.9


@pytest.fixture(scope="module")
def reader() -> Seq2Seq:
    torch.manual_seed(0)
    batches = dates(48, generator=seeded(0), forms=[ENGLISH, CHINESE])
    batches = noisy_inputs(batches, 0.3, generator=seeded(1))
    return train(Seq2Seq(len(DATE_ALPHABET), 32, 48), batches, steps=200)


@torch.no_grad()
def test_s5_two_written_forms_become_one_through_alignments_that_are_no_diagonal(reader: Seq2Seq):
    held_out = next(dates(300, generator=seeded(9), forms=[ENGLISH, CHINESE]))
    assert (write(reader, held_out) == held_out.target).all(1).float().mean() > 0.85
    both = date_batch([DAY, DAY], [ENGLISH, CHINESE])
    _, alignments = greedy_decode(reader, both.source, START, 10, both.source_lengths)
    assert alignments is not None
    center = alignments @ torch.arange(alignments.shape[-1], dtype=alignments.dtype)
    english_year, chinese_year = center[:, :4].mean(1)
    english_month, chinese_month = center[:, 5:7].mean(1)
    assert english_year > english_month + 2
    assert chinese_year < chinese_month


def test_s5_every_form_is_named_after_one_day_and_the_output_has_ten_characters():
    batch = date_batch([DAY] * len(DATE_FORMS), list(DATE_FORMS))
    assert len(DATE_FORMS) == 9
    assert {decode_text(target) for target in batch.target} == {"2024-03-05"}
    assert len(set(batch.source_lengths.tolist())) > 3
    with pytest.raises(ValueError, match="令"):
        encode_text("令和6年3月5日")


def test_s5_american_and_british_figures_can_mean_two_days():
    assert DAY.strftime("%m/%d/%Y") == date(2024, 5, 3).strftime("%d/%m/%Y")
