"""The modern Hopfield network, whose update is attention."""

import torch
from torch import Tensor

from lib.attention.dot_product import dot_product_attention
from lib.checks import check_above, values_known


def hopfield_update(state: Tensor, patterns: Tensor, beta: float | Tensor) -> Tensor:
    """Return the next state of a modern Hopfield network: attention with the patterns as keys and as values.

        ξ_new = X softmax(β Xᵀ ξ)

    Args:
        state: ξ, (dim,) or (..., states, dim).
        patterns: Xᵀ, one a row, (patterns, dim) or (..., patterns, dim).
        beta: inverse temperature, above 0; 1/√dim is the scale of attention.

    Returns:
        The new state, of the shape of `state`.

    Raises:
        ValueError: `beta` is not above 0, or widths or types differ.

    Source: Ramsauer et al. 2021, equation 3.

    >>> patterns = torch.tensor([[1.0, 1.0, -1.0, -1.0], [1.0, -1.0, 1.0, -1.0]])
    >>> hopfield_update(torch.tensor([1.0, 1.0, -1.0, 0.0]), patterns, beta=8.0)
    tensor([ 1.,  1., -1., -1.])
    """
    if isinstance(beta, Tensor) and beta.ndim:
        raise ValueError(f"beta must be a number or a 0-d tensor, got {tuple(beta.shape)}")
    if values_known():
        check_above(0, beta=beta)
    shapes = f"{tuple(state.shape)} {state.dtype} and {tuple(patterns.shape)} {patterns.dtype}"
    if state.ndim < 1 or patterns.ndim < 2 or state.shape[-1] != patterns.shape[-1]:
        raise ValueError(f"state and patterns must be rows of the same width, got {shapes}")
    if state.dtype != patterns.dtype or not state.is_floating_point():
        raise ValueError(f"state and patterns must be of one floating-point type, got {shapes}")
    wide = torch.promote_types(state.dtype, torch.float32)
    query, key = torch.atleast_2d(state.to(wide)) * beta, patterns.to(wide)
    output = dot_product_attention(query, key, key, scale=1.0)[0].to(state.dtype)
    return output.squeeze(-2) if state.ndim == 1 else output
