"""What chapter 2.1.2 claims about trained models: G5 verse, G7 scaling laws, and preferences."""

import copy
import itertools
import math
from collections.abc import Iterator
from inspect import signature
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from torch.nn import functional as F
from torch.optim import AdamW
from torch.utils.flop_counter import FlopCounterMode

from lib.data import poems, poems_by_heart
from lib.gpt import (
    CharTokenizer,
    GPTConfig,
    MiniGPT,
    answer_log_prob,
    chinchilla_loss,
    compute_optimal,
    dpo_loss,
    fit_power_law,
    generate,
    next_token_loss,
    pretrain,
    text_windows,
    training_flops,
    window_batches,
)
from lib.training import fit
from lib.transformer import count_parameters
from tests.claims.prose import almost, stated, stated_text

PAGE = "gpt"

TEXT = "".join(poem.text for poem in poems_by_heart("zh"))
TOKENIZER = CharTokenizer(TEXT)
IDS = torch.tensor(TOKENIZER.encode(TEXT))
VERSES = IDS.view(4, 24)
STEPS = int(stated(PAGE, r"`steps=(\d+)` 就是"))
CIRCLE = torch.cat([IDS, IDS[:24]])


@pytest.fixture(scope="module")
def learned() -> MiniGPT:
    torch.manual_seed(0)
    model = MiniGPT(GPTConfig(TOKENIZER.vocab_size, context_length=24, dim=64, layers=2, heads=4))
    generator = Generator().manual_seed(0)
    pretrain(model, window_batches(CIRCLE, 24, 25, generator=generator, oversample=[0, 24, 48, 72]), steps=STEPS)
    return model.requires_grad_(False)


@pytest.fixture(scope="module")
def poet() -> tuple[MiniGPT, CharTokenizer]:
    """A model that has begun to learn the verses of five characters, from windows that begin where couplets do."""
    text = "".join(poem.text for poem in poems("zh") if all(len(line) == 12 for line in poem.lines))
    tokenizer = CharTokenizer(text)
    inputs, targets = (part[::12] for part in text_windows(torch.tensor(tokenizer.encode(text + text[:24])), 24))

    def couplets() -> Iterator[tuple[Tensor, Tensor]]:
        generator = Generator().manual_seed(0)
        while True:
            chosen = torch.randperm(len(inputs), generator=generator)[:34]
            yield inputs[chosen], targets[chosen]

    torch.manual_seed(0)
    model = MiniGPT(GPTConfig(tokenizer.vocab_size, context_length=24, dim=64, layers=2, heads=4))
    pretrain(model, couplets(), steps=60)
    return model.requires_grad_(False), tokenizer


def test_g5_the_quatrains_are_known_by_heart_from_their_first_character(learned: MiniGPT):
    assert next_token_loss(learned, *text_windows(CIRCLE, 24)) < stated(PAGE, r"损失降到了 ([\d.]+) 以下")
    assert torch.equal(generate(learned, VERSES[:, :1], 23, temperature=0), VERSES)


def test_g5_the_model_is_sure_of_all_but_the_second_character_of_spring(learned: MiniGPT):
    assert stated_text(PAGE, r"每一步的把握都在(..)以上，只有一处例外") == "九成"
    chances = learned(VERSES[:, :-1]).softmax(-1).gather(-1, VERSES[:, 1:, None]).squeeze(-1)
    unsure = (chances <= 0.9).nonzero().tolist()
    assert unsure == [[1, 0]]  # after the first character of the second verse


def test_g5_the_sizes_that_the_chapter_names(learned: MiniGPT):
    assert len(TEXT) == stated(PAGE, r"四首绝句接在一起是 (\d+) 个字")
    length = int(stated(PAGE, r"训练数据是所有长 (\d+) 的窗口"))
    inputs, _ = text_windows(CIRCLE, length)
    assert inputs.shape == (stated(PAGE, r"首尾相接，一共 (\d+) 个。窗口"), learned.config.context_length)
    assert float(f"{count_parameters(learned):.0e}") == {"十万": 1e5}[stated_text(PAGE, r"96 个字、(..)个参数")]


def test_g5_the_recipe_is_the_one_that_the_chapter_names(monkeypatch: pytest.MonkeyPatch):
    seen: dict[str, Any] = {}
    monkeypatch.setitem(pretrain.__globals__, "fit", lambda *args, **options: seen.update(options) or [])
    pretrain(MiniGPT(GPTConfig(9, context_length=4, dim=8, layers=1, heads=2)), [], steps=100)
    assert seen["clip"] == stated(PAGE, r"梯度的范数限在 ([\d.]+) 以内")
    assert seen["schedule"] == "cosine"
    assert seen["warmup"] > 0
    assert seen["optimizer"].keywords["betas"][1] == stated(PAGE, r"AdamW 用 \\beta_2 = ([\d.]+)，GPT-3")
    assert signature(AdamW).parameters["betas"].default[1] == stated(PAGE, r"PyTorch 的默认是 (0.\d+)。")


