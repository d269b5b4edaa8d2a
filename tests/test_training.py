"""The training loop: what it updates, what it reports, and what it refuses."""

import itertools
import math
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from lib.training import fit

X = torch.linspace(-1, 1, 8)[:, None]
BATCHES = [(X, 3 * X + 1)]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def squared_error(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return (model(x) - y).square().mean()


def train(model: nn.Module | None = None, **options) -> list[float]:
    settings = {"batches": itertools.cycle(BATCHES), "loss": squared_error, "steps": 3, "lr": 0.1} | options
    return fit(nn.Linear(1, 1) if model is None else model, **settings)


def rates(**options) -> list[float]:
    """The learning rate of each step: with a gradient of 1, SGD moves by exactly that much."""
    model = nn.Linear(1, 1, bias=False)
    seen: list[float] = []
    train(
        model,
        loss=lambda model, *batch: model.weight.sum(),
        optimizer=SGD,
        lr=1.0,
        callback=lambda step: seen.append(model.weight.item()),
        **options,
    )
    return [before - after for before, after in itertools.pairwise(seen)]


def test_a_line_is_learned():
    model = nn.Linear(1, 1)
    history = train(model, steps=300)
    assert len(history) == 300
    assert history[-1] < 1e-3
    assert model.weight.item() == pytest.approx(3, abs=0.05)
    assert model.bias.item() == pytest.approx(1, abs=0.05)


def test_the_history_holds_the_loss_before_each_update():
    model = nn.Linear(1, 1)
    first = squared_error(model, *BATCHES[0]).item()
    assert train(model, steps=1) == [pytest.approx(first)]


def test_a_batch_may_hold_any_number_of_tensors():
    model = nn.Bilinear(1, 1, 1)
    batches = itertools.repeat((X, X, X**2))
    history = train(model, batches=batches, loss=lambda model, a, b, y: (model(a, b) - y).square().mean(), steps=200)
    assert history[-1] < 1e-3


def test_batches_are_taken_one_a_step():
    stream = itertools.cycle(BATCHES)
    taken = (next(stream) for _ in range(3))
    train(batches=taken, steps=3)
    assert next(taken, None) is None


def test_frozen_parameters_stay():
    model = nn.Linear(1, 1)
    model.bias.requires_grad_(False)
    before = model.bias.clone()
    train(model)
    assert torch.equal(model.bias, before)


@pytest.mark.parametrize("training", [True, False])
def test_the_model_trains_in_training_mode_and_gets_its_mode_back(training: bool):
    model = nn.Linear(1, 1).train(training)
    modes: list[bool] = []
    train(model, loss=lambda model, x, y: modes.append(model.training) or squared_error(model, x, y))
    assert modes == [True] * 3
    assert model.training is training


def test_the_mode_comes_back_after_an_error_too():
    model = nn.Linear(1, 1).eval()
    with pytest.raises(ValueError, match="ran dry"):
        train(model, batches=[])
    assert not model.training


def test_watch_sees_every_step_in_evaluation_mode_without_gradients():
    model = nn.Linear(1, 1)
    seen: list[tuple[int, bool, bool]] = []
    train(model, callback=lambda step: seen.append((step, model.training, torch.is_grad_enabled())))
    assert seen == [(step, False, False) for step in range(4)]


def test_the_rate_is_constant_by_default():
    assert rates(steps=4) == pytest.approx([1, 1, 1, 1])


def test_warmup_rises_linearly_to_the_full_rate():
    assert rates(steps=6, warmup=4) == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1])


def test_cosine_falls_from_the_full_rate_towards_zero():
    expected = [0.5, 1, *((1 + math.cos(math.pi * t / 4)) / 2 for t in range(4))]
    assert rates(steps=6, warmup=2, schedule="cosine") == pytest.approx(expected)


def test_clip_bounds_the_norm_of_the_gradient():
    model = nn.Linear(1, 1)
    before = torch.cat([p.detach().flatten().clone() for p in model.parameters()])
    train(model, optimizer=SGD, lr=1.0, clip=0.01, steps=1)
    after = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert (after - before).norm().item() == pytest.approx(0.01, rel=1e-3)


def test_the_optimizer_may_be_any():
    assert train(optimizer=partial(SGD, momentum=0.9), steps=200)[-1] < 1e-4


def test_the_same_seeds_give_the_same_history():
    def run() -> list[float]:
        torch.manual_seed(0)
        return train(nn.Sequential(nn.Linear(1, 4), nn.Dropout(), nn.Linear(4, 1)), steps=5)

    assert run() == run()


def test_batches_that_run_dry_name_the_step():
    with pytest.raises(ValueError, match="batches must last for 3 steps, ran dry at step 2"):
        train(batches=BATCHES)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_names_the_step_and_spares_the_model(bad: float):
    model = nn.Linear(1, 1)
    states: list[Tensor] = []
    with pytest.raises(FloatingPointError, match=f"loss must be finite, got {bad} at step 2"):
        train(model, batches=[*BATCHES, (X, X * bad)], callback=lambda step: states.append(model.weight.clone()))
    assert torch.equal(model.weight, states[-1])


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"lr": 0.0}, "lr must be above 0, got 0.0"),
        ({"lr": math.nan}, "lr must be above 0, got nan"),
        ({"warmup": 4}, "warmup must lie in 0 … steps = 3, got 4"),
        ({"warmup": -1}, "warmup must lie in 0 … steps = 3, got -1"),
        ({"schedule": "linear"}, 'schedule must be "constant" or "cosine", got \'linear\''),
    ],
)
def test_bad_settings_are_named(option: dict, message: str):
    with pytest.raises(ValueError, match=message):
        train(**option)
