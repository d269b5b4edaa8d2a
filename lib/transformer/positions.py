"""Positions: sinusoidal and learned ones are added to tokens, RoPE turns queries and keys, ALiBi is added to scores."""

from typing import Literal

import torch
from torch import Tensor, nn

from lib.checks import check_above, check_at_least

Layout = Literal["interleaved", "half"]


def sinusoidal_positions(
    length: int, dim: int, base: float = 10000.0, *, device: torch.device | str | None = None
) -> Tensor:
    """Return a vector of sines and cosines for each position, from fast to slow.

        PE(pos, 2i) = sin(pos / base^(2i/d))        PE(pos, 2i+1) = cos(pos / base^(2i/d))

    Args:
        length: number of positions, 0 … length − 1.
        dim: d, width of a token; where it is odd, the last sine has no cosine beside it.
        base: the slowest pair has a period of about 2π · base positions.

    Returns:
        (length, dim) of the default type, to be added to tokens (..., length, dim).

    Raises:
        ValueError: `length` is negative, `dim` is below 1 or `base` is not above 0.

    Source: Vaswani et al. 2017, §3.5.

    >>> sinusoidal_positions(2, 4)[1]
    tensor([0.8415, 0.5403, 0.0100, 0.9999])
    """
    check_at_least(0, length=length)
    check_at_least(1, dim=dim)
    angles = _angles(torch.arange(length, device=device), dim, base)  # (length, pairs)
    table = torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)  # (length, 2 · pairs)
    return table[:, :dim].to(torch.get_default_dtype())


class LearnedPositions(nn.Module):
    """Hold a learned vector for each position, up to the end of a table.

    Args:
        max_length, dim: rows of the table, and width of a token.
        std: standard deviation of its first values; 0.02 in BERT, GPT-2 and ViT.

    Source: Gehring et al. 2017, §3.1.

    >>> positions = LearnedPositions(max_length=16, dim=8)
    >>> torch.equal(positions(1, offset=5), positions(6)[5:])  # with five tokens in the cache
    True
    """

    def __init__(self, max_length: int, dim: int, *, std: float = 0.02) -> None:
        super().__init__()
        check_at_least(1, max_length=max_length, dim=dim)
        self.weight = nn.Parameter(torch.empty(max_length, dim).normal_(std=std))

    def forward(self, length: int, offset: int = 0) -> Tensor:
        """Return the vectors (length, dim) of positions `offset` … `offset + length − 1`.

        Raises ValueError where they lie outside the table.
        """
        if offset < 0 or length < 0 or offset + length > len(self.weight):
            end = f"offset + length = {offset} + {length}"
            raise ValueError(f"positions must lie within max_length = {len(self.weight)}, got {end}")
        return self.weight[offset : offset + length]


