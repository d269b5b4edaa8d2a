"""Peak memory and time of attention with the whole (query, key) matrix, and in tiles, at 8192 tokens.

Each measurement runs in a fresh process: what it adds to the memory the process held just before, at the
highest. Fails if the tiles need more than a tenth of the matrix.
"""

import multiprocessing
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch
from torch import Tensor

from lib.attention import dot_product_attention, tiled_attention

TOKENS, DIM, BLOCK = 8192, 64, 256
LARGEST_RATIO = 1 / 10


def whole(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return dot_product_attention(query, key, value)[0]


def tiled(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return tiled_attention(query, key, value, block_size=BLOCK)


def measure(attend: Callable[..., Tensor], backward: bool) -> tuple[float, float]:
    """Peak extra memory in MiB, and seconds."""
    torch.set_num_threads(1)  # times stay comparable where other work shares the cores
    inputs = [torch.randn(1, 1, TOKENS, DIM, requires_grad=backward) for _ in range(3)]
    run(attend, [x[..., :512, :] for x in inputs], backward)  # libraries are set up here
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew from what is held now
    before, start = memory("VmRSS"), time.perf_counter()
    run(attend, inputs, backward)
    return memory("VmHWM") - before, time.perf_counter() - start


def run(attend: Callable[..., Tensor], inputs: list[Tensor], backward: bool) -> None:
    output = attend(*inputs)
    if backward:
        output.sum().backward()


def memory(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))


def main() -> int:
    fresh = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1)
    worst = 0.0
    print(f"{TOKENS} tokens, one head, dim {DIM}, tiles of {BLOCK}")
    with fresh:
        for name, backward in (("forward", False), ("forward and backward", True)):
            matrix, matrix_time = fresh.submit(measure, whole, backward).result()
            tiles, tiles_time = fresh.submit(measure, tiled, backward).result()
            ratio, time_ratio = tiles / matrix, tiles_time / matrix_time
            worst = max(worst, ratio)
            print(f"{name}: whole {matrix:.0f} MiB, {matrix_time:.2f} s; tiled {tiles:.0f} MiB, {tiles_time:.2f} s")
            print(f"  memory ratio {ratio:.3f} (at most {LARGEST_RATIO}), time ratio {time_ratio:.2f}")
    return int(worst > LARGEST_RATIO)


if __name__ == "__main__":
    sys.exit(main())