def test_g5_where_two_continuations_are_right_the_model_gives_both_their_share(learned: MiniGPT):
    spring = learned(VERSES[1:2, :1])[0, -1].softmax(-1)
    shares = spring[TOKENIZER.encode("眠来")]  # seen twice and once an epoch
    expected = [stated(PAGE, r"模型给的概率也接近 (\d/\d) 和"), stated(PAGE, r"模型给的概率也接近 \d/\d 和 (\d/\d)。")]
    torch.testing.assert_close(shares, torch.tensor(expected), atol=0.12, rtol=0)


def repeated_share(row: Tensor, n: int = 4) -> float:
    pieces = row.unfold(0, n, 1)
    return 1 - len(pieces.unique(dim=0)) / len(pieces)


def test_the_measure_of_repetition_counts_pieces_that_came_before():
    assert repeated_share(torch.arange(20)) == 0
    assert repeated_share(torch.zeros(20)) == 1 - 1 / 17
    assert repeated_share(torch.tensor([1, 2, 3, 4, 1, 2, 3, 4])) == pytest.approx(1 / 5)


def test_g5_greedy_repeats_itself_on_a_broader_corpus_and_sampling_does_not(poet: tuple[MiniGPT, CharTokenizer]):
    model, tokenizer = poet
    start = torch.tensor([tokenizer.encode(first) for first in "春白红床月山江夜"])

    def share(**options: Any) -> float:
        rows = generate(model, start, 119, generator=Generator().manual_seed(1), **options)
        return sum(map(repeated_share, rows)) / len(rows)

    assert share(temperature=0) > 0.35
    assert max(share(), share(temperature=0.5), share(top_p=0.9)) < 0.05


def test_g5_the_broader_corpus_is_as_large_as_the_chapter_says():
    corpus = [poem for poem in poems("zh") if all(len(line) == 12 for line in poem.lines)]
    assert all(len(poem.text) % 12 == 0 for poem in corpus)
    assert len(corpus) >= 60


def test_g7_losses_of_small_models_lie_on_a_power_law():
    generator = Generator().manual_seed(0)
    questions = torch.cartesian_prod(torch.arange(64), torch.arange(64))
    truth = torch.randint(64, (64**2,), generator=generator)
    frequency = 1 / (torch.randperm(64**2, generator=generator) + 1.0)  # Zipf
    frequency /= frequency.sum()

    def quizzes() -> Iterator[tuple[Tensor, Tensor]]:
        generator = Generator().manual_seed(1)
        while True:
            asked = torch.multinomial(frequency, 256, True, generator=generator)
            yield questions[asked], truth[asked]

    sizes, losses = [], []
    for width in (4, 8, 16, 32):
        torch.manual_seed(0)
        model = MiniGPT(GPTConfig(64, context_length=2, dim=width, layers=1, heads=2))
        fit(model, quizzes(), lambda m, x, y: F.cross_entropy(m(x)[:, -1], y), steps=120, lr=1.5e-2, schedule="cosine")
        with torch.no_grad():
            each = F.cross_entropy(model(questions)[:, -1], truth, reduction="none")
        sizes.append(count_parameters(model.blocks))
        losses.append((frequency * each).sum().item())
    law = fit_power_law(torch.tensor(sizes), torch.tensor(losses))
    assert sizes[-1] > 30 * sizes[0]  # one and a half decades
    assert (torch.tensor(losses) / law(torch.tensor(sizes)) - 1).abs().max() < 0.1
    assert 0.05 < law.exponent < 0.3


def test_g7_six_n_d_is_what_training_costs():
    model = MiniGPT(GPTConfig(128, context_length=64, dim=128, layers=4, heads=4))
    tokens = torch.zeros(8, 64, dtype=torch.long)
    with FlopCounterMode(display=False) as work:
        next_token_loss(model, tokens, tokens).backward()
    used = count_parameters(model.blocks) + 128 * 128  # the embedding is multiplied once, as the head
    assert work.get_total_flops() == pytest.approx(training_flops(used, 8 * 64), rel=0.1)


def test_g7_the_numbers_that_the_chapter_names():
    assert 2 ** -stated(PAGE, r"\\alpha_N \\approx ([\d.]+)：") == almost(PAGE, r"2\^\{-0.076\} \\approx ([\d.]+)")
    assert training_flops(1, 1) == stated(PAGE, r"反向加倍，一共大约 (\d+) 次浮点运算")
    ratio = signature(compute_optimal).parameters["tokens_per_parameter"].default
    assert ratio == stated(PAGE, r"大约每个参数 (\d+) 个 token")
    chinchilla = (1e9 * stated(PAGE, r"训练了 (\d+)B 的 Chinchilla"), 1e12 * stated(PAGE, r"读 ([\d.]+) 万亿 token"))
    assert compute_optimal(training_flops(*chinchilla)) == pytest.approx(chinchilla)
    gopher = 1e9 * stated(PAGE, r"Gopher（(\d+)B）")
    assert gopher / chinchilla[0] == stated(PAGE, r"参数是它 (\d) 倍、读得却少的 Gopher")
    assert stated(PAGE, r"一共 128\^2 = (\d+) 条知识") == 128**2


def test_g7_the_formula_of_the_chapter_is_that_of_the_kernel():
    frac = r"L\(N, D\) = {}\s*\+ \\frac\{{{}\}}\{{N\^\{{{}\}}\}} \+ \\frac\{{{}\}}\{{D\^\{{{}\}}\}}"
    number, group = r"[\d.]+", r"([\d.]+)"
    e, a, alpha, b, beta = (
        stated(PAGE, frac.format(*(group if i == place else number for i in range(5)))) for place in range(5)
    )
    n, d = torch.tensor([1e7, 7e10, 3e8]), torch.tensor([4e9, 1.4e12, 2e8])
    torch.testing.assert_close(chinchilla_loss(n, d), e + a / n**alpha + b / d**beta)


def test_g7_twice_or_half_the_best_size_costs_less_than_the_chapter_says():
    percent = stated(PAGE, r"模型大一倍或小一半，损失差不到 (\d+)%")
    grid = torch.logspace(6, 13, 20_001, dtype=torch.float64)
    for flops in (1e20, 1e23, 1e25):  # the chapter's; at 1e19 it is 1.01 %
        best = grid[chinchilla_loss(grid, flops / 6 / grid).argmin()]
        losses = torch.stack([chinchilla_loss(n, flops / 6 / n) for n in (best, best / 2, 2 * best)])
        assert (losses[1:] / losses[0] - 1).max() < percent / 100


def test_the_numbers_that_the_chapter_names_about_preferences():
    assert signature(dpo_loss).parameters["beta"].default == stated(
        PAGE, r"DPO 的 `beta` 默认 ([\d.]+)，与 `dpo_loss` 相同"
    )
    share = stated(PAGE, r"\\sigma\(r_1 - r_2\) = ([\d.]+)，即 \\ln 3")
    assert math.log(share / (1 - share)) == pytest.approx(math.log(stated(PAGE, r"，即 \\ln (\d)，于是概率之比")))
    assert torch.iinfo(torch.int8).max == stated(PAGE, r"每行取最大的绝对值当 (\d+)，")


def test_dpo_turns_the_preference_around_and_pays_for_it(learned: MiniGPT):
    prompt, chosen, rejected = "床前明月光，", "低头思故乡。", "疑是地上霜。"
    pair = torch.tensor([TOKENIZER.encode(prompt + answer) for answer in (chosen, rejected)])
    is_answer = (torch.arange(12) >= 6).expand(2, 12)
    policy = copy.deepcopy(learned).requires_grad_()

    def scores(model: MiniGPT) -> Tensor:
        return answer_log_prob(model(pair), pair, is_answer)

    reference = scores(learned)
    assert dpo_loss(*scores(policy), *reference).item() == pytest.approx(math.log(2), rel=1e-4)
    steps = int(stated(PAGE, r"就用这一对偏好训练 (\d+) 步"))
    fit(policy, itertools.repeat(()), lambda m: dpo_loss(*scores(m), *reference, beta=0.3), steps=steps, lr=3e-4)
    after = scores(policy).detach()
    assert reference[0] < reference[1]
    assert after[0] > after[1]
    assert after[1] < reference[1] - 3  # the rejected answer keeps falling
    answer = generate(policy, pair[:1, :6], 6, temperature=0)[0, 6:]
    assert TOKENIZER.decode(answer.tolist()) == chosen
    windows = text_windows(CIRCLE, 24)
    assert next_token_loss(policy, *windows) > next_token_loss(learned, *windows)
