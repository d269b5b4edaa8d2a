"""The losses that raise a reward, from REINFORCE to DPO, and training with them, on the small task."""

from collections.abc import Callable, Iterator

import torch
from torch import Generator, Tensor
from torch.nn.functional import logsigmoid

from experiments.alignment_task import (
    BETA,
    LOG_REF,
    REFERENCE,
    REPLIES,
    REWARD,
    counts,
    log_probs,
    table_scores,
    token_log_probs,
)

BATCH, BATCHES, EPOCHS, GROUP = 64, 100, 4, 16


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


def fitted_table(chosen: Tensor, rejected: Tensor, rate: float, generator: Generator) -> Tensor:
    """(256,): the scores of a reward model as large as the policy, trained as DPO is."""
    table = torch.zeros(85, 4, requires_grad=True)
    update = torch.optim.Adam([table], lr=rate)
    for part in parts_of(chosen, generator):
        update.zero_grad()
        loss = -logsigmoid(table_scores(table, chosen[part]) - table_scores(table, rejected[part])).mean()
        loss.backward()
        update.step()
    return table_scores(table.detach(), REPLIES)


def trained(rate: float, updates: Callable[[Tensor], Iterator[Tensor]]) -> Tensor:
    """The policy after `updates`, a generator of losses."""
    policy = REFERENCE.clone().requires_grad_()
    update = torch.optim.Adam([policy], lr=rate)
    for loss in updates(policy):
        update.zero_grad()
        loss.backward()
        update.step()
    return policy.detach()


def on_policy(policy: Tensor, generator: Generator, method: str, reward: Tensor = REWARD) -> Iterator[Tensor]:
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


def settled(method: str, beta: float = BETA, steps: int = 1500) -> Tensor:
    """The policy that a kind of GRPO's update leaves as it is, on average over all replies, which are one group.

    Each batch is fresh, so that all ratios are 1 and nothing is clipped.
    """

    def updates(policy: Tensor) -> Iterator[Tensor]:
        for _ in range(steps):
            scores = token_log_probs(policy, REPLIES)
            log_prob = scores.detach().sum(-1)
            probs = log_prob.exp()
            paid = REWARD - beta * (log_prob - LOG_REF) if method == "grpo paid" else REWARD
            advantages = paid - probs @ paid
            if method == "grpo":
                advantages = advantages / (probs @ advantages.square()).sqrt()
            loss = -(probs * advantages) @ scores.sum(-1)
            if method != "grpo paid":
                back = token_log_probs(REFERENCE, REPLIES) - scores
                loss = loss + beta * probs @ (back.exp() - back - 1).sum(-1)
            yield loss

    return trained(0.02, updates)


def from_pairs(policy: Tensor, chosen: Tensor, rejected: Tensor, generator: Generator) -> Iterator[Tensor]:
    """DPO's losses, a hundredth of the pairs at a time."""
    for part in parts_of(chosen, generator):
        yield dpo_loss(policy, chosen[part], rejected[part], BETA)


def parts_of(pairs: Tensor, generator: Generator) -> Iterator[Tensor]:
    """A hundredth of the indices at a time, all of them four times."""
    for _ in range(EPOCHS):
        yield from torch.randperm(len(pairs), generator=generator).split(len(pairs) // BATCHES)
