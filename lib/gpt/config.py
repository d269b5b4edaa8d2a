"""The shape of a GPT."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GPTConfig:
    """Say how large a GPT is.

    Args:
        vocab_size: number of different tokens.
        context_length: rows of the table of positions: the most tokens it reads at once.
        dim: width of a token.
        layers: number of blocks.
        heads: query heads a layer; must divide `dim`.
        kv_heads: key-value heads a layer; must divide `heads`. `heads` when left out (multi-head attention);
            with fewer, groups of heads / kv_heads query heads share keys and values (grouped-query attention).

    Raises:
        ValueError: a number is below 1, or one that must divide another doesn't.

    >>> config = GPTConfig(vocab_size=100, context_length=16, dim=64, layers=2, heads=4, kv_heads=2)
    >>> config.head_dim
    16
    """

    vocab_size: int
    context_length: int
    dim: int
    layers: int
    heads: int
    kv_heads: int = None  # pyright: ignore[reportAssignmentType]  # settled below

    def __post_init__(self) -> None:
        if self.kv_heads is None:
            object.__setattr__(self, "kv_heads", self.heads)
        for name, number in vars(self).items():
            if number < 1:
                raise ValueError(f"{name} must be at least 1, got {number}")
        if self.dim % self.heads:
            raise ValueError(f"heads must divide dim, got dim = {self.dim} and heads = {self.heads}")
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads must divide heads, got heads = {self.heads} and kv_heads = {self.kv_heads}")

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads
