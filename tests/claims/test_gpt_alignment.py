"""What chapter 2.1.2.3 says is what its cells, its experiments and the kernels say."""

import copy
import itertools
import math
from inspect import signature
from pathlib import Path
from statistics import median
from typing import Any

import jupytext
import pytest
import torch
from torch import Generator, Tensor

from experiments import alignment_methods as methods
from experiments import alignment_task as task
from experiments import sft_knowledge
from experiments.alignment import RATES
from lib.data import poems_by_heart, results
from lib.gpt import (
    CharTokenizer,
    GPTConfig,
    MiniGPT,
    answer_log_prob,
    dpo_loss,
    generate,
    group_advantages,
    next_token_loss,
    pretrain,
    text_windows,
    window_batches,
)
from lib.training import fit
from tests.claims.prose import almost, stated

PAGE = "gpt_alignment"
SOURCE = Path(__file__).parents[2] / "book" / "zh" / f"{PAGE}.md"
STORED = results("alignment")
SFT = results("sft_knowledge")["runs"]
LEARNED = 0.01  # what rounds to no gap
NEAR = 0.02  # where a machine may round otherwise


def finals(method: str, key: str, rate: str = "") -> list[float]:
    return [each[key] for each in STORED["runs"][method][rate or str(STORED["rates"][method])]]


@pytest.fixture(scope="module")
def cells() -> dict[str, Any]:
    """Run the page's own code of the small task, its reward model and its losses."""
    parts = [
        *("import torch", "def true_reward(", "def token_log_probs(", "def measure(", "drawn = torch.multinomial"),
        *("worth = (", "score = score", "def reinforce_loss(", "def ppo_loss(", "def group_advantages("),
        *("def grpo_loss(", "def dpo_loss("),
    ]
    sources = [cell.source for cell in jupytext.read(SOURCE).cells if cell.cell_type == "code"]
    space: dict[str, Any] = {"beta": 0.5, "Table": lambda *_, **__: None, "print": lambda *_: None}
    for part in parts:
        found = next(source for source in sources if part in source)
        exec(found, space)  # the page's own lines
        space["Table"] = lambda *_, **__: None
    return space


@pytest.fixture
def policy() -> Tensor:
    return torch.randn(85, 4, generator=Generator().manual_seed(1))


def test_the_page_and_the_experiment_have_one_task(cells: dict[str, Any], policy: Tensor):
    assert torch.equal(cells["replies"], task.REPLIES)
    assert torch.equal(cells["reward"], task.REWARD)
    torch.testing.assert_close(cells["log_ref"], task.LOG_REF)
    torch.testing.assert_close(
        cells["token_log_probs"](policy, task.REPLIES), task.token_log_probs(policy, task.REPLIES)
    )
    torch.testing.assert_close(cells["best"](task.REWARD, 0.3), task.best(task.REWARD, 0.3))
    mine = task.measured(task.log_probs(policy))
    torch.testing.assert_close(cells["measure"](task.log_probs(policy), task.BETA), torch.tensor(list(mine.values())))


