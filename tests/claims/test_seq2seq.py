"""What chapter 2.1.4 claims: S1, S4, what S3 rests on, and the numbers of its prose; S2, S3, S5 stand beside it."""

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from lib.data import dates, decode_text, reversed_digits
from lib.seq2seq import IGNORED, START, PairBatch, Seq2Seq, greedy_decode, noisy_inputs, teacher_forcing_loss
from lib.training import fit
from lib.transformer import count_parameters
from tests.claims.prose import almost, stated, stated_text


def seeded(seed: int) -> Generator:
    return Generator().manual_seed(seed)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="module")
def reverser() -> Seq2Seq:
    torch.manual_seed(1)
    model = Seq2Seq(11, 32, 64)
    batches = noisy_inputs(reversed_digits(64, generator=seeded(1)), 0.3, generator=seeded(2))
    fit(model, batches, teacher_forcing_loss, steps=180, lr=1e-2, warmup=20, clip=1.0, schedule="cosine")
    return model


@pytest.fixture(scope="module")
def unseen() -> PairBatch:
    return next(reversed_digits(1000, generator=seeded(7)))


def test_s1_digits_are_reversed_exactly_with_alignments_on_the_anti_diagonal(reverser: Seq2Seq, unseen: PairBatch):
    written, alignments = greedy_decode(reverser, unseen.source, START, 8)
    assert alignments is not None
    assert (written == unseen.target).all(1).float().mean() >= 0.99
    assert alignments.mean(0).argmax(-1).tolist() == [7, 6, 5, 4, 3, 2, 1, 0]
    assert alignments.flip(2).diagonal(dim1=1, dim2=2).mean() > 0.6


def test_s1_changing_one_digit_changes_its_own_output_and_no_other(reverser: Seq2Seq, unseen: PairBatch):
    source = unseen.source[:100]
    written, _ = greedy_decode(reverser, source, START, 8)
    for place in range(8):
        changed = source.clone()
        changed[:, place] = (changed[:, place] + 1) % 10
        moved = (greedy_decode(reverser, changed, START, 8)[0] != written).float().mean(0)
        assert moved[7 - place] > 0.95
        assert moved.sum() - moved[7 - place] < 0.1


def test_s1_one_query_for_all_steps_is_one_vector_again(reverser: Seq2Seq, unseen: PairBatch):
    memory = reverser.encode(unseen.source)
    state, tokens, right = reverser.start(memory), torch.full((1000,), START), torch.ones(1000, dtype=torch.bool)
    context, _ = reverser.attend(state, memory)
    for answer in unseen.target.unbind(1):
        state = reverser.decoder(torch.cat([reverser.embedding(tokens), context], -1), state)
        tokens = reverser.output(torch.cat([state, context], -1)).argmax(-1)
        right &= tokens == answer
    assert right.float().mean() < 0.05


def test_s3_the_step_after_an_error_looks_where_it_would_have_looked():
    model, source = Seq2Seq(11, 6, 9), torch.randint(10, (3, 7))
    right = torch.randint(10, (3, 5))
    wrong = right.clone()
    wrong[:, 2] = (wrong[:, 2] + 1) % 10
    (logits, before), (changed, after) = model(source, right), model(source, wrong)
    assert torch.equal(before[:, :3], after[:, :3])  # the query of a step is the state before its input is read
    assert not torch.allclose(logits[:, 2], changed[:, 2])
    assert not torch.allclose(before[:, 3], after[:, 3])


def padded(batch: int = 5) -> PairBatch:
    return next(reversed_digits(batch, generator=seeded(3), lengths=(2, 7)))


def beyond(batch: PairBatch) -> Tensor:
    return torch.arange(batch.source.shape[1]) >= batch.source_lengths[:, None]


def test_s4_padding_gets_no_weight_and_changes_nothing():
    model, batch = Seq2Seq(11, 6, 9), padded()
    logits, alignments = model(batch.source, batch.target_in, batch.source_lengths)
    assert beyond(batch).any()
    assert (alignments.transpose(1, 2)[beyond(batch)] == 0).all()
    wider = F.pad(batch.source, (0, 4), value=7)
    again, alignments = model(wider, batch.target_in, batch.source_lengths)
    torch.testing.assert_close(again, logits)
    assert (alignments[..., -4:] == 0).all()


def test_s4_a_mask_for_attention_alone_does_not_keep_padding_out():
    model, batch = Seq2Seq(11, 6, 9), padded()
    short = int(batch.source_lengths.argmin())
    length = int(batch.source_lengths[short])
    alone = model.encode(batch.source[short, None, :length]).states
    whole = model.encode(batch.source[short, None]).states[:, :length]  # reads the padding as well
    packed = model.encode(batch.source, batch.source_lengths).states[short, None, :length]
    torch.testing.assert_close(packed, alone)
    torch.testing.assert_close(whole[..., :9], alone[..., :9])  # left to right: not reached yet
    assert not torch.allclose(whole[..., 9:], alone[..., 9:], atol=1e-3)


def test_s4_padding_is_not_counted_in_the_loss():
    model, batch = Seq2Seq(11, 6, 9), padded()
    surprise = -model(batch.source, batch.target_in, batch.source_lengths)[0].log_softmax(-1)
    kept = batch.target != IGNORED
    picked = surprise.gather(-1, batch.target.clamp(min=0)[..., None]).squeeze(-1)[kept]
    torch.testing.assert_close(teacher_forcing_loss(model, *batch), picked.mean())
    assert len(picked) == batch.source_lengths.sum() < batch.target.numel()


def test_the_gru_of_the_chapter_is_pytorchs():
    cell, x, s = nn.GRUCell(5, 7), torch.randn(3, 5), torch.randn(3, 7)
    of_x, of_s = F.linear(x, cell.weight_ih, cell.bias_ih), F.linear(s, cell.weight_hh, cell.bias_hh)
    (xr, xz, xn), (sr, sz, sn) = of_x.chunk(3, -1), of_s.chunk(3, -1)
    r, z = torch.sigmoid(xr + sr), torch.sigmoid(xz + sz)
    torch.testing.assert_close(cell(x, s), (1 - z) * torch.tanh(xn + r * sn) + z * s)


def test_numbers_that_the_prose_states():
    layers, cells = 4, stated("seq2seq", r"每层 (\d+) 个单元")
    assert layers * cells * 2 == stated("seq2seq", r"压进 (\d+) 个实数")  # each cell's state and output
    assert almost("seq2seq", r"0\.98\^\{50\} \\approx ([\d.]+)") == 0.98**50
    assert almost("seq2seq", r"0\.9\^\{1/50\} \\approx ([\d.]+)") == 0.9 ** (1 / 50)
    assert stated("seq2seq", r"目标用 (−\d+) 补齐") == IGNORED
    first, last = (int(stated("seq2seq", pattern)) for pattern in (r"年份从 (\d+) 到", r"年份从 \d+ 到 (\d+)"))
    written = {int(decode_text(target)[:4]) for target in next(dates(4000, generator=seeded(0))).target}
    assert written == set(range(first, last + 1))


def test_attention_adds_the_parameters_that_the_prose_counts():
    h = 64
    sizes = {kind: count_parameters(Seq2Seq(11, 32, h, kind)) for kind in (True, False)}
    assert sizes[True] - sizes[False] == h**2 + 2 * h**2 + h
    assert stated_text("seq2seq", r"参数(差一成多)。")
    assert 0.1 < 1 - sizes[False] / sizes[True] < 0.15
    assert stated_text("seq2seq", r"加性打分有 (H\^2 \+ 2H\^2 \+ H) 个参数")
