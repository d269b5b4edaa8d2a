"""Transformer (2.1.1): positions, the block, and stacks of blocks."""

from lib.transformer.block import BlockOutput, TransformerBlock
from lib.transformer.feed_forward import FeedForward, SwiGLU
from lib.transformer.masked_tokens import mask_tokens
from lib.transformer.positions import LearnedPositions, alibi_bias, alibi_slopes, apply_rope, sinusoidal_positions
from lib.transformer.rotary import RotaryAttention
from lib.transformer.stacks import Decoder, Encoder, count_parameters

__all__ = [
    "BlockOutput",
    "Decoder",
    "Encoder",
    "FeedForward",
    "LearnedPositions",
    "RotaryAttention",
    "SwiGLU",
    "TransformerBlock",
    "alibi_bias",
    "alibi_slopes",
    "apply_rope",
    "count_parameters",
    "mask_tokens",
    "sinusoidal_positions",
]
