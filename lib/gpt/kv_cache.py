"""What a decoder keeps of earlier tokens: their keys and values, which never change again."""

import torch
from torch import Tensor

from lib.gpt.config import GPTConfig


class KVCache:
    """Hold the keys and values of up to `context_length` tokens, in buffers made once.

        bytes = 2 · layers · batch · kv_heads · context_length · head_dim · bytes of a number

    `length` tokens are in it. A model writes those of new tokens behind them and moves `length` on; to begin anew,
    set it to 0.

    Args:
        config: shape of the model.
        batch_size: sequences side by side.
        dtype: of the numbers; the default type when left out.
        device: where the buffers are.

    Raises:
        ValueError: `batch_size` is below 1.

    Source: Pope et al. 2022, §3.3.

    >>> config = GPTConfig(vocab_size=10, context_length=16, dim=8, layers=3, heads=4, kv_heads=2)
    >>> cache = KVCache(config, batch_size=5)
    >>> cache.keys.shape, cache.bytes == 2 * 3 * 5 * 2 * 16 * 2 * 4
    (torch.Size([3, 5, 2, 16, 2]), True)
    """

    def __init__(
        self,
        config: GPTConfig,
        batch_size: int,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        shape = (config.layers, batch_size, 2 * config.kv_heads, config.context_length, config.head_dim)
        self.buffer = torch.zeros(shape, dtype=dtype, device=device)  # side by side: one copy writes both
        self.keys, self.values = self.buffer.chunk(2, 2)  # (layers, batch, kv_heads, context_length, head_dim)
        self.length = 0

    @property
    def batch_size(self) -> int:
        return self.buffer.shape[1]

    @property
    def context_length(self) -> int:
        return self.buffer.shape[3]

    @property
    def bytes(self) -> int:
        """Of keys and values, whether full or not."""
        return self.buffer.nbytes

    def update(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write a layer's keys and values of new tokens, and return views of those of all tokens so far.

        `key` and `value` are (batch, kv_heads, new, head_dim), the views (batch, kv_heads, length + new, head_dim).
        """
        end = self.length + key.shape[2]
        self.keys[layer, :, :, self.length : end] = key
        self.values[layer, :, :, self.length : end] = value
        return self.keys[layer, :, :, :end], self.values[layer, :, :, :end]
