"""Do five ways to raise a reward under a KL penalty find the best policy, on a task where that is known exactly?

A reply is four words out of four, so there are 256; a policy has a row of logits for each of the 85 beginnings. The
best policy for E[r] − β KL(π ‖ π_ref) is π_ref · exp(r/β) / Z, and what a policy falls short of it is β KL(π ‖ π*).

Each way gets 6400 replies. REINFORCE, PPO and GRPO draw them from the policy, 64 a batch, and are told the true
reward; DPO and the reward model get 3200 pairs of the reference's, each with a noisy comparison; RLHF runs PPO, at its
rate, with that reward model, which counts words. PPO and GRPO use each batch four times, DPO each pair.

Controls: REINFORCE without baseline; PPO without its clip; GRPO without the division by the spread, and that with the
penalty in the reward in place of the loss; DPO with ten times the pairs, at its rate and in as many steps. Each rate is
one of six, the best on seeds 10–14 by the median of what is fallen short. Reported are seeds 0–4.

Over-optimisation: the best policy for the reward model, exact for each β, measured by the true reward. Control: the
pairs are drawn evenly from all 256 replies.
"""

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn.functional import logsigmoid

from experiments.store import save, spread, start

SEEDS, TUNING = range(5), range(10, 15)
RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
BETA, BATCH, BATCHES, EPOCHS, GROUP = 0.5, 64, 100, 4, 16
BETAS = tuple(round(4 * 10 ** (-step / 8), 3) for step in range(17))  # 4 … 0.04

WORDS = ("答案", "理由", "客气", "废话")
ANSWER, REASON, POLITE, IDLE = range(4)
REPLIES = torch.cartesian_prod(*[torch.arange(4)] * 4)  # (256, 4)
REFERENCE = torch.tensor([0.3, 0.2, 0.05, 0.45]).log().expand(85, 4)  # the same after each beginning


def true_reward(replies: Tensor) -> Tensor:
    """An answer is worth 1, a reason right after one another 1; one polite word is worth 1, each further costs 1."""
    answered = (replies == ANSWER).any(-1)
    reasoned = ((replies[:, :-1] == ANSWER) & (replies[:, 1:] == REASON)).any(-1)
    polite = (replies == POLITE).sum(-1)
    return 1.0 * answered + reasoned + polite.clamp(max=1) - (polite - 1).clamp(min=0)


def token_log_probs(policy: Tensor, replies: Tensor) -> Tensor:
    """(count, 4): log π(word | the words before it), from the logits (85, 4) of each beginning."""
    place = 4 ** torch.arange(3, -1, -1)
    before = (replies * place).cumsum(-1) - replies * place  # words so far, as a number to the base of 4
    row = before // (4 * place) + torch.tensor([0, 1, 5, 21])
    return policy[row].log_softmax(-1).gather(-1, replies[..., None]).squeeze(-1)


def log_probs(policy: Tensor) -> Tensor:
    """(256,): of all replies."""
    return token_log_probs(policy, REPLIES).sum(-1)


REWARD, LOG_REF = true_reward(REPLIES), log_probs(REFERENCE)


def best(reward: Tensor, beta: float) -> Tensor:
    """(256,): the log probabilities of π_ref exp(r/β) / Z."""
    return (LOG_REF + reward / beta).log_softmax(0)


def measured(log_prob: Tensor, beta: float = BETA) -> dict[str, float]:
    """Expected true reward, KL from the reference, and what E[r] − β KL falls short of the largest."""
    probs = log_prob.exp()
    reward, kl = (probs * REWARD).sum(), (probs * (log_prob - LOG_REF)).sum()
    short = beta * (probs * (log_prob - best(REWARD, beta))).sum()
    return {"reward": reward.item(), "kl": kl.item(), "short": short.item()}


def draw(log_prob: Tensor, count: int, generator: Generator) -> Tensor:
    return REPLIES[torch.multinomial(log_prob.exp(), count, replacement=True, generator=generator)]