def test_the_page_and_the_experiment_have_the_same_losses(cells: dict[str, Any], policy: Tensor):
    generator = Generator().manual_seed(2)
    replies, rewards = (
        task.REPLIES[torch.randint(256, (64,), generator=generator)],
        torch.randn(64, generator=generator),
    )
    old = task.token_log_probs(policy + 0.3 * torch.randn(85, 4, generator=generator), replies)
    for name, options in {"reinforce": (), "ppo": (old,), "grpo": (old, 0.5)}.items():
        ours = cells[f"{name}_loss"](policy, replies, rewards, *options)
        torch.testing.assert_close(ours, getattr(methods, f"{name}_loss")(policy, replies, rewards, *options))
    grouped = cells["group_advantages"](rewards.view(4, 16)).flatten()
    torch.testing.assert_close(grouped, methods.group_advantages(rewards, 16), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(grouped, group_advantages(rewards.view(4, 16)).flatten(), atol=1e-5, rtol=1e-5)
    win, lose = replies.split(32)
    four = [task.token_log_probs(model, each).sum(-1) for model in (policy, task.REFERENCE) for each in (win, lose)]
    torch.testing.assert_close(cells["dpo_loss"](*four, 0.5), dpo_loss(*four, beta=0.5))
    torch.testing.assert_close(cells["dpo_loss"](*four, 0.5).mean(), methods.dpo_loss(policy, win, lose, 0.5))


def test_the_value_of_grpos_term_is_the_kl_and_its_slope_that_of_the_other_kl():
    reference, logits = task.REFERENCE[0], torch.randn(4, generator=Generator().manual_seed(0)).requires_grad_()
    log_prob = logits.log_softmax(0)
    back = reference - log_prob
    term = (log_prob.exp().detach() * (back.exp() - back - 1)).sum()
    assert term.item() == pytest.approx((log_prob.exp() * -back).sum().item(), abs=1e-6)
    other = (reference.exp() * back).sum()
    slopes = [torch.autograd.grad(each, logits, retain_graph=True)[0] for each in (term, other)]
    torch.testing.assert_close(*slopes)


def test_the_task_is_as_the_page_describes_it():
    reward, probs = task.REWARD, task.LOG_REF.exp()
    assert reward.max() == stated(PAGE, r"最好的回答得 (\d) 分")
    assert reward.min() == stated(PAGE, r"得 1 - 3 = (-\d) 分")
    assert (probs @ reward).item() == almost(PAGE, r"它平均得 ([\d.]+) 分")
    polite = task.counts(task.REPLIES)[:, task.POLITE]
    assert 100 * probs[polite >= 2].sum().item() == almost(PAGE, r"两次或更多客气的回答只占 ([\d.]+)%")
    assert 100 * probs[polite < 2].sum().item() == almost(PAGE, r"客气 0 次和 1 次占了参考模型的 ([\d.]+)%")
    assert len(task.REPLIES) == stated(PAGE, r"一共 (\d+) 个回答，于是")
    assert torch.tensor(1.0).sigmoid().item() == almost(PAGE, r"\\sigma\(1\) = ([\d.]+)")
    assert torch.tensor(3.0).sigmoid().item() == almost(PAGE, r"\\sigma\(3\) = ([\d.]+)")
    partition = (probs * (reward / task.BETA).exp()).sum()
    assert partition.item() == pytest.approx(stated(PAGE, r"\\beta = 0.5 时 Z 约是 (\d+)"), abs=0.5)


def test_the_best_policy_at_the_betas_that_the_page_names():
    def at(beta: float) -> dict[str, float]:
        return task.measured(task.best(task.REWARD, beta))

    full = task.REWARD == 3
    assert at(4)["reward"] == almost(PAGE, r"离参考模型很近，奖励 ([\d.]+)，KL")
    assert at(4)["kl"] == almost(PAGE, r"离参考模型很近，奖励 [\d.]+，KL 只有 ([\d.]+)；")
    assert at(0.4)["reward"] == almost(PAGE, r"\\beta = 0.4 时奖励 ([\d.]+)，")
    share = task.best(task.REWARD, 0.4).exp()[full].sum().item()
    assert 100 * share == almost(PAGE, r"得 3 分的回答占 (\d+)%")
    assert at(0.04)["kl"] == almost(PAGE, r"KL 停在 ([\d.]+)：")
    rare = task.LOG_REF.exp()[full].sum().item()
    assert 100 * rare == almost(PAGE, r"满分的回答在参考模型里占 ([\d.]+)%")
    assert 64 * rare == pytest.approx(1, abs=0.1)  # 「平均约有一个」
    assert rare == almost(PAGE, r"一共只占 ([\d.]+)，")
    assert -math.log(rare) == almost(PAGE, r"-\\ln 0.0171 = ([\d.]+)")


def test_the_reward_model_is_wrong_where_there_were_no_pairs(cells: dict[str, Any]):
    score, polite = cells["score"], task.counts(task.REPLIES)[:, task.POLITE]
    assert score.argmax() == (polite == 4).nonzero().item()
    assert score.max().item() == pytest.approx(stated(PAGE, r"给出 ([\d.]+)，是 256 个回答里的最高分"), abs=0.02)
    centred = task.REWARD - task.LOG_REF.exp() @ task.REWARD
    assert centred[polite == 4].item() == almost(PAGE, r"往下掉，四次是 (−[\d.]+)（")
    own_best = task.measured(task.best(score, task.BETA))["short"]
    assert own_best == pytest.approx(stated(PAGE, r"奖励模型的最优策略，差距就有 ([\d.]+)："), abs=0.01)
    assert own_best == pytest.approx(median(finals("rlhf", "short")), abs=0.02)


def test_the_reward_model_is_exploited():
    betas = STORED["betas"]

    def true(source: str, beta: float) -> list[float]:
        return [found["true"][betas.index(beta)] for found in STORED["exploited"][source]]

    assert median(true("reference", 1.265)) == almost(PAGE, r"它从 ([\d.]+) 升到 1.52")
    assert median(true("reference", 0.3)) == almost(PAGE, r"它从 [\d.]+ 升到 ([\d.]+)；")
    last = true("reference", 0.04)
    assert median(last) == almost(PAGE, r"真奖励却跌到 (−[\d.]+)（")
    assert min(last) == almost(PAGE, r"真奖励却跌到 −[\d.]+（五个种子的中位数，最小 (−[\d.]+)，")
    assert max(last) == almost(PAGE, r"真奖励却跌到 −[\d.]+（五个种子的中位数，最小 −[\d.]+，最大 (−[\d.]+)）")
    medians = {source: [median(true(source, beta)) for beta in betas] for source in ("reference", "evenly")}
    assert max(medians["reference"]) == median(true("reference", 0.3))  # where the page's question has it
    assert max(medians["evenly"]) == almost(PAGE, r"真奖励到 ([\d.]+) 为止，")
    assert median(true("evenly", 0.04)) == almost(PAGE, r"再降到 ([\d.]+)。见过")
    polite = median(found["weights"][task.POLITE] for found in STORED["exploited"]["evenly"])
    assert polite == almost(PAGE, r"给客气的权重变成了 (−[\d.]+)，")
    for found in STORED["exploited"]["evenly"]:
        last_words = task.best(task.counts(task.REPLIES) @ torch.tensor(found["weights"]), 0.04).argmax()
        assert task.REPLIES[last_words].tolist() == [task.ANSWER] * 4


def test_how_often_the_reward_models_best_policy_is_polite(cells: dict[str, Any]):
    worth = cells["worth"]
    assert worth[task.POLITE].item() == almost(PAGE, r"它的 w 是 ([\d.]+)。")

    def often(beta: float) -> float:
        return 4 * (task.REFERENCE[0] + worth / beta).softmax(-1)[task.POLITE].item()

    each = task.best(task.counts(task.REPLIES) @ worth, 0.3).exp() @ task.counts(task.REPLIES)
    assert often(0.3) == pytest.approx(each[task.POLITE].item(), abs=1e-4)  # words are drawn each by itself
    assert often(1) == almost(PAGE, r"平均每个回答只有 ([\d.]+) 次；")
    assert often(0.3) == almost(PAGE, r"平均每个回答有 ([\d.]+) 次；")
    assert often(0.05) > 3.5
    assert math.exp(0.68) == pytest.approx(2, abs=0.05)
    assert math.exp(0.68 / 0.3) == pytest.approx(10, abs=0.5)
    assert math.exp(0.68 / 0.05) == pytest.approx(8e5, rel=0.02)


def test_the_kl_is_an_average_of_what_is_never_negative():
    torch.manual_seed(0)
    for log_prob in torch.randn(5, 256).log_softmax(-1):
        ratio = (task.LOG_REF - log_prob).exp()
        each = ratio - ratio.log() - 1
        assert each.min() >= -1e-5
        kl = task.measured(log_prob)["kl"]
        assert (log_prob.exp() @ each).item() == pytest.approx(kl, abs=1e-4)


def test_a_baseline_takes_noise_away():
    probs, generator = task.LOG_REF.exp(), Generator().manual_seed(0)

    def gradient(advantages: Tensor, replies: Tensor) -> Tensor:
        policy = task.REFERENCE.clone().requires_grad_()
        return torch.autograd.grad(methods.reinforce_loss(policy, replies, advantages), policy)[0].flatten()

    exact = gradient(256 * probs * task.REWARD, task.REPLIES)
    errors: dict[bool, list[Tensor]] = {False: [], True: []}
    for _ in range(400):
        batch = torch.multinomial(probs, 64, replacement=True, generator=generator)
        for with_baseline, found in errors.items():
            rewards = task.REWARD[batch]
            found.append(gradient(rewards - with_baseline * rewards.mean(), task.REPLIES[batch]) - exact)
    one, mean = (
        [((torch.stack(each).mean(0) if together else torch.stack(each)).norm(dim=-1).mean() / exact.norm()).item()
         for each in errors.values()]
        for together in (False, True)
    )  # fmt: skip
    assert one[0] == pytest.approx(stated(PAGE, r"没有基线时是真正的梯度的 ([\d.]+) 倍"), abs=0.02)
    assert one[1] == pytest.approx(stated(PAGE, r"减去平均之后是 ([\d.]+) 倍"), abs=0.02)
    assert mean[0] == pytest.approx(stated(PAGE, r"只差 ([\d.]+) 和"), abs=0.02)
    assert mean[1] == pytest.approx(stated(PAGE, r"只差 [\d.]+ 和 ([\d.]+)。"), abs=0.02)


def test_the_clip_helps_where_the_rate_is_too_large():
    for rate, sentence in {
        "0.03": r"学习率 0.03 时，两者的差距是 {} 和 {}，",
        "0.1": r"学习率 0.1 时是 {} 和 {}；",
        "0.3": r"0.3 时是 {} 和 {}。",
    }.items():
        number, group = r"[\d.]+", r"([\d.]+)"
        assert median(finals("ppo", "short", rate)) == almost(PAGE, sentence.format(group, number))
        assert median(finals("ppo unclipped", "short", rate)) == almost(PAGE, sentence.format(number, group))


def test_how_far_each_method_ends_from_the_best():
    for method in ("reinforce", "ppo", "grpo paid"):
        assert max(finals(method, "short")) < LEARNED
    seen = r"没有基线的 REINFORCE 差 {}，GRPO {}，DPO {}，RLHF {}。"
    for place, method in enumerate(("reinforce plain", "grpo", "dpo", "rlhf")):
        pattern = seen.format(*(r"([\d.]+)" if i == place else r"[\d.]+" for i in range(4)))
        assert median(finals(method, "short")) == pytest.approx(stated(PAGE, pattern), abs=6e-4)
    assert median(finals("grpo", "short")) == almost(PAGE, r"训练出来的 GRPO 只差 ([\d.]+)，")
    assert STORED["rates"]["grpo"] == stated(PAGE, r"挑中的学习率 ([\d.]+) 让它")
    assert median(finals("grpo", "kl")) == almost(PAGE, r"还没有走过头太多，KL ([\d.]+)，")
    assert task.measured(task.best(task.REWARD, task.BETA))["kl"] == almost(PAGE, r"，最优是 ([\d.]+)；学习率")
    assert median(finals("grpo", "kl", "0.01")) == almost(PAGE, r"学习率 0.01 时它走到 ([\d.]+)，")
    assert median(finals("grpo", "short", "0.01")) == almost(PAGE, r"学习率 0.01 时它走到 [\d.]+，差 ([\d.]+)。")
    assert median(finals("dpo", "short")) == almost(PAGE, r"差距从 ([\d.]+) 降到 0.036")
    assert median(finals("dpo tenfold", "short")) == almost(PAGE, r"差距从 [\d.]+ 降到 ([\d.]+)。")
    large = finals("rlhf table", "short")
    assert median(finals("rlhf", "short")) == almost(PAGE, r"差距从 ([\d.]+) 降到 [\d.]+，五个种子")
    assert median(large) == almost(PAGE, r"差距从 [\d.]+ 降到 ([\d.]+)，五个种子")
    assert min(large) == almost(PAGE, r"五个种子是 ([\d.]+) 到 [\d.]+，与 DPO")
    assert max(large) == almost(PAGE, r"五个种子是 [\d.]+ 到 ([\d.]+)，与 DPO")
    assert min(finals("dpo", "short")) == pytest.approx(stated(PAGE, r"与 DPO 的 ([\d.]+) 到 [\d.]+ 大半"), abs=6e-4)
    assert max(finals("dpo", "short")) == pytest.approx(stated(PAGE, r"与 DPO 的 [\d.]+ 到 ([\d.]+) 大半"), abs=6e-4)
    assert median(finals("reinforce", "short")) == almost(PAGE, r"每批只用一次的 REINFORCE，差距同样是 ([\d.]+)。")
    spread = (task.LOG_REF.exp() @ (task.REWARD - task.LOG_REF.exp() @ task.REWARD).square()).sqrt().item()
    assert spread == almost(PAGE, r"参考模型那里约是 ([\d.]+)，")
    assert len(RATES) == 11
    assert all(RATES[0] < rate < RATES[-1] for rate in STORED["rates"].values())  # none at the edge


def test_where_grpo_ends():
    ends = STORED["ends"]
    for method, stored in ends.items():
        assert task.measured(task.log_probs(methods.settled(method))) == pytest.approx(stored, abs=1e-3)
    assert ends["grpo"]["kl"] == almost(PAGE, r"终点的 KL 有 ([\d.]+)，")
    assert ends["grpo"]["short"] == almost(PAGE, r"终点的 KL 有 [\d.]+，差距 ([\d.]+)。")
    assert ends["grpo unscaled"]["short"] == almost(PAGE, r"不除以标准差，终点的差距是 ([\d.]+)；")
    assert ends["grpo paid"]["short"] < 1e-4  # 「终点就是最优策略」
    paid = task.REWARD - task.BETA * (task.best(task.REWARD, task.BETA) - task.LOG_REF)
    torch.testing.assert_close(paid, paid[:1].expand(256))  # no advantage is left at the best policy


def test_dividing_by_the_spread_is_a_smaller_beta():
    """GRPO ends where the undivided one ends with β times the spread of the rewards."""
    end = task.log_probs(methods.settled("grpo"))
    probs = end.exp()
    spread = (probs @ (task.REWARD - probs @ task.REWARD).square()).sqrt()
    assert spread.item() == almost(PAGE, r"终点那里约是 ([\d.]+)）")
    undivided = task.log_probs(methods.settled("grpo unscaled", beta=task.BETA * spread.item()))
    torch.testing.assert_close(undivided, end, atol=2e-2, rtol=1e-3)


def test_the_chosen_fall_as_the_best_policy_wants_it():
    probs, change = task.LOG_REF.exp(), task.best(task.REWARD, task.BETA) - task.LOG_REF
    wins = probs[:, None] * probs * (task.REWARD[:, None] - task.REWARD).sigmoid()
    assert median(finals("dpo", "chosen")) == almost(PAGE, r"选中的平均变化 (−[\d.]+)，")
    assert min(finals("dpo", "chosen")) == almost(PAGE, r"选中的从 (−[\d.]+) 到")
    assert max(finals("dpo", "chosen")) == almost(PAGE, r"选中的从 −[\d.]+ 到 (−[\d.]+)）")
    assert median(finals("dpo", "rejected")) == almost(PAGE, r"，没选的 (−[\d.]+)（")
    assert (2 * wins.sum(1) @ change).item() == almost(PAGE, r"最优策略的变化是 (−[\d.]+) 和")
    assert (2 * wins.sum(0) @ change).item() == almost(PAGE, r"最优策略的变化是 −[\d.]+ 和 (−[\d.]+)。")
    all_drawn = (probs @ change).item()
    assert all_drawn == almost(PAGE, r"\\beta = 0.5 时是 (−[\d.]+)，因为")
    partition = (probs * (task.REWARD / task.BETA).exp()).sum().log().item()
    assert partition == almost(PAGE, r"\\log Z = ([\d.]+)，选中的")
    paid = (2 * wins.sum(1) @ task.REWARD).item()
    assert paid == almost(PAGE, r"选中的回答平均得 ([\d.]+) 分")
    assert paid / task.BETA - partition == almost(PAGE, r"1.32 / 0.5 - 3.23 = (-[\d.]+)：")
    assert task.BETA * partition == almost(PAGE, r"0.5 \\times 3.23 = ([\d.]+) 分")
    for beta in (4, 2):
        rise = 2 * wins.sum(1) @ (task.best(task.REWARD, beta) - task.LOG_REF)
        assert rise.item() == almost(PAGE, r"最优策略的选中的各上升 ([\d.]+)。")


def test_what_a_second_round_of_comparisons_brings():
    scores = task.counts(task.REPLIES)
    found: dict[str, list[float]] = {"before": [], "own": [], "reference": []}
    for seed in range(5):
        generator = Generator().manual_seed(seed)
        pairs = task.compared(3200, generator)
        first = task.best(scores @ methods.fitted_reward(*pairs), 0.1)
        found["before"].append(task.measured(first)["reward"])
        for name, source in {"own": first, "reference": task.LOG_REF}.items():
            more = task.compared(400, generator, source)
            weight = methods.fitted_reward(*(torch.cat(both) for both in zip(pairs, more, strict=True)))
            found[name].append(task.measured(task.best(scores @ weight, 0.1))["reward"])
    assert median(found["before"]) == pytest.approx(stated(PAGE, r"真奖励的中位数从 ([\d.]+) 升到"), abs=NEAR)
    assert median(found["own"]) == pytest.approx(stated(PAGE, r"真奖励的中位数从 [\d.]+ 升到 ([\d.]+)，"), abs=NEAR)
    assert min(found["own"]) == pytest.approx(stated(PAGE, r"最小的也有 ([\d.]+)；"), abs=NEAR)
    assert median(found["reference"]) == pytest.approx(stated(PAGE, r"中位数只到 ([\d.]+)，"), abs=NEAR)
    assert min(found["reference"]) == pytest.approx(stated(PAGE, r"最小的还是 (−[\d.]+)。"), abs=NEAR)


def test_a_dictionary_in_the_prompt_is_followed_by_who_has_read_many():
    runs = results("in_context")["runs"]

    def of(kind: str, times: int) -> list[float]:
        return [found["new"][times] for found in runs[kind]]

    assert {round(right, 2) for right in of("many", 1)} == {stated(PAGE, r"五个种子都是 ([\d.]+)。没出现过的")}
    assert median(of("many", 0)) == almost(PAGE, r"没出现过的只能猜：([\d.]+)，")
    assert min(of("many", 0)) > 1 / 8
    assert median(found["own"][1] for found in runs["one"]) == stated(PAGE, r"答那一本是 ([\d.]+)，")
    assert median(of("one", 1)) == almost(PAGE, r"换成新字典却只有 ([\d.]+)：")
    assert median(of("one layer", 1)) == almost(PAGE, r"也学会了大半：([\d.]+) 和")
    assert median(of("learned positions", 1)) == almost(PAGE, r"也学会了大半：[\d.]+ 和 ([\d.]+)，")
    assert min(of("learned positions", 1)) == almost(PAGE, r"最差的一个种子是 ([\d.]+)。")


def test_sft_what_was_read_can_be_asked_for():
    second = {source: [found["second"] for found in runs] for source, runs in SFT.items()}
    characters = sum(len(verse[12:]) - 2 for verse in sft_knowledge.QUATRAINS.values())
    assert characters == stated(PAGE, r"四首诗的后两句一共 (\d+) 个字")
    whole = [characters * part for part in second["whole"]]
    assert median(whole) == pytest.approx(stated(PAGE, r"写对了 40 个字里的 (\d+) 个"))
    assert min(whole) == pytest.approx(stated(PAGE, r"里的 \d+ 个（五个种子的中位数，最小 (\d+)，"))
    assert max(whole) == pytest.approx(stated(PAGE, r"里的 \d+ 个（五个种子的中位数，最小 \d+，最大 (\d+)）"))
    assert set(second["first halves"] + second["nothing"]) == {stated(PAGE, r"五个种子都是 (\d) 个")}
    assert median(found["before"] for found in SFT["whole"]) == almost(PAGE, r"中位数从 ([\d.]+) 升到 [\d.]+：没有练到")
    assert median(found["after"] for found in SFT["whole"]) == almost(PAGE, r"中位数从 [\d.]+ 升到 ([\d.]+)：没有练到")


def test_sft_the_loss_is_that_of_the_answers_alone_and_padding_does_not_count():
    torch.manual_seed(0)
    model = MiniGPT(GPTConfig(sft_knowledge.CHAT.vocab_size, context_length=32, dim=16, layers=1, heads=2))
    tokens, answer = sft_knowledge.talks()
    loss = sft_knowledge.answer_loss(model, tokens, answer)
    torch.testing.assert_close(loss, -answer_log_prob(model(tokens), tokens, answer).sum() / answer.sum())
    after = answer.flip(1).cumsum(1).flip(1) == 0
    assert after.sum() == 5
    torch.testing.assert_close(sft_knowledge.answer_loss(model, tokens.masked_fill(after, 7), answer), loss)


def test_quantisation_costs_nothing_at_four_bits_and_much_at_two():
    bits = {each: median(found["bits"][each] for found in SFT["whole"]) for each in ("8", "4", "2")}
    plain = almost(PAGE, r"32 位时的中位数是 ([\d.]+)，")
    assert median(found["before"] for found in SFT["whole"]) == plain
    assert bits["8"] == plain
    assert bits["4"] == plain
    two = [found["bits"]["2"] for found in SFT["whole"]]
    assert bits["2"] == almost(PAGE, r"2 位时升到 ([\d.]+)（")
    assert min(two) == almost(PAGE, r"2 位时升到 [\d.]+（最小 ([\d.]+)，")
    assert max(two) == pytest.approx(stated(PAGE, r"2 位时升到 [\d.]+（最小 [\d.]+，最大 ([\d.]+)）"), abs=6e-4)
    assert torch.iinfo(torch.int8).max == stated(PAGE, r"每行权重取最大的绝对值当 (\d+)，")
    assert stated(PAGE, r"8 位的这个矩阵从 (\d+) 字节") == 4 * 256 * 64
    assert stated(PAGE, r"字节变成 (\d+) 字节") == 256 * 64 + 4 * 256


def test_rounding_a_row_is_off_by_half_a_step_at_most():
    torch.manual_seed(0)
    model = MiniGPT(GPTConfig(20, context_length=8, dim=16, layers=1, heads=2))
    for bits in (8, 4, 2):
        rounded = sft_knowledge.quantised(model, bits)
        for before, after in zip(model.parameters(), rounded.parameters(), strict=True):
            step = before.abs().amax(-1, keepdim=True) / (2 ** (bits - 1) - 1) if before.ndim == 2 else 0 * before
            assert ((before - after).abs() <= step * 0.501).all()


def test_the_numbers_that_the_page_names_about_preferences():
    beta = signature(dpo_loss).parameters["beta"].default
    assert beta == stated(PAGE, r"DPO 的 `beta` 默认 ([\d.]+)，与 `lib.gpt.dpo_loss` 相同")
    share = stated(PAGE, r"\\sigma\(\\hat r_1 - \\hat r_2\) = ([\d.]+)，即")
    assert math.log(share / (1 - share)) == pytest.approx(math.log(3))
    ratio = stated(PAGE, r"3\^\{1/\\beta\} = (\d) 倍")
    assert ratio == 3 ** (1 / 0.5)
    assert 0.25 * ratio == stated(PAGE, r"0.25 \\times 9 = ([\d.]+)，")
    assert almost(PAGE, r"也就是 ([\d.]+) 比 0.31") == 2.25 / 3.25


def test_swapped_answers_start_at_the_same_loss_and_push_the_other_way():
    scores = torch.tensor([-3.0, -2.0], requires_grad=True)
    fixed = scores.detach()
    swapped = dpo_loss(scores[1], scores[0], fixed[1], fixed[0])
    assert swapped.item() == pytest.approx(stated(PAGE, r"起点的损失是 \\ln 2 = ([\d.]+)："), abs=5e-4)
    (gradient,) = torch.autograd.grad(swapped, scores)
    assert gradient[0] > 0 > gradient[1]


def test_dpo_turns_the_preference_of_a_language_model_around_and_pays_for_it():
    text = "".join(poem.text for poem in poems_by_heart("zh"))
    tokenizer = CharTokenizer(text)
    circle = torch.tensor(tokenizer.encode(text + text[:24]))
    torch.manual_seed(0)
    learned = MiniGPT(GPTConfig(tokenizer.vocab_size, context_length=24, dim=64, layers=2, heads=4))
    pretrain(learned, window_batches(circle, 24, 25, generator=Generator().manual_seed(0)), steps=100)
    learned.requires_grad_(False)
    prompt, chosen, rejected = "床前明月光，", "低头思故乡。", "疑是地上霜。"
    pair = torch.tensor([tokenizer.encode(prompt + answer) for answer in (chosen, rejected)])
    is_answer = (torch.arange(12) >= 6).expand(2, 12)
    policy = copy.deepcopy(learned).requires_grad_()

    def scores(model: MiniGPT) -> Tensor:
        return answer_log_prob(model(pair), pair, is_answer)

    reference = scores(learned)
    assert dpo_loss(*scores(policy), *reference).item() == pytest.approx(math.log(2), rel=1e-4)
    fit(policy, itertools.repeat(()), lambda m: dpo_loss(*scores(m), *reference, beta=0.3), steps=30, lr=3e-4)
    after = scores(policy).detach()
    assert reference[0] < reference[1]
    assert after[0] > after[1]
    assert after[1] < reference[1] - 3  # the rejected answer keeps falling
    answer = generate(policy, pair[:1, :6], 6, temperature=0)[0, 6:]
    assert tokenizer.decode(answer.tolist()) == chosen
    windows = text_windows(circle, 24)
    assert next_token_loss(policy, *windows) > next_token_loss(learned, *windows)
