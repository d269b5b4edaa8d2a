"""The alignment task: its numbers by enumeration, and one training of each kind again."""

import math
from itertools import product
from statistics import median

import pytest
import torch
from torch import Generator, Tensor

from experiments.alignment import METHODS, RATES, large_model, over_optimised, run, run_large
from experiments.alignment_methods import fitted_reward
from experiments.alignment_task import (
    BETA,
    LOG_REF,
    REFERENCE,
    REPLIES,
    REWARD,
    best,
    counts,
    log_probs,
    measured,
    table_scores,
    token_log_probs,
)
from lib.data import results

STORED = results("alignment")


def finals(method: str, key: str) -> list[float]:
    return [each[key] for each in STORED["runs"][method][str(STORED["rates"][method])]]


def test_a_policy_gives_each_word_by_the_words_before_it():
    policy = torch.randn(85, 4, generator=Generator().manual_seed(0))
    beginnings = [
        begun for length in range(4) for begun in product(range(4), repeat=length)
    ]  # in the order of the rows
    for reply in ([0, 0, 0, 0], [3, 1, 2, 0], [2, 3, 3, 1]):
        by_hand = [policy[beginnings.index(tuple(reply[:t]))].log_softmax(0)[word] for t, word in enumerate(reply)]
        torch.testing.assert_close(token_log_probs(policy, torch.tensor([reply]))[0], torch.stack(by_hand))
    assert log_probs(policy).exp().sum().item() == pytest.approx(1, abs=1e-5)


def test_the_best_policy_is_best_and_the_gap_is_what_is_missing():
    def objective(log_prob: Tensor) -> float:
        probs = log_prob.exp()
        return (probs @ REWARD - BETA * probs @ (log_prob - LOG_REF)).item()

    top = objective(best(REWARD, BETA))
    assert top == pytest.approx(BETA * (LOG_REF + REWARD / BETA).logsumexp(0).item(), abs=1e-5)
    for seed in range(5):
        other = torch.randn(256, generator=Generator().manual_seed(seed)).log_softmax(0)
        assert measured(other)["short"] == pytest.approx(top - objective(other), abs=1e-4)


def test_the_reward_model_is_where_the_likelihood_has_no_slope():
    pairs = [REPLIES[torch.randint(256, (500,), generator=Generator().manual_seed(seed))] for seed in (0, 1)]
    weight = fitted_reward(pairs[0], pairs[1]).requires_grad_()
    difference = counts(pairs[0]) - counts(pairs[1])
    loss = -torch.nn.functional.logsigmoid(difference @ weight).mean()
    assert torch.autograd.grad(loss, weight)[0].abs().max() < 1e-3


@pytest.mark.parametrize("method", ["reinforce", "ppo", "grpo", "dpo", "rlhf"])
def test_trained_again_it_is_the_same(method: str):
    again, stored = (
        run(0, method, STORED["rates"][method]),
        STORED["runs"][method][str(STORED["rates"][method])][0],
    )
    assert again == pytest.approx(stored, abs=0.05)


def test_a_table_of_scores_holds_any_reward():
    table = torch.zeros(85, 4)
    table[21:] = REWARD.view(64, 4)  # the last word's rows alone would do
    assert torch.equal(table_scores(table, REPLIES), REWARD)


def test_rlhf_with_a_large_reward_model_trained_again_is_the_same():
    rate = STORED["rates"]["rlhf table"]
    again = run_large(0, rate, STORED["rates"]["ppo"])
    assert again == pytest.approx(STORED["runs"]["rlhf table"][str(rate)][0], abs=0.05)
    assert large_model(10, rate)[1] < min(large_model(10, other)[1] for other in (RATES[0], RATES[-1]))


def test_most_of_what_rlhf_falls_short_of_goes_with_the_small_reward_model():
    large = finals("rlhf table", "short")
    assert max(large) < min(finals("rlhf", "short")) - 0.1
    assert min(large) < max(finals("dpo", "short"))
    for short, own_best in zip(large, finals("rlhf table", "own best"), strict=True):
        assert short == pytest.approx(own_best, abs=0.01)  # PPO is at the end of its reward model


def test_every_method_has_five_seeds_and_the_reference_is_far_from_the_best():
    for method in METHODS:
        assert all(len(runs) == 5 for runs in STORED["runs"][method].values())
    assert measured(log_probs(REFERENCE))["short"] > 0.5


def test_gradients_of_the_true_objective_end_at_its_optimum_and_the_others_do_not():
    for method in ("reinforce", "ppo", "ppo unclipped", "grpo paid"):
        assert max(finals(method, "short")) < 0.01
    for method in ("reinforce plain", "grpo", "grpo unscaled", "dpo", "rlhf"):
        assert min(finals(method, "short")) > 0.05


def test_with_ten_times_the_pairs_dpo_comes_nearer():
    assert max(finals("dpo tenfold", "short")) < min(finals("dpo", "short")) / 2


def test_dividing_by_the_spread_goes_further_at_the_same_weight():
    kl = {method: [each["kl"] for each in STORED["runs"][method]["0.01"]] for method in ("grpo", "grpo unscaled")}
    assert min(kl["grpo"]) > 1.4 * max(kl["grpo unscaled"])


def test_a_reward_model_of_the_references_pairs_is_exploited_and_one_of_all_replies_is_not():
    again = over_optimised(0, "reference")
    assert again["true"] == pytest.approx(STORED["exploited"]["reference"][0]["true"], abs=0.02)
    for found in STORED["exploited"]["reference"]:
        assert found["model"] == sorted(found["model"])  # β falls along the list
        assert max(found["true"]) > 1.4
        assert found["true"][-1] < -1
    assert min(found["true"][-1] for found in STORED["exploited"]["evenly"]) > 0.99
    widest = median(found["weights"][2] for found in STORED["exploited"]["evenly"])
    assert widest < 0 < min(found["weights"][2] for found in STORED["exploited"]["reference"])


def test_where_reward_is_full_the_distance_is_the_share_of_the_reference():
    share = LOG_REF.exp()[REWARD == 3].sum().item()
    assert measured(best(REWARD, 0.04))["kl"] == pytest.approx(-math.log(share), abs=1e-3)
