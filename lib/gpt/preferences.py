"""Learning from preferences: how probable an answer is, DPO's loss on pairs, GRPO's advantages in a group."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from lib.checks import check_above, values_known


def answer_log_prob(logits: Tensor, tokens: Tensor, answer: Tensor) -> Tensor:
    """Sum the log probabilities of the tokens that belong to the answer, not those of the prompt.

        log π(y | x) = Σ over t in the answer of log π(tokenₜ | tokens before t)

    Args:
        logits: (batch, time, vocab_size) of a language model that read `tokens`; position t − 1 predicts t.
        tokens: (batch, time) integers, prompt and answer one after the other, then any padding.
        answer: (batch, time) boolean, `True` where a token belongs to the answer.

    Returns:
        (batch,), each at most 0, in float32 at least.

    Raises:
        ValueError: shapes don't fit, tokens are not integers, one of the answer is not in the vocabulary, `answer`
            is not boolean, or it holds the first token, which nothing predicts.

    Source: Rafailov et al. 2023, §3, with the chain rule.

    >>> tokens, answer = torch.tensor([[0, 1, 1]]), torch.tensor([[False, True, True]])
    >>> answer_log_prob(torch.zeros(1, 3, 4), tokens, answer).exp()  # ¼ · ¼
    tensor([0.0625])
    """
    if logits.ndim < 2 or logits.shape[:-1] != tokens.shape or answer.shape != tokens.shape or not tokens.shape[-1]:
        shapes = f"{tuple(logits.shape)}, {tuple(tokens.shape)} and {tuple(answer.shape)}"
        raise ValueError(f"logits (batch, time, vocab), tokens and answer (batch, time) must fit, got {shapes}")
    if answer.dtype != torch.bool:
        raise ValueError(f"answer must be boolean, got {answer.dtype}")
    if tokens.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"tokens must be integers, got {tokens.dtype}")
    if values_known() and answer[..., 0].any():
        raise ValueError("answer must not hold the first token: nothing predicts it")
    counted = answer[..., 1:]
    targets = tokens[..., 1:].long().masked_fill(~counted, 0)  # padding may be any number
    if values_known() and ((targets < 0) | (targets >= logits.shape[-1])).any():
        raise ValueError(f"tokens of the answer must lie in 0 … {logits.shape[-1] - 1}, got {tokens.tolist()}")
    log_probs = _wide(logits[..., :-1, :]).log_softmax(-1).gather(-1, targets[..., None]).squeeze(-1)
    return log_probs.masked_fill(~counted, 0.0).sum(-1)


def implicit_reward(policy: Tensor, reference: Tensor, *, beta: float) -> Tensor:
    """Return the reward that DPO reads off a model: how far it moved from the reference towards an answer.

        r̂(x, y) = β log (π_θ(y | x) / π_ref(y | x))

    Args:
        policy, reference: (...) log probabilities of an answer under both models.
        beta: β, above 0: how dear it is to move away from the reference.

    Returns:
        (...), in float32 at least.

    Raises:
        ValueError: `beta` is not above 0, or shapes differ.

    Source: Rafailov et al. 2023, equation 5, without the term that depends on x alone.

    >>> implicit_reward(torch.tensor([-1.0, -3.0]), torch.tensor([-2.0, -2.0]), beta=0.5)
    tensor([ 0.5000, -0.5000])
    """
    check_above(0, beta=beta)
    if policy.shape != reference.shape:
        shapes = f"{tuple(policy.shape)} and {tuple(reference.shape)}"
        raise ValueError(f"policy and reference must be of one shape, got {shapes}")
    return beta * (_wide(policy) - _wide(reference))


def dpo_loss(
    policy_chosen: Tensor,
    policy_rejected: Tensor,
    reference_chosen: Tensor,
    reference_rejected: Tensor,
    *,
    beta: float = 0.1,
) -> Tensor:
    """Return the negative log likelihood of preferences, if the implicit rewards say which answer wins.

        L = −log σ(β log (π_θ(y_w) / π_ref(y_w)) − β log (π_θ(y_l) / π_ref(y_l)))

    Args:
        policy_chosen: log π_θ(y_w | x), (...), of the answer preferred.
        policy_rejected: log π_θ(y_l | x), (...), of the other.
        reference_chosen, reference_rejected: the same under π_ref, which stays as it is.
        beta: β, above 0.

    Returns:
        The loss of each pair, (...), in float32 at least; ln 2 where the model is still the reference.

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
    """Return how much better each answer is than the others to the same prompt: GRPO's stand-in for a critic.

        Aᵢ = (rᵢ − mean(r)) / std(r)

    Args:
        rewards: (..., group), of several answers to one prompt; floating-point numbers, integers or boolean.

    Returns:
        (..., group), of mean 0, in float32 at least; all 0 where the rewards of a group are equal and teach nothing.

    Raises:
        ValueError: a group holds fewer than two answers, or a reward is not finite.

    Source: Shao et al. 2024 (DeepSeekMath), §4.1.2; the standard deviation is the group's own (divided by n).

    >>> group_advantages(torch.tensor([[1, 0, 0, 1], [1, 1, 1, 1]]))
    tensor([[ 1., -1., -1.,  1.],
            [ 0.,  0.,  0.,  0.]])
    """
    if rewards.ndim < 1 or rewards.shape[-1] < 2:
        raise ValueError(f"rewards must be (..., group) with at least 2 answers, got {tuple(rewards.shape)}")
    if values_known() and not rewards.isfinite().all():
        raise ValueError(f"rewards must be finite, got {rewards.tolist()}")
    equal = (rewards == rewards[..., :1]).all(-1, keepdim=True)
    centred = rewards.double() - rewards.double().mean(-1, keepdim=True)  # squares of 1e30 and 1e-30 have room
    # The sum of squares of an equal group is 0, where the root has no derivative.
    spread = centred.square().mean(-1, keepdim=True).masked_fill(equal, 1.0).sqrt()
    return (centred / spread).masked_fill(equal, 0.0).to(_wide(rewards).dtype)


def _wide(x: Tensor) -> Tensor:
    """In float32 at least: sums and differences of log probabilities outgrow the digits of half precision."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
