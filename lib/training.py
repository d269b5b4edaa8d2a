"""One training loop for all models of the book."""

import math
import os
from collections.abc import Callable, Iterable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR
from tqdm.auto import tqdm

from lib.checks import check_above, check_at_least

__all__ = ["fit"]

Schedule = Literal["constant", "cosine"]


def fit(
    model: nn.Module,
    batches: Iterable[Iterable[Tensor]],
    loss: Callable[..., Tensor],
    *,
    steps: int,
    lr: float = 1e-3,
    optimizer: Callable[..., Optimizer] = AdamW,
    warmup: int = 0,
    schedule: Schedule = "constant",
    clip: float | None = None,
    callback: Callable[[int], object] | None = None,
    label: str = "",
) -> list[float]:
    """Train a model in place, with a progress bar while it runs.

    Every module trains in the mode it came in, so a frozen BatchNorm stays frozen; only a model that is in
    evaluation mode as a whole is put in training mode. Afterwards each is in the mode it came in.

    Args:
        model: its parameters that require a gradient are trained.
        batches: gives a tuple of tensors a step, inputs and target as `loss` wants them; may be endless.
        loss: called as `loss(model, *batch)`, gives a 0-d tensor.
        steps: number of updates.
        lr: learning rate, after warm-up.
        optimizer: makes the optimizer, called as `optimizer(parameters, lr=lr)`.
        warmup: steps over which the learning rate rises linearly to `lr`.
        schedule: "constant", or "cosine" towards 0 after the warm-up.
        clip: largest norm of the gradient of all parameters together; unlimited when left out.
        callback: called with the number of steps done, from 0 to `steps`, with the whole model in evaluation mode
            and without gradients.
        label: name of the progress bar.

    Returns:
        The loss of each step, as measured before its update.

    Raises:
        ValueError: `steps` is below 1, `lr` or `clip` is not above 0, `warmup` is not within 0 … `steps`, the
            schedule is unknown, the batches run dry, or the loss is not one number.
        FloatingPointError: the loss is not finite; the model is left as it was before that step.

    Source: Loshchilov & Hutter 2019 (AdamW); 2017 (cosine).

    >>> import itertools
    >>> model = nn.Linear(1, 1)
    >>> x = torch.linspace(-1, 1, 8)[:, None]
    >>> history = fit(
    ...     model,
    ...     itertools.repeat((x, 3 * x)),
    ...     lambda model, x, y: (model(x) - y).square().mean(),
    ...     steps=200,
    ...     lr=0.1,
    ... )
    >>> len(history), history[-1] < 1e-3
    (200, True)
    """
    _check(steps, lr, warmup, schedule, clip)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    update = optimizer(parameters, lr=lr)
    rate = LambdaLR(update, lambda step: _factor(step, steps, warmup, schedule))
    stream = iter(batches)
    history: list[float] = []
    given = _modes(model)
    try:
        if not any(given.values()):
            model.train()
        _call_back(model, callback, 0)
        # At most three redraws a second: in a notebook each is a message to the browser.
        # The notebook's bar does not read TQDM_DISABLE by itself, which builds and tests set.
        hidden = bool(os.environ.get("TQDM_DISABLE"))
        for step in (bar := tqdm(range(1, steps + 1), desc=label, leave=False, mininterval=1 / 3, disable=hidden)):
            value = loss(model, *_next_batch(stream, step, steps))
            history.append(_finite(value, step))
            update.zero_grad()
            value.backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(parameters, clip)
            update.step()
            rate.step()
            bar.set_postfix(loss=f"{history[-1]:.3g}", refresh=False)
            _call_back(model, callback, step)
    finally:
        _restore(given)
    return history


def _call_back(model: nn.Module, callback: Callable[[int], object] | None, step: int) -> None:
    if callback is None:
        return
    training = _modes(model)
    model.eval()
    with torch.no_grad():
        callback(step)
    _restore(training)


def _modes(model: nn.Module) -> dict[nn.Module, bool]:
    return {module: module.training for module in model.modules()}


def _restore(modes: dict[nn.Module, bool]) -> None:
    for module, training in modes.items():
        module.train(training)  # some do more in `train` than set the flag
    for module, training in modes.items():
        module.training = training  # `train` has set the parts too


def _next_batch(stream: Iterable[Iterable[Tensor]], step: int, steps: int) -> Iterable[Tensor]:
    for batch in stream:
        return batch
    raise ValueError(f"batches must last for {steps} steps, ran dry at step {step}")


def _finite(value: Tensor, step: int) -> float:
    if value.numel() != 1:
        raise ValueError(f"loss must give one number, got {tuple(value.shape)}")
    number = value.item()
    if not math.isfinite(number):
        raise FloatingPointError(f"loss must be finite, got {number} at step {step}")
    return number


def _factor(step: int, steps: int, warmup: int, schedule: Schedule) -> float:
    """Learning rate of the step after `step` steps, as a part of the full one."""
    if step < warmup:
        return (step + 1) / warmup
    if schedule == "constant":
        return 1.0
    return (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup))) / 2


def _check(steps: int, lr: float, warmup: int, schedule: str, clip: float | None) -> None:
    check_at_least(1, steps=steps)
    check_above(0, lr=lr)
    if clip is not None:
        check_above(0, clip=clip)
    if not 0 <= warmup <= steps:
        raise ValueError(f"warmup must lie in 0 … steps = {steps}, got {warmup}")
    if schedule not in ("constant", "cosine"):
        raise ValueError(f'schedule must be "constant" or "cosine", got {schedule!r}')
