"""Attention (2.1.0): a query is compared with keys, and the values are averaged by how well they match.

Shapes are (batch, heads, time, dim), batch first; functions take any leading shape. Masks are boolean,
`True` = may attend. A blocked weight is exactly 0, whatever finite number stands there; a key hidden from
every query (padding) may hold anything, inf and NaN too. A query with nothing to attend to gets a row of
zeros, forward and backward.
"""

from lib.attention.additive import AdditiveAttention
from lib.attention.dot_product import dot_product_attention, fused_attention, masked_softmax
from lib.attention.hopfield import hopfield_update
from lib.attention.kernel_regression import kernel_regression
from lib.attention.masks import block_causal_mask, causal_mask, padding_mask
from lib.attention.multi_head import MultiHeadAttention
from lib.attention.tiled import tiled_attention

__all__ = [
    "AdditiveAttention",
    "MultiHeadAttention",
    "block_causal_mask",
    "causal_mask",
    "dot_product_attention",
    "fused_attention",
    "hopfield_update",
    "kernel_regression",
    "masked_softmax",
    "padding_mask",
    "tiled_attention",
]
