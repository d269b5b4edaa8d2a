"""What the tests of MiniGPT share: small models with large weights, ours and Hugging Face's, and tokens."""

from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from lib.gpt import GPTConfig, MiniGPT

CONFIG = GPTConfig(vocab_size=11, context_length=9, dim=24, layers=3, heads=6)


def gpt(**changes: int) -> MiniGPT:
    """A model with large weights, so that what it says depends on all it reads."""
    torch.manual_seed(0)
    model = MiniGPT(replace(CONFIG, **changes))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def gpt2(positions: int, **options: Any) -> Any:
    """Hugging Face's model of the same size."""
    torch.manual_seed(0)
    sizes: Any = {"vocab_size": 11, "n_positions": positions, "n_embd": 24, "n_layer": 3, "n_head": 6}
    model: Any = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=None, **options)).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def some_tokens(*shape: int) -> Tensor:
    return torch.randint(CONFIG.vocab_size, shape, generator=Generator().manual_seed(1))
