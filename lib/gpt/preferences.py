"""Learning from preferences: how probable an answer is, DPO's loss on pairs, GRPO's advantages in a group."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def answer_log_prob(logits: Tensor, tokens: Tensor, answer: Tensor) -> Tensor:
    """Sum the log probabilities of the tokens that belong to the answer, not those of the prompt.

        log π(y | x) = Σ over t in the answer of log π(tokenₜ | tokens before t)

    Args:
        logits: (batch, time, vocab_size) of a language model that read `tokens`; position t − 1 predicts t.
        tokens: (batch, time) integers, prompt and answer one after the other, then padding if any.
        answer: (batch, time) boolean, `True` where a token belongs to the answer.

    Returns:
        (batch,), each at most 0.

    Raises:
        ValueError: shapes don't fit, `answer` is not boolean, or it holds the first token, which nothing predicts.

    Source: Rafailov et al. 2023, §3, with the chain rule.

    >>> tokens, answer = torch.tensor([[0, 1, 1]]), torch.tensor([[False, True, True]])
    >>> answer_log_prob(torch.zeros(1, 3, 4), tokens, answer).exp()  # ¼ · ¼
    tensor([0.0625])
    """
    if logits.shape[:-1] != tokens.shape or answer.shape != tokens.shape:
        shapes = f"{tuple(logits.shape)}, {tuple(tokens.shape)} and {tuple(answer.shape)}"
        raise ValueError(f"logits (batch, time, vocab), tokens and answer (batch, time) must fit, got {shapes}")
    if answer.dtype != torch.bool:
        raise ValueError(f"answer must be boolean, got {answer.dtype}")
    if answer[..., 0].any():
        raise ValueError("answer must not hold the first token: nothing predicts it")
    log_probs = logits[..., :-1, :].log_softmax(-1).gather(-1, tokens[..., 1:, None]).squeeze(-1)
    return log_probs.masked_fill(~answer[..., 1:], 0.0).sum(-1)


def implicit_reward(policy: Tensor, reference: Tensor, *, beta: float) -> Tensor:
    """Return the reward that DPO reads off a model: how far it moved from the reference towards an answer.

        r̂(x, y) = β log (π_θ(y | x) / π_ref(y | x))

    Args:
        policy, reference: (...) log probabilities of an answer under both models.
        beta: β, above 0: how dear it is to move away from the reference.

    Returns:
        (...), 0 where both models agree.

    Raises:
        ValueError: `beta` is not above 0, or shapes differ.

    Source: Rafailov et al. 2023, equation 5, without the term that depends on x alone.

    >>> implicit_reward(torch.tensor([-1.0, -3.0]), torch.tensor([-2.0, -2.0]), beta=0.5)
    tensor([ 0.5000, -0.5000])
    """
    if not beta > 0:
        raise ValueError(f"beta must be above 0, got {beta}")
    if policy.shape != reference.shape:
        shapes = f"{tuple(policy.shape)} and {tuple(reference.shape)}"
        raise ValueError(f"policy and reference must be of one shape, got {shapes}")
    return beta * (policy - reference)


def dpo_loss(
    policy_chosen: Tensor,
    policy_rejected: Tensor,
    reference_chosen: Tensor,
    reference_rejected: Tensor,
    *,
    beta: float = 0.1,
) -> Tensor:
    """Score how surprised a model is by a preference, if its implicit rewards say who wins.

        L = −log σ(β log (π_θ(y_w) / π_ref(y_w)) − β log (π_θ(y_l) / π_ref(y_l)))

    Args:
        policy_chosen: log π_θ(y_w | x), (...), of the answer preferred.
        policy_rejected: log π_θ(y_l | x), (...), of the other.
        reference_chosen, reference_rejected: the same under π_ref, which stays as it is.
        beta: β, above 0.

    Returns:
        The loss of each pair, (...); ln 2 where the model is still the reference.

    Raises:
        ValueError: `beta` is not above 0, or shapes differ.

    Source: Rafailov et al. 2023, equation 7.

    >>> log_prob = torch.tensor([-1.0, -5.0])
    >>> dpo_loss(log_prob, log_prob, log_prob, log_prob)
    tensor([0.6931, 0.6931])
    """
    chosen = implicit_reward(policy_chosen, reference_chosen, beta=beta)
    rejected = implicit_reward(policy_rejected, reference_rejected, beta=beta)
    if chosen.shape != rejected.shape:
        shapes = f"{tuple(chosen.shape)} and {tuple(rejected.shape)}"
        raise ValueError(f"chosen and rejected must be of one shape, got {shapes}")
    return -logsigmoid(chosen - rejected)


def group_advantages(rewards: Tensor) -> Tensor:
    """Compare each answer with the others to the same prompt: GRPO's stand-in for a critic.

        Aᵢ = (rᵢ − mean(r)) / std(r)

    Args:
        rewards: (..., group), of several answers to one prompt.

    Returns:
        (..., group), of mean 0; all 0 where the rewards of a group are equal and teach nothing.

    Raises:
        ValueError: a group holds fewer than two answers.

    Source: Shao et al. 2024 (DeepSeekMath), §4.1.2; the standard deviation is the group's own (divided by n).

    >>> group_advantages(torch.tensor([[1.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0]]))
    tensor([[ 1., -1., -1.,  1.],
            [ 0.,  0.,  0.,  0.]])
    """
    if rewards.ndim < 1 or rewards.shape[-1] < 2:
        raise ValueError(f"rewards must be (..., group) with at least 2 answers, got {tuple(rewards.shape)}")
    equal = (rewards == rewards[..., :1]).all(-1, keepdim=True)
    spread = rewards.std(-1, keepdim=True, correction=0).masked_fill(equal, 1.0)
    return ((rewards - rewards.mean(-1, keepdim=True)) / spread).masked_fill(equal, 0.0)
