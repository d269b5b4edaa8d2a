"""What chapter 2.1.1 claims about the three forms: T8. All three read sentences said twice over."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from lib.attention import causal_mask
from lib.training import fit
from lib.transformer import Decoder, Encoder, LearnedPositions, RotaryAttention, mask_tokens, sinusoidal_positions
from tests.claims.prose import stated, stated_text

PAGE = "transformer"
MASK, START = 8, 9
ADAMW = partial(torch.optim.AdamW, foreach=True)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def repeated(count: int, generator: Generator) -> Tensor:
    half = torch.randint(8, (count, 5), generator=generator)
    return torch.cat([half, half], 1)


TEST = repeated(400, Generator().manual_seed(99))


def test_t8_bert_chooses_15_percent_and_splits_them_80_10_10():
    words = torch.randint(1000, (300, 512), generator=Generator().manual_seed(0))
    seen, chosen = mask_tokens(words, mask_token=1000, vocab_size=1000, generator=Generator().manual_seed(1))
    masked, same = (seen == 1000)[chosen].float().mean().item(), (seen == words)[chosen].float().mean().item()
    sentences = ["随机选 (\\d+)% 的 token", "(\\d+)% 换成 `\\[MASK\\]`", "(\\d+)% 换成一个随机的词", "(\\d+)% 原样不动"]
    measured = (chosen.float().mean().item(), masked, 1 - masked - same, same)
    assert [round(100 * x) for x in measured] == [stated(PAGE, sentence) for sentence in sentences]
    assert torch.equal(seen[~chosen], words[~chosen])


def test_t8_what_a_sentence_keeps_and_loses_follows_from_the_shares():
    chosen, masked = stated(PAGE, r"随机选 (\d+)% 的 token"), stated(PAGE, r"其中 (\d+)% 换成")
    assert chosen * masked / 100 == stated(PAGE, r"= (\d+)\\% 变成")
    assert chosen * stated(PAGE, r"(\d+)% 原样不动") / 100 == stated(PAGE, r"= ([\d.]+)\\% 不变但要算")
    assert 100 // chosen == {"六": 6}[stated_text(PAGE, "信号不到(.)分之一")]


class DecoderOnly(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.answer = nn.Embedding(10, 32), nn.Linear(32, 8)
        self.stack = Decoder(32, 4, 2, cross_attention=False, attention=RotaryAttention)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.answer(self.stack(self.embed(tokens)).output)


def test_t8_decoder_only_predicts_what_the_past_tells_and_no_more():
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    generator, model = Generator().manual_seed(1), DecoderOnly()
    batches = ((repeated(64, generator),) for _ in range(160))
    fit(model, batches, loss, steps=160, lr=1e-2, optimizer=ADAMW)
    with torch.no_grad():
        hits = (model(TEST[:, :-1]).argmax(-1) == TEST[:, 1:]).float().mean(0)
    assert hits[:4].max() < 0.25  # one in eight: the first half can't be known
    assert hits[4:].min() > 0.9


class EncoderOnly(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.answer = nn.Embedding(10, 32), nn.Linear(32, 8)
        self.positions, self.stack = LearnedPositions(10, 32, std=0.5), Encoder(32, 4, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.answer(self.stack(self.embed(tokens) + self.positions(10))[0])


def test_t8_encoder_only_fills_a_gap_from_both_sides():
    def batches(generator: Generator):
        while True:
            tokens = repeated(64, generator)
            yield *mask_tokens(tokens, mask_token=MASK, vocab_size=8, generator=generator), tokens

    def loss(model: nn.Module, seen: Tensor, chosen: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(model(seen)[chosen], target[chosen])

    model = EncoderOnly()
    fit(model, batches(Generator().manual_seed(1)), loss, steps=250, lr=1e-2, optimizer=ADAMW)
    for place in range(10):
        hidden = TEST.clone()
        hidden[:, place] = MASK
        with torch.no_grad():
            guess = model(hidden)[:, place].argmax(-1)
        assert (guess == TEST[:, place]).float().mean() > 0.9


class EncoderDecoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.answer = nn.Embedding(10, 32), nn.Linear(32, 8)
        self.encoder, self.decoder = Encoder(32, 4, 1), Decoder(32, 4, 1)

    def forward(self, source: Tensor, target_in: Tensor) -> tuple[Tensor, Tensor]:
        positions = sinusoidal_positions(5, 32)
        memory, _ = self.encoder(self.embed(source) + positions)
        x, _, cross = self.decoder(self.embed(target_in) + positions, memory, need_weights=True)
        return self.answer(x), cross


def translation(tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    source, target = tokens[:, :5], tokens[:, 5:]
    return source, F.pad(target[:, :-1], (1, 0), value=START), target


def test_t8_encoder_decoder_reads_its_memory_through_cross_attention():
    def loss(model: nn.Module, source: Tensor, target_in: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(model(source, target_in)[0].flatten(0, 1), target.flatten())

    generator, model = Generator().manual_seed(1), EncoderDecoder()
    batches = (translation(repeated(64, generator)) for _ in range(100))
    fit(model, batches, loss, steps=100, lr=1e-2, optimizer=ADAMW)
    source, target_in, target = translation(TEST)
    with torch.no_grad():
        logits, cross = model(source, target_in)
        swapped, _ = model(source.roll(1, 0), target_in)
    assert (logits.argmax(-1) == target).float().mean() > 0.9
    assert (swapped[:, 0].argmax(-1) == target.roll(1, 0)[:, 0]).float().mean() > 0.9
    assert cross.mean((0, 1, 2)).argmax(-1).tolist() == [0, 1, 2, 3, 4]


def test_t8_who_sees_whom_in_the_three_forms():
    x, memory = torch.randn(2, 6, 24), torch.randn(2, 9, 24)
    _, both_ways = Encoder(24, 4, 2)(x, need_weights=True)
    assert both_ways is not None
    assert (both_ways > 0).all()
    _, alone, none = Decoder(24, 4, 2, cross_attention=False)(x, need_weights=True)
    assert alone is not None
    assert torch.equal((alone > 0), causal_mask(6).expand_as(alone))
    assert none is None
    _, own, read = Decoder(24, 4, 2)(x, memory, need_weights=True)
    assert own is not None
    assert read is not None
    assert torch.equal((own > 0), causal_mask(6).expand_as(own))
    assert read.shape == (2, 2, 4, 6, 9)
    assert (read > 0).all()


def test_t8_without_the_shift_a_decoder_sees_its_answer():
    model, (source, _, target) = EncoderDecoder(), translation(TEST[:8])
    changed = target.clone()
    changed[:, 2] = (changed[:, 2] + 1) % 8

    def leaks(make_input) -> bool:
        before, after = (model(source, make_input(answer))[0][:, 2] for answer in (target, changed))
        return not torch.allclose(before, after, atol=1e-6)

    assert leaks(lambda answer: answer)
    assert not leaks(lambda answer: F.pad(answer[:, :-1], (1, 0), value=START))
