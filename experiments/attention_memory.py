"""Peak memory and floating-point operations of attention, with the whole matrix of weights and in tiles.

Claim: forward as well as forward and backward, the peak grows as T² with the matrix, and as T in tiles. The operations
grow as T² either way: 4T²d forward for both; the way back takes 8T²d with the stored matrix, and 10T²d in tiles, which
compute the scores once more.

Measured, not derived: `PeakMemory` adds up what tensors hold at each operation, without the inputs; one head, d = 64,
single precision. Nothing is drawn at random, so there are no seeds. Memory that a library takes within an operation
isn't seen.
"""

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from experiments.store import save, start
from lib.attention import dot_product_attention, tiled_attention

LENGTHS, BLOCKS, DIM = [2**i for i in range(7, 14)], (64, 128, 256), 64  # 128 … 8192


class PeakMemory(TorchDispatchMode):
    """The most bytes that tensors made inside hold at once."""

    def __init__(self, inputs: list[Tensor]) -> None:
        super().__init__()
        self.alive = {x.untyped_storage()._cdata: 0 for x in inputs}  # views of these are no memory of their own
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


def whole(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return dot_product_attention(query, key, value)[0]


def cost(attend: Callable[..., Tensor], length: int, backward: bool) -> tuple[int, int]:
    """Peak in bytes, and operations."""
    inputs = [torch.ones(length, DIM, requires_grad=backward) for _ in range(3)]
    grad = torch.ones(length, DIM)
    with FlopCounterMode(display=False) as work, PeakMemory([*inputs, grad]) as memory:
        output = attend(*inputs)
        if backward:
            output.backward(grad)
    return memory.peak, work.get_total_flops()


def run(length: int, block: int | None) -> dict[str, int]:
    """Peak and operations with tiles of side `block`, or with the whole matrix; forward, and with the way back."""
    attend = partial(tiled_attention, block_size=block) if block else whole
    forward, both = (cost(attend, length, backward) for backward in (False, True))
    return {"bytes": forward[0], "flops": forward[1], "bytes_both": both[0], "flops_both": both[1]}


def main() -> None:
    start()
    kinds: dict[str, int | None] = {"whole": None} | {str(block): block for block in BLOCKS}
    found = {kind: [run(length, block) for length in LENGTHS] for kind, block in kinds.items()}
    save("attention_memory", {"lengths": LENGTHS, "dim": DIM, "kinds": found})
    for kind, rows in found.items():
        for length, row in zip(LENGTHS, rows, strict=True):
            work = [row[key] / (length**2 * DIM) for key in ("flops", "flops_both")]
            memory = [row[key] / 2**20 for key in ("bytes", "bytes_both")]
            print(f"{kind:5} T = {length}: {memory[0]:.2f} and {memory[1]:.2f} MiB, {work[0]:g} and {work[1]:g} T²d")


if __name__ == "__main__":
    main()
