"""What chapter 2.1.0 claims about the cost of attention: A11."""

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from lib.attention import dot_product_attention, tiled_attention
from lib.data import results
from tests.claims.prose import almost, stated


class PeakMemory(TorchDispatchMode):
    """The most bytes alive at once in what is computed inside."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[int, int] = {}
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in (leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)):
            storage = tensor.untyped_storage()
            if storage._cdata not in self.alive:
                self.alive[storage._cdata] = storage.nbytes()
                weakref.finalize(storage, self.alive.pop, storage._cdata, None)
        self.peak = max(self.peak, sum(self.alive.values()))
        return result


def cost(attend: Callable[..., Any], length: int) -> tuple[int, int]:
    q, k, v = (torch.ones(length, 64) for _ in range(3))
    with torch.no_grad(), FlopCounterMode(display=False) as work, PeakMemory() as memory:
        attend(q, k, v)
    return memory.peak, work.get_total_flops()


def tiled(*qkv: Tensor) -> Tensor:
    return tiled_attention(*qkv, block_size=64)


def test_a11_work_grows_as_t_squared_and_only_the_matrix_makes_memory_do_so():
    sizes = (512, 1024)
    whole, tiles = [cost(dot_product_attention, size) for size in sizes], [cost(tiled, size) for size in sizes]
    for size, (bytes_whole, work), (bytes_tiles, tiled_work) in zip(sizes, whole, tiles, strict=True):
        assert work == tiled_work == 4 * size**2 * 64
        # Scores and weights; the output and a view of the key come on top.
        assert bytes_whole == pytest.approx(4 * 2 * size**2, rel=0.15)
        page = 4 * (size * 64 + size + 2 * 64**2 + 3 * 64 * 64)
        assert bytes_tiles - 4 * 3 * size * 64 == pytest.approx(page, rel=0.15)  # the inputs' slices don't count
    for found, pattern in (
        (whole, r"整张算的峰值从 \d+ MiB 变成 \d+ MiB，是 (\d+) 倍"),
        (tiles, r"分块的从 [\d.]+ 变成 [\d.]+ MiB，是 (\d+) 倍"),
    ):
        assert found[1][0] / found[0][0] == pytest.approx(stated("attention", pattern), rel=0.1)


def test_a11_the_page_states_what_was_measured():
    stored = results("attention_memory")
    for kind, pattern in (
        ("whole", r"整张算的峰值从 {} MiB 变成 {} MiB"),
        ("64", r"分块的从 {} 变成 {} MiB"),
    ):
        for place, length in enumerate((4096, 8192)):
            run = stored["kinds"][kind][stored["lengths"].index(length)]
            groups = [r"[\d.]+", r"[\d.]+"]
            groups[place] = r"([\d.]+)"
            assert run["bytes"] / 2**20 == almost("attention", pattern.format(*groups))
            assert run["flops"] == 4 * length**2 * 64
            both = stated("attention", rf"{'整张' if kind == 'whole' else '，分块'}是 (\d+)T\^2d")
            assert run["flops_both"] == both * length**2 * 64
