"""What experiments share: seeds, and the first steps of a training."""

import pytest
import torch
from torch import Tensor, nn

from experiments.training import first_losses, over_seeds, tens
from lib.training import fit


def test_every_kind_runs_with_every_seed_and_its_spread_is_printed(capsys: pytest.CaptureFixture[str]):
    runs = over_seeds(lambda seed, kind: seed * kind, range(3), (2, 5), {"product": float})
    assert runs == {2: [0, 2, 4], 5: [0, 5, 10]}
    assert capsys.readouterr().out.splitlines() == ["2: product 2.00 (0.00–4.00)", "5: product 5.00 (0.00–10.00)"]


def test_the_first_losses_are_those_of_the_whole_training():
    def squared(model: nn.Linear, x: Tensor) -> Tensor:
        return model(x).square().mean()

    def train(count: int | None) -> list[float]:
        torch.manual_seed(0)
        model, options = nn.Linear(3, 1), {"steps": 20, "lr": 0.1, "warmup": 5, "schedule": "cosine"}
        batches = ((torch.ones(4, 3) * step,) for step in range(1, 100))
        if count is None:
            return fit(model, batches, squared, **options)
        return first_losses(model, batches, squared, count, **options)

    assert train(7) == pytest.approx(train(None)[:7])


def test_means_of_each_ten():
    assert tens([float(value) for value in range(20)]) == [4.5, 14.5]
