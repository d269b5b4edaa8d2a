"""Positions: attention by itself sees a set; these tell it which token stands where.

Sinusoidal and learned positions are vectors added to tokens. RoPE turns queries and keys by an angle that
grows with position. ALiBi is a bias on the scores, for the `bias` of the attention kernels.
"""

from typing import Literal

import torch
from torch import Tensor, nn

Layout = Literal["interleaved", "half"]


def sinusoidal_positions(length: int, dim: int, base: float = 10000.0) -> Tensor:
    """Give each position a vector of sines and cosines, from fast to slow.

        PE(pos, 2i) = sin(pos / base^(2i/d))        PE(pos, 2i+1) = cos(pos / base^(2i/d))

    Args:
        length: number of positions, 0 … length − 1.
        dim: d, width of a token; where it is odd, the last sine has no cosine beside it.
        base: the slowest pair has a period of about 2π · base positions.

    Returns:
        (length, dim), to be added to tokens (..., length, dim).

    Raises:
        ValueError: `length` is negative, `dim` is below 1 or `base` is not above 0.

    Source: Vaswani et al. 2017, §3.5.

    >>> sinusoidal_positions(3, 4)
    tensor([[ 0.0000,  1.0000,  0.0000,  1.0000],
            [ 0.8415,  0.5403,  0.0100,  0.9999],
            [ 0.9093, -0.4161,  0.0200,  0.9998]])
    """
    if length < 0:
        raise ValueError(f"length must not be negative, got {length}")
    if dim < 1:
        raise ValueError(f"dim must be at least 1, got {dim}")
    angles = _angles(torch.arange(length), dim, base)
    pairs = torch.stack([angles.sin(), angles.cos()], -1)  # (length, pairs, 2)
    return pairs.flatten(-2)[:, :dim].to(torch.get_default_dtype())


class LearnedPositions(nn.Module):
    """Learn a vector for each position of a table, and know nothing beyond its end.

    Args:
        max_length: rows of the table.
        dim: width of a token.
        std: standard deviation of its first values, 0.02 in BERT, GPT-2 and ViT. Where token vectors are much
            larger, positions go unnoticed for long.

    Source: Gehring et al. 2017, §3.1.

    >>> positions = LearnedPositions(max_length=16, dim=8)
    >>> tokens = torch.zeros(2, 5, 8)
    >>> (tokens + positions(5)).shape
    torch.Size([2, 5, 8])

    The next token, with five in the cache, goes on from there:

    >>> torch.equal(positions(1, offset=5), positions(6)[5:])
    True
    """

    def __init__(self, max_length: int, dim: int, *, std: float = 0.02) -> None:
        super().__init__()
        if max_length < 1 or dim < 1:
            raise ValueError(f"max_length and dim must be at least 1, got {max_length} and {dim}")
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

    Applied to queries and keys, their dot product depends on positions through the difference m − n only.

    Args:
        x: (..., time, dim), dim even; queries or keys, a head at a time.
        positions: m, broadcastable to (..., time); 0 … time − 1 when left out. With a cache of n tokens,
            `torch.arange(n, n + time)`.
        base: sets the slowest angle.
        layout: which features are a pair: "interleaved" (2i, 2i + 1), as in the paper and in GPT-J, or "half"
            (i, i + dim/2), as in GPT-NeoX and in Hugging Face's LLaMA. A permutation turns one into the other.

    Returns:
        The turned x, of its shape and type.

    Raises:
        ValueError: `dim` is odd, positions don't fit, the layout is unknown, or `base` is not above 0.

    Source: Su et al. 2021, equation 34.

    >>> apply_rope(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    tensor([[1.0000, 0.0000],
            [0.5403, 0.8415]])
    """
    if x.ndim < 2 or x.shape[-1] % 2:
        raise ValueError(f"x must be (..., time, dim) with an even dim, got {tuple(x.shape)}")
    if layout not in ("interleaved", "half"):
        raise ValueError(f'layout must be "interleaved" or "half", got {layout!r}')
    time, dim = x.shape[-2:]
    positions = torch.arange(time, device=x.device) if positions is None else positions
    _check_positions(positions, x.shape[:-1])
    angles = _angles(positions, dim, base)  # (..., time, dim / 2)
    wide = torch.promote_types(x.dtype, torch.float32)  # halves are turned in single precision
    cos, sin = angles.cos().to(wide), angles.sin().to(wide)
    axis, split = (-1, (dim // 2, 2)) if layout == "interleaved" else (-2, (2, dim // 2))
    a, b = x.to(wide).unflatten(-1, split).unbind(axis)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], axis).flatten(-2).to(x.dtype)


def alibi_slopes(heads: int) -> Tensor:
    """Give each head a slope: a geometric sequence that starts at its own ratio.

        mₕ = 2^(−8h/n), h = 1 … n, for n heads, a power of two

    For other numbers, as in the paper's code: the slopes of the largest power of two below, then every other
    one of the next power's.

    Args:
        heads: n.

    Returns:
        (heads,), positive.

    Raises:
        ValueError: `heads` is below 1.

    Source: Press, Smith & Lewis 2022, §3 and its published code.

    >>> alibi_slopes(4)
    tensor([0.2500, 0.0625, 0.0156, 0.0039])
    >>> alibi_slopes(6)
    tensor([0.2500, 0.0625, 0.0156, 0.0039, 0.5000, 0.1250])
    """
    if heads < 1:
        raise ValueError(f"heads must be at least 1, got {heads}")
    power = 2 ** (heads.bit_length() - 1)
    between = _geometric(2 * power)[::2][: heads - power]
    return torch.cat([_geometric(power), between])


def alibi_bias(heads: int, queries: int, keys: int | None = None) -> Tensor:
    """Make the bias that lowers a score in proportion to the distance between query and key.

        bias[h, t, s] = −mₕ |t + (keys − queries) − s|

    Like the causal mask it is aligned bottom-right: the last query stands at the last key. It is symmetric;
    the paper uses it under a causal mask, where only the past counts.

    Args:
        heads: number of heads.
        queries: number of queries.
        keys: number of keys; `queries` when left out.

    Returns:
        (heads, queries, keys), for the `bias` of attention.

    Raises:
        ValueError: `heads` is below 1, or a number is negative.

    Source: Press, Smith & Lewis 2022, §3.

    >>> alibi_bias(2, 2, 4)[0] / alibi_slopes(2)[0]
    tensor([[-2., -1., -0., -1.],
            [-3., -2., -1., -0.]])
    """
    keys = queries if keys is None else keys
    if queries < 0 or keys < 0:
        raise ValueError(f"queries and keys must not be negative, got {queries} and {keys}")
    query = torch.arange(keys - queries, keys)
    distance = (query[:, None] - torch.arange(keys)).abs()
    return -alibi_slopes(heads)[:, None, None] * distance


def _angles(positions: Tensor, dim: int, base: float) -> Tensor:
    """Angles (..., time, pairs) in radians; double precision, as single loses digits at far positions."""
    if not base > 0:
        raise ValueError(f"base must be above 0, got {base}")
    exponents = torch.arange(0, dim, 2, dtype=torch.float64, device=positions.device) / dim
    return positions[..., None].double() * base**-exponents


def _check_positions(positions: Tensor, shape: torch.Size) -> None:
    try:
        fits = torch.broadcast_shapes(positions.shape, shape) == shape and positions.ndim > 0
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"positions must broadcast to {tuple(shape)}, got {tuple(positions.shape)}")


def _geometric(power: int) -> Tensor:
    return 2.0 ** (-8 * torch.arange(1, power + 1) / power)
