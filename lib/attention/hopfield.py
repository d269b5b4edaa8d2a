"""The modern Hopfield network, whose update is attention."""

from torch import Tensor

from lib.attention.dot_product import masked_softmax


def hopfield_update(state: Tensor, patterns: Tensor, beta: float | Tensor) -> Tensor:
    """Take one step of a modern Hopfield network: attention with the patterns as keys and as values.

        ξ_new = X softmax(β Xᵀ ξ)

    The paper stores patterns as columns of X; here they are rows, as tokens are.

    Args:
        state: ξ, (dim,) or (..., states, dim).
        patterns: Xᵀ, (patterns, dim) or (..., patterns, dim).
        beta: inverse temperature, above 0; 1/√dim is the scale of attention.

    Returns:
        The new state, of the shape of `state`.

    Raises:
        ValueError: `beta` is not above 0, or the widths differ.

    Source: Ramsauer et al. 2021, equation 3.

    >>> import torch
    >>> patterns = torch.tensor([[1.0, 1.0, -1.0, -1.0], [1.0, -1.0, 1.0, -1.0]])
    >>> hopfield_update(torch.tensor([1.0, 1.0, -1.0, 0.0]), patterns, beta=8.0)
    tensor([ 1.,  1., -1., -1.])
    """
    if not beta > 0:
        raise ValueError(f"beta must be above 0, got {beta}")
    if state.shape[-1] != patterns.shape[-1]:
        shapes = f"{tuple(state.shape)} and {tuple(patterns.shape)}"
        raise ValueError(f"state and patterns must be of the same width, got {shapes}")
    return masked_softmax(beta * state @ patterns.transpose(-2, -1)) @ patterns
