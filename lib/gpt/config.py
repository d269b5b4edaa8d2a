"""The shape of a GPT."""

from dataclasses import asdict, dataclass

from lib.checks import check_at_least


@dataclass(frozen=True)
class GPTConfig:
    """Sizes of a GPT.

    Args:
        vocab_size: number of different tokens.
        context_length: rows of the table of positions: the most tokens it reads at once.
        dim: width of a token.
        layers: number of blocks.
        heads: query heads a layer; must divide `dim`.
        kv_heads: key-value heads a layer; must divide `heads`. As many as `heads` when left out (multi-head attention);
            with fewer, groups of query heads share keys and values (grouped-query attention).

    Raises:
        ValueError: a number is below 1, or one that must divide another doesn't.

    >>> config = GPTConfig(vocab_size=100, context_length=16, dim=64, layers=2, heads=4)
    >>> config.head_dim, config.key_value_heads
    (16, 4)
    """

    vocab_size: int
    context_length: int
    dim: int
    layers: int
    heads: int
    kv_heads: int | None = None

    def __post_init__(self) -> None:
        check_at_least(1, **{name: number for name, number in asdict(self).items() if number is not None})
        if self.dim % self.heads:
            raise ValueError(f"heads must divide dim, got dim = {self.dim} and heads = {self.heads}")
        if self.heads % self.key_value_heads:
            raise ValueError(f"kv_heads must divide heads, got heads = {self.heads} and kv_heads = {self.kv_heads}")

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.dim // self.heads

    @property
    def key_value_heads(self) -> int:
        """`kv_heads`, or `heads` where that was left out."""
        return self.heads if self.kv_heads is None else self.kv_heads
