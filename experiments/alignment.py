"""Do five ways to raise a reward under a KL penalty find the best policy, on a task where that is known exactly?

A reply is four words out of four, so there are 256; a policy has a row of logits for each of the 85 beginnings. The
best policy for E[r] − β KL(π ‖ π_ref) is π_ref · exp(r/β) / Z, and what a policy falls short of it is β KL(π ‖ π*).

Each way gets 6400 replies. REINFORCE, PPO and GRPO draw them from the policy, 64 a batch, and are told the true
reward; DPO and the reward model get 3200 pairs of the reference's, each with a noisy comparison; RLHF runs PPO, at its
rate, with that reward model, which counts words. PPO and GRPO use each batch four times, DPO each pair.

Controls: REINFORCE without baseline; PPO without its clip; GRPO without the division by the spread, and that with the
penalty in the reward in place of the loss; DPO with ten times the pairs in as many steps; RLHF with a reward model as
large as DPO's policy, trained on the same pairs in as many steps. Each rate is one of eleven, the best on seeds 10–14
by the median of what is fallen short; that of the large reward model by what the best policy for it falls short of.
Reported are seeds 0–4, at the rate that was picked and at every second one.

Where GRPO and its controls end, whatever the rate, is found without draws: the policy that their expected update leaves
as it is.

Over-optimisation: the best policy for the reward model, exact for each β, measured by the true reward. Control: the
pairs are drawn evenly from all 256 replies.
"""

from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Generator, Tensor

from experiments.alignment_methods import (
    BATCH,
    BATCHES,
    fitted_reward,
    fitted_table,
    from_pairs,
    on_policy,
    settled,
    trained,
)
from experiments.alignment_task import (
    BETA,
    LOG_REF,
    REFERENCE,
    REPLIES,
    best,
    compared,
    counts,
    log_probs,
    measured,
    token_log_probs,
)
from experiments.store import save, spread, start

SEEDS, TUNING = range(5), range(10, 15)
RATES = (0.001, 0.002, 0.003, 0.006, 0.01, 0.02, 0.03, 0.06, 0.1, 0.2, 0.3)
BETAS = tuple(round(4 * 10 ** (-step / 8), 3) for step in range(17))  # 4 … 0.04

GRPOS = ("grpo", "grpo unscaled", "grpo paid")
METHODS = ("reinforce plain", "reinforce", "ppo", "ppo unclipped", *GRPOS, "dpo", "dpo tenfold")


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


def large_model(seed: int, rate: float) -> tuple[Tensor, float, Generator]:
    """The scores of a reward model with a table, what the best policy for it falls short of, and what is to draw on."""
    generator = Generator().manual_seed(seed)
    model = fitted_table(*compared(BATCH * BATCHES // 2, generator), rate, generator)
    return model, measured(best(model, BETA))["short"], generator


def run_large(seed: int, rate: float, ppo_rate: float) -> dict[str, float]:
    """What PPO's policy is worth under that reward model, and what its best policy falls short of."""
    model, own_best, generator = large_model(seed, rate)
    policy = trained(ppo_rate, partial(on_policy, generator=generator, method="ppo", reward=model))
    return measured(log_probs(policy)) | {"own best": own_best}


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
        shown = sorted({*RATES[::2], rates[method]})
        runs[method] = {str(rate): [run(seed, method, rate) for seed in SEEDS] for rate in shown}
    rates["rlhf"] = rate = rates["ppo"]
    runs["rlhf"] = {str(rate): [run(seed, "rlhf", rate) for seed in SEEDS]}
    tuning = {rate: median(large_model(seed, rate)[1] for seed in TUNING) for rate in RATES}
    rates["rlhf table"] = rate = min(tuning, key=lambda rate: tuning[rate])
    runs["rlhf table"] = {str(rate): [run_large(seed, rate, rates["ppo"]) for seed in SEEDS]}
    for method, rate in rates.items():
        found = runs[method][str(rate)]
        print(method, rate, *[f"{key} {spread([each[key] for each in found])}" for key in found[0]], flush=True)
    exploited = {source: [over_optimised(seed, source) for seed in SEEDS] for source in ("reference", "evenly")}
    ends = {method: measured(log_probs(settled(method))) for method in GRPOS}
    found = {"beta": BETA, "rates": rates, "runs": runs, "ends": ends, "betas": BETAS, "exploited": exploited}
    save("alignment", {"seeds": SEEDS, **found})


if __name__ == "__main__":
    main()
