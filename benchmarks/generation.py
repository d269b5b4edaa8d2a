"""Tokens a second of MiniGPT with its cache, without it, and of Hugging Face's GPT-2 with its own.

The weights are the same and drawn at random, the choice is greedy, the batch 1, on one thread; each is measured in
turn, and the best of its turns counts. All must generate the same tokens. Fails if MiniGPT with its cache is not at
least twice as fast as Hugging Face's class at each length.
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
SHAPES = {"2 layers, dim 64, 4 heads": (2, 64, 4), "4 layers, dim 128, 4 heads": (4, 128, 4)}
VOCABULARY = 1000
LEAST_RATIO = 2.0
TURNS = 3


def hugging_face(layers: int, dim: int, heads: int) -> Any:
    torch.manual_seed(0)
    sizes: Any = {"n_layer": layers, "n_embd": dim, "n_head": heads}
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=max(LENGTHS),
        bos_token_id=0,
        eos_token_id=None,
        initializer_range=0.2,
        **sizes,
    )
    return GPT2LMHeadModel(config).eval()


def contenders(theirs: Any) -> dict[str, Callable[[Tensor, int], Tensor]]:
    ours = MiniGPT.from_gpt2(theirs)
    return {
        "with cache": lambda start, new: generate(ours, start, new, temperature=0),
        "without": lambda start, new: generate(ours, start, new, temperature=0, use_cache=False),
        "Hugging Face": lambda start, new: theirs.generate(
            start, attention_mask=torch.ones_like(start), max_new_tokens=new, do_sample=False, pad_token_id=0
        ),
    }


def measure(run: Callable[[Tensor, int], Tensor], length: int) -> tuple[float, Tensor]:
    """Tokens a second up to `length`, from one token, and what was generated."""
    start = time.perf_counter()
    tokens = run(torch.tensor([[1]]), length - 1)
    return (length - 1) / (time.perf_counter() - start), tokens


def main() -> int:
    torch.set_num_threads(1)
    worst = float("inf")
    for name, shape in SHAPES.items():
        print(f"{name}, vocabulary {VOCABULARY}: tokens a second")
        runs = contenders(hugging_face(*shape))
        for length in LENGTHS:
            best = dict.fromkeys(runs, 0.0)
            for turn in range(TURNS):
                made = []
                for label, run in runs.items():
                    if label == "without" and turn:
                        continue  # far from the mark, and slow
                    speed, tokens = measure(run, length)
                    best[label] = max(best[label], speed)
                    made.append(tokens)
                assert all(torch.equal(tokens, made[0]) for tokens in made)
            ratio = best["with cache"] / best["Hugging Face"]
            worst = min(worst, ratio)
            speeds = ", ".join(f"{label} {speed:.0f}" for label, speed in best.items())
            print(f"  length {length}: {speeds}; ratio to Hugging Face {ratio:.1f} (at least {LEAST_RATIO:.0f})")
    return int(worst < LEAST_RATIO)


if __name__ == "__main__":
    sys.exit(main())
