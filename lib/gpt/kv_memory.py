"""How many bytes the keys and values of earlier tokens take, and the shapes of some well-known models."""

from typing import NamedTuple


class ModelShape(NamedTuple):
    """What of a language model's shape decides the size of its KV cache, and its weights to compare with.

    With `kv_heads` = `heads` each query head has keys of its own (multi-head attention); with 1 all share one
    (multi-query); in between, each group of heads / kv_heads query heads shares one (grouped-query).
    """

    name: str
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context_length: int
    """Tokens it reads at once; some models were trained on shorter texts first and extended later."""
    parameters: float
    source: str


SHAPES = (
    ModelShape("GPT-2", 12, 12, 12, 64, 1024, 0.124e9, "Radford et al. 2019, table 2"),
    ModelShape("GPT-2 XL", 48, 25, 25, 64, 1024, 1.56e9, "Radford et al. 2019, table 2"),
    ModelShape("GPT-3 175B", 96, 96, 96, 128, 2048, 175e9, "Brown et al. 2020, table 2.1"),
    ModelShape("Llama 2 7B", 32, 32, 32, 128, 4096, 6.74e9, "Touvron et al. 2023 (Llama 2), table 1"),
    ModelShape("Llama 2 70B", 80, 64, 8, 128, 4096, 69.0e9, "Touvron et al. 2023 (Llama 2), table 1"),
    ModelShape("Mistral 7B", 32, 32, 8, 128, 8192, 7.24e9, "Jiang et al. 2023, table 1"),
    ModelShape("Llama 3.1 8B", 32, 32, 8, 128, 131072, 8.03e9, "Grattafiori et al. 2024, table 3"),
    ModelShape("Llama 3.1 405B", 126, 128, 8, 128, 131072, 406e9, "Grattafiori et al. 2024, table 3"),
    ModelShape("Qwen2.5 7B", 28, 28, 4, 128, 131072, 7.62e9, "Yang et al. 2024 (Qwen2.5), table 1"),
)
"""Models and the papers that describe them; where one names the width only, heads are those of the released weights.

Parameters are counted on the released weights. The table of GPT-2's paper prints 117M and 1542M for its smallest and
largest model."""


def kv_cache_bytes(shape: ModelShape, tokens: int, *, batch_size: int = 1, bytes_per_number: float = 2) -> float:
    """Count the bytes of a KV cache: a key and a value for each token, in each layer, for each key-value head.

        bytes = 2 · layers · kv_heads · head_dim · tokens · batch_size · bytes_per_number

    Args:
        shape: of the model.
        tokens: in the cache, for each sequence.
        batch_size: sequences side by side.
        bytes_per_number: 4 for float32, 2 for float16 and bfloat16, 1 for int8.

    Raises:
        ValueError: a number is negative, or `bytes_per_number` is not above 0.

    Source: Pope et al. 2022, §3.3; for groups Ainslie et al. 2023, §2.

    >>> llama = next(shape for shape in SHAPES if shape.name == "Llama 2 7B")
    >>> kv_cache_bytes(llama, tokens=4096) / 2**30  # GiB
    2.0
    """
    if min(tokens, batch_size) < 0 or not bytes_per_number > 0:
        got = f"tokens = {tokens}, batch_size = {batch_size}, bytes_per_number = {bytes_per_number}"
        raise ValueError(f"tokens and batch_size must not be negative and bytes_per_number above 0, got {got}")
    numbers = 2 * shape.layers * shape.kv_heads * shape.head_dim * tokens * batch_size
    return numbers * bytes_per_number
