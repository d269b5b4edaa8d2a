"""Bytes of a KV cache: the formula against real tensors, and the shapes against their families' rules."""

import pytest
import torch

from lib.gpt import SHAPES, ModelShape, kv_cache_bytes

SMALL = ModelShape("small", layers=3, heads=6, kv_heads=2, head_dim=5, context_length=16, parameters=1.0, source="")


def bytes_of_tensors(batch: int, tokens: int, dtype: torch.dtype) -> int:
    shape = (batch, SMALL.kv_heads, tokens, SMALL.head_dim)
    return sum(torch.zeros(shape, dtype=dtype).nbytes for _ in range(SMALL.layers) for _ in ("key", "value"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8], ids=str)
def test_the_formula_counts_the_bytes_of_real_tensors(dtype: torch.dtype):
    counted = kv_cache_bytes(SMALL, 7, batch_size=4, bytes_per_number=dtype.itemsize)
    assert counted == bytes_of_tensors(4, 7, dtype)


def test_the_cache_grows_with_tokens_and_with_sequences_and_shrinks_with_groups():
    once = kv_cache_bytes(SMALL, 5)
    assert kv_cache_bytes(SMALL, 15) == kv_cache_bytes(SMALL, 5, batch_size=3) == 3 * once
    assert kv_cache_bytes(SMALL._replace(kv_heads=6), 5) == 3 * once
    assert kv_cache_bytes(SMALL._replace(kv_heads=1), 5) == once / 2
    assert kv_cache_bytes(SMALL, 0) == 0


def test_query_heads_do_not_count():
    assert kv_cache_bytes(SMALL._replace(heads=60), 5) == kv_cache_bytes(SMALL, 5)


def test_shapes_have_names_of_their_own_and_whole_groups():
    assert len({shape.name for shape in SHAPES}) == len(SHAPES)
    for shape in SHAPES:
        assert shape.heads % shape.kv_heads == 0, shape.name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokens": -1}, "tokens = -1"),
        ({"tokens": 1, "batch_size": -2}, "batch_size = -2"),
        ({"tokens": 1, "bytes_per_number": 0}, "bytes_per_number = 0"),
    ],
)
def test_bad_numbers_are_refused(options: dict[str, int], message: str):
    with pytest.raises(ValueError, match=message):
        kv_cache_bytes(SMALL, **options)
