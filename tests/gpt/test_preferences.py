"""Preferences: log probabilities of answers, DPO's loss and its optimum, advantages within a group."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator, Tensor
from torch.nn import functional as F

from lib.gpt import answer_log_prob, dpo_loss, group_advantages, implicit_reward


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=Generator().manual_seed(seed), dtype=torch.float64)


def test_the_log_probability_is_minus_the_cross_entropy_of_the_answer():
    logits, tokens = draw(2, 6, 5), torch.tensor([[0, 3, 1, 4, 2, 2], [1, 1, 0, 2, 3, 4]])
    answer = torch.tensor([[False, False, True, True, True, False], [False] * 5 + [True]])
    expected = [
        -F.cross_entropy(logits[0, 1:4], tokens[0, 2:5], reduction="sum"),
        -F.cross_entropy(logits[1, 4:5], tokens[1, 5:6], reduction="sum"),
    ]
    torch.testing.assert_close(answer_log_prob(logits, tokens, answer), torch.stack(expected))


def test_what_stands_outside_the_answer_does_not_count():
    logits, tokens = draw(1, 5, 4), torch.tensor([[0, 1, 2, 3, 0]])
    answer = torch.tensor([[False, False, True, True, False]])
    changed = logits.clone()
    changed[:, [0, 3, 4]] = 1e3 * draw(1, 3, 4, seed=1)  # positions that predict 1, 4 and 5
    assert torch.equal(answer_log_prob(logits, tokens, answer), answer_log_prob(changed, tokens, answer))


def test_an_impossible_token_outside_the_answer_does_no_harm():
    logits = torch.tensor([[[0.0, -math.inf], [0.0, 0.0]]], requires_grad=True)
    nothing = torch.tensor([[False, False]])
    log_prob = answer_log_prob(logits, torch.tensor([[0, 1]]), nothing)
    log_prob.sum().backward()
    assert log_prob.item() == 0
    assert (logits.grad == 0).all()


def test_dpo_is_ln_2_at_the_reference_and_falls_as_the_chosen_answer_gains():
    reference = draw(3)
    at_start = dpo_loss(reference, reference + 1, reference, reference + 1, beta=0.3)
    torch.testing.assert_close(at_start, torch.full((3,), math.log(2), dtype=torch.float64))
    gains = torch.linspace(-4, 4, 9, dtype=torch.float64)
    losses = dpo_loss(gains, torch.zeros(9), torch.zeros(9), torch.zeros(9), beta=0.5)
    assert (losses.diff() < 0).all()


def test_dpo_is_the_cross_entropy_of_bradley_terry_with_implicit_rewards():
    chosen, rejected, ref_chosen, ref_rejected = draw(4, 7)
    rewards = torch.stack(
        [implicit_reward(chosen, ref_chosen, beta=0.2), implicit_reward(rejected, ref_rejected, beta=0.2)], -1
    )
    expected = F.cross_entropy(rewards, torch.zeros(7, dtype=torch.long), reduction="none")
    torch.testing.assert_close(dpo_loss(chosen, rejected, ref_chosen, ref_rejected, beta=0.2), expected)


def test_the_gradient_weighs_a_pair_by_how_wrong_the_rewards_rank_it():
    policy = draw(2, 5).requires_grad_()
    reference = draw(2, 5, seed=1)
    dpo_loss(*policy, *reference, beta=0.7).sum().backward()
    margin = implicit_reward(policy[0], reference[0], beta=0.7) - implicit_reward(policy[1], reference[1], beta=0.7)
    weight = 0.7 * torch.sigmoid(-margin)  # equation of §4 in the paper
    torch.testing.assert_close(policy.grad, torch.stack([-weight, weight]).detach())


@pytest.mark.parametrize("beta", [0.1, 1.0])
def test_mixed_votes_have_the_optimum_of_rewards_under_a_kl_penalty(beta: float):
    """Three of four prefer the first: at the optimum the margin is ln 3, and π ∝ π_ref exp(r / β)."""
    reference = torch.tensor([0.3, 0.7], dtype=torch.float64).log()
    logits = reference.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([logits], max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        a, b = logits.log_softmax(0)
        loss = 0.75 * dpo_loss(a, b, *reference, beta=beta) + 0.25 * dpo_loss(b, a, *reference.flip(0), beta=beta)
        loss.backward()
        return loss

    optimizer.step(closure)
    expected = torch.softmax(reference + torch.tensor([math.log(3) / beta, 0.0]), 0)
    torch.testing.assert_close(logits.detach().softmax(0), expected, atol=1e-4, rtol=0)


def test_margins_beyond_the_range_of_exp_are_no_trouble():
    far, zero = torch.tensor([1e4, -1e4]), torch.zeros(2)
    assert dpo_loss(far, zero, zero, zero, beta=1.0).tolist() == [0.0, 1e4]


def test_advantages_have_mean_0_and_spread_1_and_equal_rewards_teach_nothing():
    rewards = torch.cat([draw(3, 8), torch.full((1, 8), 0.1, dtype=torch.float64)])
    advantages = group_advantages(rewards)
    torch.testing.assert_close(advantages.mean(-1), torch.zeros(4, dtype=torch.float64))
    torch.testing.assert_close(advantages[:3].std(-1, correction=0), torch.ones(3, dtype=torch.float64))
    assert (advantages[3] == 0).all()


def test_advantages_do_not_depend_on_the_scale_of_rewards():
    rewards = draw(2, 5)
    torch.testing.assert_close(group_advantages(3 * rewards - 7), group_advantages(rewards))


ANSWER = torch.tensor([[False, False, True, True, False], [False, True, True, False, True]])
TOKENS = torch.tensor([[0, 1, 2, 3, 0], [3, 3, 0, 1, 2]])
HALF = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)


@HALF
def test_log_probabilities_of_half_precision_are_summed_in_float32(dtype: torch.dtype):
    logits, tokens = draw(2, 900, 40).to(dtype), torch.arange(1800).view(2, 900) % 40
    answer = (torch.arange(900) > 0).expand(2, 900)
    got = answer_log_prob(logits, tokens, answer)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, answer_log_prob(logits.double(), tokens, answer).float(), rtol=1e-5, atol=0)


@HALF
@pytest.mark.parametrize("function", [lambda *x: implicit_reward(*x[:2], beta=0.7), dpo_loss])
def test_differences_of_half_precision_are_taken_in_float32(dtype: torch.dtype, function):
    scores = [(10 * draw(50, seed=seed) - 1000).to(dtype) for seed in range(4)]
    got = function(*scores)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, function(*(score.double() for score in scores)).float())


@HALF
def test_rewards_of_half_precision_are_compared_in_float32(dtype: torch.dtype):
    rewards = (60_000 * draw(5, 70).sigmoid()).to(dtype)  # the sum of a group is beyond float16
    got = group_advantages(rewards)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, plain_advantages(rewards.double()).float())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_tiny_and_huge_rewards_are_compared_as_others(dtype: torch.dtype, scale: float):
    rewards = torch.tensor([1.0, 4.0, 2.0, 4.0])
    got = group_advantages((scale * rewards).to(dtype))
    torch.testing.assert_close(got.double(), group_advantages(rewards).double(), atol=1e-2, rtol=0)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool], ids=str)
def test_rewards_may_be_integers(dtype: torch.dtype):
    rewards = torch.tensor([[1, 0, 0, 1], [1, 1, 1, 1], [1, 0, 0, 0]])
    got = group_advantages(rewards.to(dtype))
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, group_advantages(rewards.float()))
    assert got[:2].tolist() == [[1, -1, -1, 1], [0, 0, 0, 0]]


def plain_advantages(rewards: Tensor) -> Tensor:
    return (rewards - rewards.mean(-1, keepdim=True)) / rewards.std(-1, keepdim=True, correction=0)


@pytest.mark.parametrize("shape", [(5,), (3, 8), (2, 3, 7), (0, 4), (2, 0, 4)])
def test_advantages_are_those_of_the_plain_formula(shape: tuple[int, ...]):
    rewards = draw(*shape)
    expected = plain_advantages(rewards) if rewards.numel() else rewards
    torch.testing.assert_close(group_advantages(rewards), expected)


@given(st.lists(st.integers(-9, 9), min_size=2, max_size=12))
def test_advantages_of_any_group_keep_its_order_and_have_mean_0(rewards: list[int]):
    advantages = group_advantages(torch.tensor(rewards))
    assert advantages.sum().abs() < 1e-4
    order = sorted(range(len(rewards)), key=rewards.__getitem__)
    assert (advantages[order].diff() > -1e-6).all()
    assert (advantages == 0).all() == (len(set(rewards)) == 1)


def test_padding_may_be_any_number():
    logits = draw(2, 5, 4)
    for padding in (-100, 0, 10**6):
        tokens = TOKENS.masked_fill(~ANSWER, padding)
        torch.testing.assert_close(answer_log_prob(logits, tokens, ANSWER), answer_log_prob(logits, TOKENS, ANSWER))


def test_no_sequence_has_no_log_probability():
    assert answer_log_prob(torch.zeros(0, 3, 5), torch.zeros(0, 3, dtype=torch.long), torch.zeros(0, 3) > 0).shape == (
        0,
    )
    assert dpo_loss(*torch.zeros(4, 0)).shape == (0,)


def test_tokens_may_be_of_32_bits():
    logits = draw(2, 5, 4)
    assert torch.equal(answer_log_prob(logits, TOKENS.int(), ANSWER), answer_log_prob(logits, TOKENS, ANSWER))


def test_derivatives():
    check = torch.autograd.gradcheck
    assert check(lambda logits: answer_log_prob(logits, TOKENS, ANSWER), (draw(2, 5, 4).requires_grad_(),))
    scores = [draw(3, seed=seed).requires_grad_() for seed in range(4)]
    assert check(lambda a, b: implicit_reward(a, b, beta=0.3), scores[:2])
    assert check(lambda *scores: dpo_loss(*scores, beta=0.3), scores)
    assert check(group_advantages, (draw(3, 5).requires_grad_(),))


def test_equal_rewards_have_no_derivative_and_no_nan():
    rewards = torch.ones(2, 4, requires_grad=True)
    group_advantages(rewards).sum().backward()
    assert (rewards.grad == 0).all()


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (answer_log_prob, (torch.randn(2, 5, 4), TOKENS, ANSWER)),
        (lambda a, b: implicit_reward(a, b, beta=0.3), torch.randn(2, 3)),
        (dpo_loss, torch.randn(4, 3)),
        (group_advantages, (torch.randn(3, 4),)),
    ],
    ids=["answer_log_prob", "implicit_reward", "dpo_loss", "group_advantages"],
)
def test_it_compiles_whole_and_exports(function, inputs):
    class Module(torch.nn.Module):
        def forward(self, *inputs: Tensor) -> Tensor:
            return function(*inputs)

    inputs, expected = tuple(inputs), function(*inputs)
    torch.testing.assert_close(torch.compile(function, fullgraph=True, backend="eager")(*inputs), expected)
    torch.testing.assert_close(torch.export.export(Module(), inputs).module()(*inputs), expected)


ZERO, MASK = torch.zeros(3), torch.zeros(2, 4, dtype=torch.bool)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: implicit_reward(ZERO, ZERO, beta=0.0), "beta must be above 0, got 0.0"),
        (lambda: implicit_reward(ZERO, ZERO[:2], beta=1.0), r"of one shape, got \(3,\) and \(2,\)"),
        (lambda: dpo_loss(ZERO, ZERO[:1], ZERO, ZERO[:1]), r"chosen and rejected .* \(3,\) and \(1,\)"),
        (lambda: answer_log_prob(torch.zeros(2, 3, 5), MASK.long(), MASK), r"\(2, 3, 5\), \(2, 4\) and \(2, 4\)"),
        (lambda: answer_log_prob(torch.zeros(2, 4, 5), MASK.long(), MASK.long()), "answer must be boolean"),
        (lambda: answer_log_prob(torch.zeros(2, 4, 5), MASK.long(), ~MASK), "nothing predicts it"),
        (lambda: answer_log_prob(torch.zeros(2, 0, 5), MASK[:, :0].long(), MASK[:, :0]), r"must fit, got \(2, 0, 5\)"),
        (lambda: answer_log_prob(torch.zeros(5), MASK[0, 0].long(), MASK[0, 0]), r"must fit, got \(5,\)"),
        (lambda: answer_log_prob(torch.zeros(2, 5, 3), TOKENS, ANSWER), "tokens of the answer must lie in 0 … 2"),
        (lambda: answer_log_prob(torch.zeros(2, 5, 4), -TOKENS, ANSWER), "tokens of the answer must lie in 0 … 3"),
        (
            lambda: answer_log_prob(torch.zeros(2, 4, 5), MASK.float(), MASK),
            "tokens must be integers, got torch.float32",
        ),
        (lambda: group_advantages(torch.tensor([0.0, math.nan])), r"rewards must be finite, got \[0.0, nan\]"),
        (lambda: group_advantages(torch.tensor([0.0, math.inf])), r"rewards must be finite, got \[0.0, inf\]"),
        (lambda: group_advantages(torch.tensor(1.0)), r"at least 2 answers, got \(\)"),
        (lambda: group_advantages(torch.zeros(4, 0)), r"at least 2 answers, got \(4, 0\)"),
        (lambda: group_advantages(torch.zeros(4, 1)), r"at least 2 answers, got \(4, 1\)"),
    ],
)
def test_bad_arguments_are_refused(call, message: str):
    with pytest.raises(ValueError, match=message):
        call()