def compared(count: int, generator: Generator, log_prob: Tensor = LOG_REF) -> tuple[Tensor, Tensor]:
    """(count, 4) each: chosen and rejected replies, as Bradley and Terry's judge takes them."""
    first, second = draw(log_prob, 2 * count, generator).split(count)
    likes_first = torch.rand(count, generator=generator) < (true_reward(first) - true_reward(second)).sigmoid()
    swap = likes_first[:, None]
    return torch.where(swap, first, second), torch.where(swap, second, first)


def counts(replies: Tensor) -> Tensor:
    """(count, 4): how often each word occurs."""
    return torch.eye(4)[replies].sum(-2)


def reinforce_loss(policy: Tensor, replies: Tensor, advantages: Tensor) -> Tensor:
    return -(advantages * token_log_probs(policy, replies).sum(-1)).mean()


def ppo_loss(policy: Tensor, replies: Tensor, advantages: Tensor, old: Tensor, epsilon: float = 0.2) -> Tensor:
    ratio = (token_log_probs(policy, replies) - old).exp()  # (count, 4)
    clipped = ratio.clamp(1 - epsilon, 1 + epsilon)
    return -torch.minimum(ratio * advantages[:, None], clipped * advantages[:, None]).sum(-1).mean()


def grpo_loss(policy: Tensor, replies: Tensor, advantages: Tensor, old: Tensor, beta: float) -> Tensor:
    back = token_log_probs(REFERENCE, replies) - token_log_probs(policy, replies)
    kl = back.exp() - back - 1  # at least 0, and the KL on average over the policy's words
    return ppo_loss(policy, replies, advantages, old) + beta * kl.sum(-1).mean()


def group_advantages(rewards: Tensor, group: int = GROUP, *, scaled: bool = True) -> Tensor:
    grouped = rewards.view(-1, group)
    centred = grouped - grouped.mean(-1, keepdim=True)
    return (centred / (centred.square().mean(-1, keepdim=True).sqrt() + 1e-6) if scaled else centred).flatten()


def dpo_loss(policy: Tensor, chosen: Tensor, rejected: Tensor, beta: float) -> Tensor:
    def moved(replies: Tensor) -> Tensor:
        return (token_log_probs(policy, replies) - token_log_probs(REFERENCE, replies)).sum(-1)

    return -logsigmoid(beta * (moved(chosen) - moved(rejected))).mean()


