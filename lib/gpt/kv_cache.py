"""What a decoder keeps of earlier tokens: their keys and values, which never change again."""

from typing import NamedTuple

import torch
from torch import Tensor

from lib.checks import check_at_least
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
    >>> len(cache.keys), cache.keys[0].shape, cache.bytes == 2 * 3 * 5 * 2 * 16 * 2 * 4
    (3, torch.Size([5, 2, 16, 2]), True)
    """

    def __init__(
        self,
        config: GPTConfig,
        batch_size: int,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        check_at_least(1, batch_size=batch_size)
        self.batch_size, self.context_length = batch_size, config.context_length
        shape = (batch_size, config.key_value_heads, config.context_length, config.head_dim)
        with torch.inference_mode(False):  # so that a cache made in inference mode can also be used outside
            self.keys = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(config.layers)]
            self.values = [torch.zeros_like(keys) for keys in self.keys]
        self.length = 0

    @property
    def bytes(self) -> int:
        """Bytes of keys and values, whether full or not."""
        return sum(buffer.nbytes for buffer in (*self.keys, *self.values))

    def update(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write a layer's keys and values of new tokens, and return those of all tokens so far.

        `key` and `value` are (batch, kv_heads, new, head_dim); returned are (batch, kv_heads, length + new, head_dim).
        """
        return self._write(self.keys, layer, key), self._write(self.values, layer, value)

    def _write(self, buffers: list[Tensor], layer: int, new: Tensor) -> Tensor:
        start, end = self.length, self.length + new.shape[-2]
        buffer = buffers[layer]
        if buffer.requires_grad or (torch.is_grad_enabled() and new.requires_grad):
            # A gradient needs the numbers that were read: write into a copy.
            buffers[layer] = buffer = buffer.slice_scatter(new.to(buffer), -2, start, end)
        else:
            buffer.narrow(-2, start, end - start).copy_(new)
        return buffer.narrow(-2, 0, end)


class LayerCache(NamedTuple):
    """One layer's part of a `KVCache`, for its attention."""

    cache: KVCache
    layer: int

    @property
    def length(self) -> int:
        """Number of earlier tokens."""
        return self.cache.length

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add those of new tokens, and return those of all tokens so far."""
        return self.cache.update(self.layer, key, value)
