"""From logits to the next token: temperature, top-k, top-p, and the draw.

Every function works a row at a time on any leading shape, (..., vocab_size), and leaves its input as it is. A filter
takes a token out by setting its logit to −∞; such logits in the input are fine, and stay out. Half precision is
computed in single. Temperature, k and p may be 0-d tensors, so that an exported graph has them as inputs.
"""

import math

import torch
from torch import Generator, Tensor
from torch.nn.functional import pad

from lib.checks import values_known

__all__ = ["apply_temperature", "keep_top_k", "keep_top_p", "next_token_probabilities", "sample"]


def apply_temperature(logits: Tensor, t: float | Tensor) -> Tensor:
    """Divide the logits by a temperature: below 1 the likely tokens gain, above 1 the unlikely ones.

        p_i ∝ exp(z_i / T)

    At T = 0, the limit, the most likely token alone is left (the first of equals): greedy.

    Args:
        logits: (..., vocab_size).
        t: the temperature T, at least 0.

    Returns:
        Logits of the same shape, in single precision at least.

    Raises:
        ValueError: `t` is negative or not a number.

    Source: Ackley, Hinton & Sejnowski 1985 (the temperature of a Boltzmann machine).

    >>> apply_temperature(torch.tensor([1.0, 3.0, 2.0]), 0.5)
    tensor([2., 6., 4.])
    >>> apply_temperature(torch.tensor([1.0, 3.0, 2.0]), 0)
    tensor([-inf, 3., -inf])
    """
    _check_settings(t)
    logits = _single(logits)
    limits = torch.finfo(logits.dtype)
    if isinstance(t, Tensor):
        return torch.where(
            t == 0, _most_likely_alone(logits), logits / t.to(logits.dtype).clamp(limits.tiny, limits.max)
        )
    return _most_likely_alone(logits) if t == 0 else logits / min(max(t, limits.tiny), limits.max)


def keep_top_k(logits: Tensor, k: int | Tensor) -> Tensor:
    """Keep the k most likely tokens; of equals at the border the first ones, so never more than k.

    Hugging Face's `TopKLogitsWarper` keeps all that are equal to the k-th.

    Args:
        logits: (..., vocab_size).
        k: how many to keep, at least 1; above `vocab_size` all are kept.

    Returns:
        Logits of the same shape, −∞ for what was taken out.

    Raises:
        ValueError: `k` is below 1.

    Source: Fan, Lewis & Dauphin 2018, §4.

    >>> keep_top_k(torch.tensor([1.0, 3.0, 2.0, 2.0]), 2)
    tensor([-inf, 3., 2., -inf])
    """
    _check_settings(top_k=k)
    order = _most_likely_first(logits)
    cut = torch.arange(order.shape[-1], device=order.device) >= k  # the most likely first
    return _take_out(logits, order, cut)


def keep_top_p(logits: Tensor, p: float | Tensor) -> Tensor:
    """Keep the smallest set of tokens whose probability is at least p: the nucleus.

        the smallest V with Σ_{i∈V} p_i ≥ p, filled from the most likely down

    The token that crosses p belongs to the set; where p is met exactly (to a few units of rounding), nothing
    more does. At least one token stays, and p = 1 keeps all. Of equals at the border the first ones stay.

    Args:
        logits: (..., vocab_size).
        p: probability to keep, from 0 to 1.

    Returns:
        Logits of the same shape, −∞ for what was taken out.

    Raises:
        ValueError: `p` lies outside 0 … 1.

    Source: Holtzman et al. 2020, equations 2 and 3.

    >>> keep_top_p(torch.tensor([0.5, 0.25, 0.25]).log(), 0.5).exp()
    tensor([0.5000, 0.0000, 0.0000])
    >>> keep_top_p(torch.tensor([0.5, 0.25, 0.25]).log(), 0.6).exp()
    tensor([0.5000, 0.2500, 0.0000])
    """
    _check_settings(top_p=p)
    order = _most_likely_first(logits)
    mass = logits.gather(-1, order).double().softmax(-1).cumsum(-1)
    before = pad(mass[..., :-1], (1, 0), value=-1.0)  # of the tokens before each; −1 is below any p: the first stays
    # Logits in single precision are not exact, so neither is their mass: 0.49999997 is meant to be 0.5.
    rounding = 8 * torch.finfo(_single_dtype(logits)).eps
    return _take_out(logits, order, (before >= p - rounding) & (p < 1))