def fitted_reward(chosen: Tensor, rejected: Tensor) -> Tensor:
    """(4,): what each word is worth to the reward model that makes the comparisons most probable; the last is 0."""
    difference = (counts(chosen) - counts(rejected))[:, :3]  # the four counts add up to 4: one says nothing new
    weight = torch.zeros(3, requires_grad=True)
    update = torch.optim.LBFGS([weight], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        update.zero_grad()
        value = -logsigmoid(difference @ weight).mean()
        value.backward()
        return value

    update.step(loss)  # pyright: ignore[reportArgumentType]
    return torch.cat([weight.detach(), torch.zeros(1)])


def trained(rate: float, updates: Callable[[Tensor], Any]) -> Tensor:
    """The policy after `updates`, a generator of losses."""
    policy = REFERENCE.clone().requires_grad_()
    update = torch.optim.Adam([policy], lr=rate)
    for loss in updates(policy):
        update.zero_grad()
        loss.backward()
        update.step()
    return policy.detach()


def on_policy(policy: Tensor, generator: Generator, method: str, reward: Tensor = REWARD) -> Any:
    """The losses of a method that draws its replies itself."""
    for _ in range(BATCHES):
        log_prob = log_probs(policy.detach())
        index = torch.multinomial(log_prob.exp(), BATCH, replacement=True, generator=generator)
        replies = REPLIES[index]
        old = token_log_probs(policy.detach(), replies)
        paid = reward[index] - BETA * (log_prob - LOG_REF)[index]  # the penalty is part of the reward
        if method == "reinforce plain":
            yield reinforce_loss(policy, replies, paid)
        elif method == "reinforce":
            yield reinforce_loss(policy, replies, paid - paid.mean())
        elif method == "grpo paid":
            for _ in range(EPOCHS):
                yield ppo_loss(policy, replies, group_advantages(paid, scaled=False), old)
        elif method.startswith("grpo"):
            advantages = group_advantages(reward[index], scaled=method == "grpo")
            for _ in range(EPOCHS):
                yield grpo_loss(policy, replies, advantages, old, BETA)
        else:
            epsilon = 1e9 if method == "ppo unclipped" else 0.2
            for _ in range(EPOCHS):
                yield ppo_loss(policy, replies, paid - paid.mean(), old, epsilon)


def from_pairs(policy: Tensor, chosen: Tensor, rejected: Tensor, generator: Generator) -> Any:
    """DPO's losses, a hundredth of the pairs at a time."""
    for _ in range(EPOCHS):
        for part in torch.randperm(len(chosen), generator=generator).split(len(chosen) // BATCHES):
            yield dpo_loss(policy, chosen[part], rejected[part], BETA)


METHODS = ("reinforce plain", "reinforce", "ppo", "ppo unclipped", "grpo", "grpo unscaled", "grpo paid", "dpo")
BORROWED = {"dpo tenfold": "dpo", "rlhf": "ppo"}  # whose rate they take


def run(seed: int, method: str, rate: float) -> dict[str, float]:
    """What the policy is worth after training; for DPO also how far its pairs' log probabilities moved."""
    generator = Generator().manual_seed(seed)
    if method not in ("dpo", "dpo tenfold", "rlhf"):
        return measured(log_probs(trained(rate, partial(on_policy, generator=generator, method=method))))
    pairs = compared(BATCH * BATCHES // 2 * (10 if method == "dpo tenfold" else 1), generator)
    if method == "rlhf":
        model = counts(REPLIES) @ fitted_reward(*pairs)
        return measured(log_probs(trained(rate, partial(on_policy, generator=generator, method="ppo", reward=model))))
    policy = trained(rate, lambda policy: from_pairs(policy, *pairs, generator))
    moved = [(token_log_probs(policy, each) - token_log_probs(REFERENCE, each)).sum(-1).mean().item() for each in pairs]
    return measured(log_probs(policy)) | {"chosen": moved[0], "rejected": moved[1]}


def over_optimised(seed: int, source: str) -> dict[str, Any]:
    """What each word is worth to the reward model; and of the best policy for it what it is worth, for each β."""
    evenly = torch.full((256,), 1 / 256).log()
    pairs = compared(3200, Generator().manual_seed(seed), LOG_REF if source == "reference" else evenly)
    weight = fitted_reward(*pairs)
    model = counts(REPLIES) @ weight
    model = model - (LOG_REF.exp() * model).sum()
    policies = [best(model, beta) for beta in BETAS]
    found = [measured(log_prob, beta) for log_prob, beta in zip(policies, BETAS, strict=True)]
    return {
        "weights": weight,
        "true": [each["reward"] for each in found],
        "kl": [each["kl"] for each in found],
        "model": [(log_prob.exp() * model).sum().item() for log_prob in policies],
    }


def main() -> None:
    start()
    runs: dict[str, Any] = {}
    rates: dict[str, float] = {}
    for method in METHODS:
        tuning = {rate: median(run(seed, method, rate)["short"] for seed in TUNING) for rate in RATES}
        rates[method] = min(tuning, key=lambda rate: tuning[rate])
        runs[method] = {str(rate): [run(seed, method, rate) for seed in SEEDS] for rate in RATES}
    for method, lender in BORROWED.items():
        rates[method] = rates[lender]
        runs[method] = {str(rates[method]): [run(seed, method, rates[method]) for seed in SEEDS]}
    for method, rate in rates.items():
        found = runs[method][str(rate)]
        print(method, rate, *[f"{key} {spread([each[key] for each in found])}" for key in found[0]], flush=True)
    exploited = {source: [over_optimised(seed, source) for seed in SEEDS] for source in ("reference", "evenly")}
    save(
        "alignment",
        {"seeds": SEEDS, "beta": BETA, "rates": rates, "runs": runs, "betas": BETAS, "exploited": exploited},
    )


if __name__ == "__main__":
    main()