def apply_rope(
    x: Tensor, positions: Tensor | None = None, base: float = 10000.0, layout: Layout = "interleaved"
) -> Tensor:
    """Turn each pair of features by an angle that grows with position (rotary position embedding).

        (a, b) ↦ (a cos mθᵢ − b sin mθᵢ, a sin mθᵢ + b cos mθᵢ)        θᵢ = base^(−2i/d)

    Args:
        x: (..., time, dim), dim even; queries or keys, a head at a time.
        positions: m, (time,) or as many axes as (..., time); 0 … time − 1 when left out, n … with n tokens in a cache.
        base: sets the slowest angle.
        layout: a pair is (2i, 2i + 1), as in the paper, or (i, i + dim/2), "half", as in Hugging Face's LLaMA.

    Returns:
        The turned x, of its shape and type; halves are turned in single precision.

    Raises:
        ValueError: x holds no real numbers, `dim` is odd, positions don't fit, or `layout` or `base` is unknown.

    Source: Su et al. 2021, equation 34.

    >>> apply_rope(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    tensor([[1.0000, 0.0000],
            [0.5403, 0.8415]])
    """
    if x.ndim < 2 or x.shape[-1] % 2 or not x.is_floating_point():
        raise ValueError(f"x must be (..., time, dim) with an even dim, real numbers, got {tuple(x.shape)} {x.dtype}")
    if layout not in ("interleaved", "half"):
        raise ValueError(f'layout must be "interleaved" or "half", got {layout!r}')
    time, dim = x.shape[-2:]
    positions = torch.arange(time, device=x.device) if positions is None else positions
    _check_positions(positions, x.shape[:-1])
    angles = _angles(positions, dim, base)  # (..., time, dim / 2)
    wide = torch.promote_types(x.dtype, torch.float32)
    cos, sin = angles.cos().to(wide), angles.sin().to(wide)
    axis, split = (-1, (dim // 2, 2)) if layout == "interleaved" else (-2, (2, dim // 2))
    a, b = x.to(wide).unflatten(-1, split).unbind(axis)  # each (..., time, dim / 2)
    turned = torch.stack([a * cos - b * sin, a * sin + b * cos], axis)
    return turned.flatten(-2).to(x.dtype)  # (..., time, dim)


def alibi_slopes(heads: int, *, device: torch.device | str | None = None) -> Tensor:
    """Return the slope of each head: a geometric sequence that starts at its own ratio.

        mₕ = 2^(−8h/n), h = 1 … n, for n heads, a power of two

    Other numbers take the slopes of the largest power of two below, then every other one of the next power's.

    Args:
        heads: n, at least 1.

    Returns:
        (heads,), positive, of the default type.

    Source: Press, Smith & Lewis 2022, §3 and its published code.

    >>> alibi_slopes(6)
    tensor([0.2500, 0.0625, 0.0156, 0.0039, 0.5000, 0.1250])
    """
    return _slopes(heads, device).to(torch.get_default_dtype())


def alibi_bias(
    heads: int, queries: int, keys: int | None = None, *, device: torch.device | str | None = None
) -> Tensor:
    """Return the bias that lowers a score in proportion to the distance between query and key.

        bias[h, t, s] = −mₕ |t + (keys − queries) − s|

    Aligned bottom-right, as the causal mask under which the paper uses it: the last query stands at the last key.

    Args:
        heads, queries, keys: how many; as many keys as queries when left out.

    Returns:
        (heads, queries, keys) of the default type, for the `bias` of attention.

    Raises:
        ValueError: `heads` is below 1, or a number is negative.

    Source: Press, Smith & Lewis 2022, §3.

    >>> (alibi_bias(2, 2, 4)[0] / alibi_slopes(2)[0]).tolist()
    [[-2.0, -1.0, -0.0, -1.0], [-3.0, -2.0, -1.0, -0.0]]
    """
    keys = queries if keys is None else keys
    check_at_least(0, queries=queries, keys=keys)
    query = torch.arange(keys - queries, keys, device=device)
    distance = (query[:, None] - torch.arange(keys, device=device)).abs()  # (queries, keys)
    bias = -_slopes(heads, device)[:, None, None] * distance  # (heads, queries, keys)
    return bias.to(torch.get_default_dtype())


# What follows is computed in double precision: single loses digits at far positions.


def _angles(positions: Tensor, dim: int, base: float) -> Tensor:
    check_above(0, base=base)
    exponents = torch.arange(0, dim, 2, dtype=torch.float64, device=positions.device) / dim
    return positions[..., None].double() * base**-exponents  # (..., time, pairs)


def _slopes(heads: int, device: torch.device | str | None) -> Tensor:
    check_at_least(1, heads=heads)
    power = 2 ** (heads.bit_length() - 1)
    between = _geometric(2 * power, device)[::2][: heads - power]
    return torch.cat([_geometric(power, device), between])


def _geometric(power: int, device: torch.device | str | None) -> Tensor:
    return 2.0 ** (-8 * torch.arange(1, power + 1, dtype=torch.float64, device=device) / power)


def _check_positions(positions: Tensor, shape: torch.Size) -> None:
    # With some axes but not all, it would be open whether the first is that of a batch or of heads.
    axes = positions.ndim in (1, len(shape))
    fits = axes and all(p in (1, n) for p, n in zip(reversed(positions.shape), reversed(shape), strict=False))
    if not fits or positions.is_complex() or positions.dtype == torch.bool:
        got = f"{tuple(positions.shape)} {positions.dtype}"
        raise ValueError(f"positions must be ({shape[-1]},) or broadcast axis by axis to {tuple(shape)}, got {got}")
