"""GPT (2.1.2): a decoder-only Transformer that scores the next token, and everything around it."""

from lib.gpt.action_tokens import from_bins, to_bins
from lib.gpt.config import GPTConfig
from lib.gpt.generation import generate, window_start
from lib.gpt.kv_cache import KVCache
from lib.gpt.kv_memory import SHAPES, ModelShape, kv_cache_bytes
from lib.gpt.model import MiniGPT, SelfAttention
from lib.gpt.preferences import answer_log_prob, dpo_loss, group_advantages, implicit_reward
from lib.gpt.sampling import apply_temperature, keep_top_k, keep_top_p, next_token_probabilities, sample
from lib.gpt.scaling_laws import PowerLaw, chinchilla_loss, compute_optimal, fit_power_law, training_flops
from lib.gpt.tokenizer import BPETokenizer, CharTokenizer, pre_tokenize
from lib.gpt.train import learn_by_heart, next_token_loss, pretrain, text_windows, window_batches

__all__ = [
    "SHAPES",
    "BPETokenizer",
    "CharTokenizer",
    "GPTConfig",
    "KVCache",
    "MiniGPT",
    "ModelShape",
    "PowerLaw",
    "SelfAttention",
    "answer_log_prob",
    "apply_temperature",
    "chinchilla_loss",
    "compute_optimal",
    "dpo_loss",
    "fit_power_law",
    "from_bins",
    "generate",
    "group_advantages",
    "implicit_reward",
    "keep_top_k",
    "keep_top_p",
    "kv_cache_bytes",
    "learn_by_heart",
    "next_token_loss",
    "next_token_probabilities",
    "pre_tokenize",
    "pretrain",
    "sample",
    "text_windows",
    "to_bins",
    "training_flops",
    "window_batches",
    "window_start",
]