def next_token_probabilities(
    logits: Tensor,
    *,
    temperature: float | Tensor = 1.0,
    top_k: int | Tensor | None = None,
    top_p: float | Tensor | None = None,
) -> Tensor:
    """Turn logits into the distribution that the next token is drawn from.

    In the order of Hugging Face: temperature, then top-k, then top-p, whose mass is that of the tokens which
    top-k left. What is kept is renormalised by softmax.

    Args:
        logits: (..., vocab_size).
        temperature: at least 0; 0 is greedy.
        top_k: at least 1; no limit when left out.
        top_p: from 0 to 1; no limit when left out.

    Returns:
        Probabilities (..., vocab_size), in single precision at least, exactly 0 for what was taken out.

    Raises:
        ValueError: a setting is out of range, or a row of logits holds NaN, +∞ or nothing but −∞.

    >>> logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()
    >>> next_token_probabilities(logits, top_k=3, top_p=0.7)
    tensor([0.5714, 0.4286, 0.0000, 0.0000])
    """
    # Softmax ignores a shift of its row. Measured from the largest, no temperature is too small.
    logits = _single(logits)
    kept = apply_temperature(logits - _largest(logits)[0], temperature)
    if top_k is not None:
        kept = keep_top_k(kept, top_k)
    if top_p is not None:
        kept = keep_top_p(kept, top_p)
    return kept.softmax(-1)


def sample(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Draw the next token of each row from `next_token_probabilities`.

    Args:
        logits: (..., vocab_size).
        temperature: at least 0; 0 is greedy: the most likely token, the first of equals, with nothing drawn.
        top_k: at least 1; no limit when left out.
        top_p: from 0 to 1; no limit when left out.
        generator: source of the random draws; torch's global one when left out.

    Returns:
        Token numbers (...), int64.

    Raises:
        ValueError: as in `next_token_probabilities`.

    >>> sample(torch.tensor([[0.0, 2.0, 1.0], [5.0, 1.0, 5.0]]), temperature=0)
    tensor([1, 0])
    """
    if temperature == 0:
        _check_settings(temperature, top_k, top_p)
        return _largest(logits)[1].squeeze(-1)
    probabilities = next_token_probabilities(logits, temperature=temperature, top_k=top_k, top_p=top_p)
    rows = probabilities.reshape(-1, logits.shape[-1])  # (rows, vocab_size)
    return torch.multinomial(rows, 1, generator=generator).view(logits.shape[:-1])


def _check_settings(
    temperature: float | Tensor = 1.0, top_k: int | Tensor | None = None, top_p: float | Tensor | None = None
) -> None:
    if not values_known():
        return
    if not temperature >= 0:
        raise ValueError(f"temperature must be at least 0, got {temperature}")
    if top_k is not None and not top_k >= 1:
        raise ValueError(f"top_k must be at least 1, got {top_k}")
    if top_p is not None and not 0 <= top_p <= 1:
        raise ValueError(f"top_p must lie in 0 … 1, got {top_p}")


def _largest(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The largest logit (..., 1) of each row, and where it first stands; raise where a row has no distribution."""
    _check_logits(logits)
    value, place = logits.max(-1, keepdim=True)
    if values_known() and not value.isfinite().all():
        raise ValueError("logits must hold a finite number in each row, and neither NaN nor +inf")
    return value, place


def _most_likely_first(logits: Tensor) -> Tensor:
    """Token numbers (..., vocab_size) by falling logit, equals in their own order."""
    _check_logits(logits)
    if torch.compiler.is_exporting():  # ONNX has one sort, and it keeps the order of equals
        return logits.sort(-1, descending=True).indices
    return logits.argsort(dim=-1, descending=True, stable=True)


def _most_likely_alone(logits: Tensor) -> Tensor:
    place = logits.argmax(-1, keepdim=True)
    return torch.where(torch.arange(logits.shape[-1], device=logits.device) == place, logits, -math.inf)


def _take_out(logits: Tensor, order: Tensor, cut: Tensor) -> Tensor:
    """Set logits to −∞ where `cut`, which goes by falling logit as `order` does, is true."""
    taken_out = torch.zeros_like(order, dtype=torch.bool).scatter(-1, order, cut.expand_as(order))
    return logits.masked_fill(taken_out, -math.inf)


def _check_logits(logits: Tensor) -> None:
    if logits.ndim < 1 or logits.shape[-1] == 0 or not logits.is_floating_point():
        raise ValueError(f"logits must be (..., vocab_size) real numbers, got {tuple(logits.shape)} {logits.dtype}")


def _single_dtype(logits: Tensor) -> torch.dtype:
    return torch.promote_types(logits.dtype, torch.float32)


def _single(logits: Tensor) -> Tensor:
    _check_logits(logits)
    return logits.to(_single_dtype(logits))
