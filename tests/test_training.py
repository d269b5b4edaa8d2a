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


class Frozen(nn.Sequential):
    """Stays in evaluation mode whatever it is told, as the frozen backbones of some libraries."""

    def train(self, mode: bool = True):
        return super().train(False)


def with_parts() -> nn.Sequential:
    frozen = Frozen(nn.Linear(4, 4), nn.Dropout())
    return nn.Sequential(nn.Linear(1, 4), nn.BatchNorm1d(4), nn.Sequential(nn.Dropout(), nn.Linear(4, 4)), frozen)


def shared_part() -> nn.Module:
    model, part = with_parts(), nn.Linear(4, 4)
    model.append(nn.Sequential(part))
    model.append(nn.Sequential(part).eval())
    model[-1].training = True
    return model


def freeze(model: nn.Sequential, *parts: int) -> nn.Sequential:
    for part in parts:
        model[part].eval()
    return model


def head_alone() -> nn.Module:
    model = with_parts().eval()
    model[2].train()
    return model


# Each with whether its modules are to train in the modes they came in.
MODES = pytest.mark.parametrize(
    ("make", "as_it_came"),
    [
        (lambda: nn.Linear(1, 1), True),
        (with_parts, True),
        (lambda: freeze(with_parts(), 1), True),  # BatchNorm
        (lambda: freeze(with_parts(), 2), True),  # Dropout, and the Sequential around it
        (lambda: freeze(with_parts(), 0, 1, 2), True),
        (shared_part, True),
        (head_alone, True),
        (lambda: nn.Linear(1, 1).eval(), False),
        (lambda: with_parts().eval(), False),
    ],
    ids=["one", "all", "norm", "dropout", "most", "shared", "head alone", "one in evaluation", "all in evaluation"],
)


def modes(model: nn.Module) -> list[bool]:
    return [module.training for module in model.modules()]


def noting(seen: list[list[bool]]):
    """The squared error that also notes in which modes the model is."""
    return lambda model, x, y: seen.append(modes(model)) or squared_error(model, x, y)


@MODES
@pytest.mark.parametrize("watched", [False, True])
def test_every_module_trains_in_the_mode_it_came_in_and_has_it_afterwards(make, as_it_came: bool, watched: bool):
    model = make()
    given = modes(model)
    whole = modes(make().train())
    seen: list[list[bool]] = []
    during: list[list[bool]] = []
    train(model, loss=noting(seen), callback=(lambda step: during.append(modes(model))) if watched else None)
    assert seen == [given if as_it_came else whole] * 3
    assert during == [[False] * len(given)] * (4 if watched else 0)
    assert modes(model) == given


@MODES
@pytest.mark.parametrize("where", ["first callback", "callback", "loss", "batches", "not finite"])
def test_the_modes_come_back_after_an_error_too(make, as_it_came: bool, where: str):
    def callback(step: int) -> None:
        if (where, step) in (("first callback", 0), ("callback", 2)):
            raise KeyError(where)

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        if where == "loss":
            raise KeyError(where)
        return squared_error(model, x, y) * (math.nan if where == "not finite" else 1)

    model = make()
    given = modes(model)
    with pytest.raises((KeyError, ValueError, FloatingPointError)):
        train(model, loss=loss, callback=callback, batches=BATCHES if where == "batches" else itertools.cycle(BATCHES))
    assert modes(model) == given


def test_a_callback_may_change_the_modes():
    model = freeze(with_parts(), 1)
    given = modes(model)
    seen: list[list[bool]] = []
    train(model, loss=noting(seen), callback=lambda step: model.train())
    assert seen == [given] * 3
    assert modes(model) == given


@pytest.mark.parametrize("frozen", [True, False])
def test_a_frozen_batch_norm_keeps_its_running_mean(frozen: bool):
    norm = nn.BatchNorm1d(4).train(not frozen)
    model = nn.Sequential(nn.Linear(1, 4), norm, nn.Linear(4, 1))
    train(model, callback=lambda step: model(X))
    assert norm.running_mean is not None
    assert (norm.running_mean == 0).all().item() is frozen
    assert norm.num_batches_tracked == (0 if frozen else 3)


@pytest.mark.parametrize("frozen", [True, False])
def test_a_frozen_dropout_drops_nothing(frozen: bool):
    dropout = nn.Dropout(0.5).train(not frozen)
    gave: list[Tensor] = []
    train(
        nn.Sequential(dropout, nn.Linear(1, 1)),
        loss=lambda model, x, y: gave.append(dropout(x)) or squared_error(model, x, y),
    )
    assert [torch.equal(dropped, X) for dropped in gave] == [frozen] * 3


def test_what_a_module_does_besides_in_train_is_done():
    class Merged(nn.Linear):  # adapters are merged for evaluation in this way
        merged = False

        def train(self, mode: bool = True):
            self.merged = not mode
            return super().train(mode)

    model, seen = nn.Sequential(Merged(1, 1), nn.Dropout().eval()), []
    train(
        model,
        loss=lambda model, x, y: seen.append(model[0].merged) or squared_error(model, x, y),
        callback=lambda step: seen.append(model[0].merged),
        steps=2,
    )
    assert seen == [True, False, True, False, True]
    assert not model[0].merged


def test_the_callback_sees_every_step_in_evaluation_mode_without_gradients():
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


class Slopes(nn.Module):
    """Two parameters of different shapes whose gradients are given: (3, 0) and (0, 4), of norm 5 together."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.zeros(2))
        self.second = nn.Parameter(torch.zeros(2, 1))

    def forward(self) -> Tensor:
        return 3 * self.first[0] + 4 * self.second[1, 0]


@pytest.mark.parametrize(
    ("clip", "scale"), [(0.01, 0.01 / 5), (1.0, 1 / 5), (4.5, 4.5 / 5), (5.5, 1.0), (1e6, 1.0), (None, 1.0)]
)
def test_the_gradient_is_scaled_down_to_the_norm_of_clip_over_all_parameters_together(clip: float, scale: float):
    model = Slopes()
    train(model, batches=[()], loss=lambda model: model(), optimizer=SGD, lr=0.5, clip=clip, steps=1)
    torch.testing.assert_close(model.first.data, -0.5 * scale * torch.tensor([3.0, 0.0]))
    torch.testing.assert_close(model.second.data, -0.5 * scale * torch.tensor([[0.0], [4.0]]))


def test_clip_holds_at_every_step():
    model, seen = Slopes(), []
    train(
        model,
        batches=itertools.repeat(()),
        loss=lambda model: model(),
        optimizer=SGD,
        clip=1.0,
        steps=4,
        callback=lambda step: seen.append(torch.cat([p.flatten() for p in model.parameters()]).norm().item()),
    )
    assert seen == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])  # lr · clip a step


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
        ({"clip": 0.0}, "clip must be above 0, got 0.0"),
        ({"clip": -1.0}, "clip must be above 0, got -1.0"),
        ({"clip": math.nan}, "clip must be above 0, got nan"),
        ({"loss": lambda model, x, y: model(x)}, r"loss must give one number, got \(8, 1\)"),
        ({"batches": []}, "batches must last for 3 steps, ran dry at step 1"),
        ({"warmup": 4}, "warmup must lie in 0 … steps = 3, got 4"),
        ({"warmup": -1}, "warmup must lie in 0 … steps = 3, got -1"),
        ({"schedule": "linear"}, 'schedule must be "constant" or "cosine", got \'linear\''),
    ],
)
def test_bad_settings_are_named(option: dict, message: str):
    with pytest.raises(ValueError, match=message):
        train(**option)
