"""A task so small that every policy can be measured exactly: replies of four words out of four, and a reward.

A policy is a row of logits for each of the 85 beginnings of a reply. The best one for E[r] − β KL(π ‖ π_ref) is
π_ref · exp(r/β) / Z, and what a policy falls short of it is β KL(π ‖ π*).
"""

import torch
from torch import Generator, Tensor

BETA = 0.5

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


def beginnings(replies: Tensor) -> Tensor:
    """(count, 4): which of the 85 beginnings stands before each word."""
    place = 4 ** torch.arange(3, -1, -1)
    before = (replies * place).cumsum(-1) - replies * place  # words so far, as a number to the base of 4
    return before // (4 * place) + torch.tensor([0, 1, 5, 21])


def token_log_probs(policy: Tensor, replies: Tensor) -> Tensor:
    """(count, 4): log π(word | the words before it), from the logits (85, 4) of each beginning."""
    return policy[beginnings(replies)].log_softmax(-1).gather(-1, replies[..., None]).squeeze(-1)


def table_scores(table: Tensor, replies: Tensor) -> Tensor:
    """(count,): the sum of each word's entry, in the row of its beginning, of a table (85, 4); any reward is one."""
    return table[beginnings(replies), replies].sum(-1)


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
