"""GPT: a decoder-only Transformer that scores the next token, and what it takes to generate with it."""

from lib.generation import generate, window_start
from lib.gpt_config import GPTConfig
from lib.kv_cache import KVCache
from lib.mini_gpt import MiniGPT

__all__ = ["GPTConfig", "KVCache", "MiniGPT", "generate", "window_start"]
