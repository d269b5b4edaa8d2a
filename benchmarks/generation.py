"""Tokens a second of MiniGPT with its cache, without it, and of Hugging Face's GPT-2 with its own.

All have the same weights, drawn at random, and continue one token greedily up to a length, on one thread; all must
give the same tokens. They take turns, and the best turn of each counts; seconds are the processor's, so that other
work on the machine doesn't count. Fails if MiniGPT with its cache is not at least twice as fast as Hugging Face's
class at each length.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from lib.gpt import MiniGPT, generate

LENGTHS = (64, 256, 1024)
SHAPES = ((2, 64, 4), (4, 128, 4))
VOCABULARY = 1000
TURNS = 3
LEAST_RATIO = 2.0

Run = Callable[[Tensor, int], Tensor]


def hugging_face(layers: int, dim: int, heads: int) -> Any:
    torch.manual_seed(0)
    config: Any = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=max(LENGTHS),
        n_layer=layers,
        n_embd=dim,
        n_head=heads,
        initializer_range=0.2,  # so large that what comes next depends on what came before
        bos_token_id=0,
        eos_token_id=None,  # never stop early
    )
    return GPT2LMHeadModel(config).eval()


def contenders(theirs: Any) -> dict[str, Run]:
    ours = MiniGPT.from_gpt2(theirs)

    def reference(start: Tensor, new: int) -> Tensor:
        seen = torch.ones_like(start)
        return theirs.generate(start, attention_mask=seen, max_new_tokens=new, do_sample=False, pad_token_id=0)

    return {
        "with cache": lambda start, new: generate(ours, start, new, temperature=0),
        "without": lambda start, new: generate(ours, start, new, temperature=0, use_cache=False),
        "Hugging Face": reference,
    }


def race(runs: dict[str, Run], length: int) -> dict[str, float]:
    """Tokens a second of each, from one token up to `length`."""
    speeds = dict.fromkeys(runs, 0.0)
    made: list[Tensor] = []
    for turn in range(TURNS):
        for name, run in runs.items():
            if name == "without" and turn:
                continue  # slow, and only for comparison
            start = time.process_time()
            made.append(run(torch.tensor([[1]]), length - 1))
            speeds[name] = max(speeds[name], (length - 1) / (time.process_time() - start))
    if any(not torch.equal(tokens, made[0]) for tokens in made):
        raise AssertionError(f"all must give the same tokens, length {length}")
    return speeds


def main() -> int:
    torch.set_num_threads(1)
    worst = float("inf")
    for layers, dim, heads in SHAPES:
        print(f"{layers} layers, dim {dim}, {heads} heads, vocabulary {VOCABULARY}: tokens a second")
        runs = contenders(hugging_face(layers, dim, heads))
        for length in LENGTHS:
            speeds = race(runs, length)
            ratio = speeds["with cache"] / speeds["Hugging Face"]
            worst = min(worst, ratio)
            listed = ", ".join(f"{name} {speed:.0f}" for name, speed in speeds.items())
            print(f"  length {length}: {listed}; {ratio:.1f} times Hugging Face's (at least {LEAST_RATIO:.0f})")
    return int(worst < LEAST_RATIO)


if __name__ == "__main__":
    sys.exit(main())
