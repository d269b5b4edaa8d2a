"""Bad input, for every public function of `lib`: a ValueError that names the argument.

One row a mistake: a wrong rank, width, type or number, NaN, nothing at all, or a batch that doesn't match.
"""

import math
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from importlib import import_module
from itertools import repeat
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn

from lib.attention import (
    AdditiveAttention,
    MultiHeadAttention,
    block_causal_mask,
    causal_mask,
    dot_product_attention,
    fused_attention,
    hopfield_update,
    kernel_regression,
    masked_softmax,
    padding_mask,
    tiled_attention,
)
from lib.data import (
    bright_block,
    date_batch,
    dates,
    decode_text,
    encode_text,
    noisy_curve,
    photo_crops,
    poems,
    poems_by_heart,
    results,
    reversed_digits,
    tactile_batches,
)
from lib.explore import Explorer, bars, heatmap, image, lines, product, readout
from lib.gpt import SHAPES as MODEL_SHAPES
from lib.gpt import (
    BPETokenizer,
    CharTokenizer,
    GPTConfig,
    KVCache,
    MiniGPT,
    SelfAttention,
    answer_log_prob,
    apply_temperature,
    chinchilla_loss,
    compute_optimal,
    dpo_loss,
    fit_power_law,
    from_bins,
    generate,
    group_advantages,
    implicit_reward,
    keep_top_k,
    keep_top_p,
    kv_cache_bytes,
    learn_by_heart,
    next_token_loss,
    next_token_probabilities,
    pretrain,
    sample,
    text_windows,
    to_bins,
    training_flops,
    window_batches,
    window_start,
)
from lib.plots import curves
from lib.plots import heatmap as draw_heatmap
from lib.seq2seq import Seq2Seq, greedy_decode, noisy_inputs, pair_batch, teacher_forcing_loss
from lib.training import fit
from lib.transformer import (
    Decoder,
    Encoder,
    FeedForward,
    LearnedPositions,
    RotaryAttention,
    SwiGLU,
    TransformerBlock,
    alibi_bias,
    alibi_slopes,
    apply_rope,
    mask_tokens,
    sinusoidal_positions,
)
from lib.vit import (
    MaskedAutoencoder,
    ViT,
    ViTConfig,
    grid_positions,
    join_windows,
    masked_pixels,
    patch_grid,
    patchify,
    random_masking,
    reconstruction_loss,
    split_windows,
    unpatchify,
)

Row = tuple[str, str, Callable[[], Any]]  # what is called, the argument that the message names, the call

NAN = math.nan
GPT = MiniGPT(GPTConfig(vocab_size=11, context_length=9, dim=8, layers=1, heads=2))
VIT_CONFIG = ViTConfig(image_size=8, patch_size=2, channels=1, dim=8, layers=1, heads=2, classes=3)
VIT, MAE = ViT(VIT_CONFIG), MaskedAutoencoder(VIT_CONFIG, dim=8, layers=1, heads=2)
PAIRS = Seq2Seq(vocab_size=11, embedding_dim=4, hidden_dim=6)


def zeros(*shape: int, **options: Any) -> Tensor:
    return torch.zeros(shape, **options)


def integers(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.long)


def seeded() -> Generator:
    return Generator().manual_seed(0)


def masks() -> Iterator[Row]:
    yield "causal_mask", "queries", lambda: causal_mask(-1)
    yield "causal_mask", "keys", lambda: causal_mask(2, -1)
    yield "padding_mask", "lengths", lambda: padding_mask([3, 5], 4)
    yield "padding_mask", "lengths", lambda: padding_mask(torch.tensor([0.5]), 4)
    yield "padding_mask", "lengths", lambda: padding_mask(integers(2, 2), 4)
    yield "padding_mask", "size", lambda: padding_mask([], -1)
    yield "block_causal_mask", "block_sizes", lambda: block_causal_mask([])
    yield "block_causal_mask", "block_sizes", lambda: block_causal_mask([2, -1])


def kernels() -> Iterator[Row]:
    q, k, v = zeros(2, 5, 8), zeros(2, 7, 8), zeros(2, 7, 3)
    for name, attend in {
        "dot_product_attention": dot_product_attention,
        "fused_attention": fused_attention,
        "tiled_attention": partial(tiled_attention, block_size=2),
    }.items():
        yield name, "query, key and value", lambda f=attend: f(zeros(8), k, v)
        yield name, "query and key", lambda f=attend: f(q, zeros(2, 7, 6), v)
        yield name, "key and value|each key needs one value", lambda f=attend: f(q, k, zeros(2, 6, 3))
        yield name, "query, key", lambda f=attend: f(q, zeros(3, 7, 8), zeros(3, 7, 3))
        yield name, "query, key and value", lambda f=attend: f(q, k.double(), v)
        yield name, "query, key and value", lambda f=attend: f(q.long(), k.long(), v.long())
        yield name, "mask", lambda f=attend: f(q, k, v, zeros(5, 7))
        yield name, "mask", lambda f=attend: f(q, k, v, causal_mask(7))
        yield (
            name,
            "mask",
            lambda f=attend: f(zeros(2, 2, 5, 8), zeros(2, 2, 7, 8), zeros(2, 2, 7, 3), zeros(2, 5, 7) > 0),
        )
        yield name, "scale", lambda f=attend: f(q, k, v, scale=NAN)
    for name, attend in (("dot_product_attention", dot_product_attention), ("fused_attention", fused_attention)):
        yield name, "bias", lambda f=attend: f(q, k, v, bias=zeros(7, 5))
        yield name, "bias", lambda f=attend: f(q, k, v, bias=integers(5, 7))
    yield "tiled_attention", "block_size", lambda: tiled_attention(q, k, v, block_size=0)
    yield "masked_softmax", "mask", lambda: masked_softmax(zeros(5, 7), zeros(5, 7))
    yield "masked_softmax", "mask", lambda: masked_softmax(zeros(5, 7), causal_mask(4))
    yield "masked_softmax", "scores", lambda: masked_softmax(integers(5, 7))
    x, y = zeros(7), zeros(7)
    yield "kernel_regression", "sigma", lambda: kernel_regression(zeros(3), x, y, 0.0)
    yield "kernel_regression", "sigma", lambda: kernel_regression(zeros(3), x, y, NAN)
    yield "kernel_regression", "x_train and y_train", lambda: kernel_regression(zeros(3), x, zeros(6), 1.0)
    yield "kernel_regression", "x_train and y_train", lambda: kernel_regression(zeros(3), zeros(0), zeros(0), 1.0)
    yield "kernel_regression", "x_query", lambda: kernel_regression(torch.tensor(0.0), x, y, 1.0)
    yield "hopfield_update", "beta", lambda: hopfield_update(zeros(4), zeros(3, 4), 0.0)
    yield "hopfield_update", "beta", lambda: hopfield_update(zeros(4), zeros(3, 4), NAN)
    yield "hopfield_update", "state and patterns", lambda: hopfield_update(zeros(5), zeros(3, 4), 1.0)
    yield "hopfield_update", "patterns", lambda: hopfield_update(zeros(4), zeros(4), 1.0)


def attention_modules() -> Iterator[Row]:
    yield "AdditiveAttention", "query_dim|hidden_dim", lambda: AdditiveAttention(4, 3, 0)
    additive = AdditiveAttention(4, 3, 5)
    yield "AdditiveAttention", "query", lambda: additive(zeros(2, 5, 3), zeros(2, 7, 3), zeros(2, 7, 3))
    yield "AdditiveAttention", "key", lambda: additive(zeros(2, 5, 4), zeros(2, 7, 4), zeros(2, 7, 3))
    yield "AdditiveAttention", "value", lambda: additive(zeros(2, 5, 4), zeros(2, 7, 3), zeros(2, 6, 3))
    yield "AdditiveAttention", "mask", lambda: additive(zeros(2, 5, 4), zeros(2, 7, 3), zeros(2, 7, 3), zeros(5, 7))
    for name, make in {
        "MultiHeadAttention": MultiHeadAttention,
        "RotaryAttention": RotaryAttention,
        "SelfAttention": SelfAttention,
    }.items():
        attend = make(8, 2)
        yield name, "heads", lambda f=make: f(8, 3)
        yield name, "heads", lambda f=make: f(8, 0)
        yield name, "kv_heads", lambda f=make: f(8, 2, kv_heads=3)
        yield name, "query", lambda f=attend: f(zeros(2, 5, 7))
        yield name, "query", lambda f=attend: f(zeros(8))
        yield name, "query", lambda f=attend: f(integers(2, 5, 8))
        yield name, "mask", lambda f=attend: f(zeros(2, 5, 8), mask=zeros(5, 5))
        yield name, "mask", lambda f=attend: f(zeros(2, 5, 8), mask=causal_mask(4))
        yield name, "mask", lambda f=attend: f(zeros(2, 5, 8), mask=causal_mask(5).expand(2, 5, 5))
        yield name, "bias", lambda f=attend: f(zeros(2, 5, 8), bias=zeros(4, 4))
    yield "MultiHeadAttention", "context", lambda: MultiHeadAttention(8, 2)(zeros(2, 5, 8), zeros(2, 5, 7))
    yield "MultiHeadAttention", "query|context", lambda: MultiHeadAttention(8, 2)(zeros(2, 5, 8), zeros(3, 5, 8))
    yield "SelfAttention", "context", lambda: SelfAttention(8, 2)(zeros(2, 5, 8), zeros(2, 5, 8))
    yield "RotaryAttention", "heads|dim", lambda: RotaryAttention(6, 2)
    yield "RotaryAttention", "context", lambda: RotaryAttention(8, 2)(zeros(2, 5, 8), zeros(2, 3, 8))


def transformer() -> Iterator[Row]:
    yield "sinusoidal_positions", "length", lambda: sinusoidal_positions(-1, 8)
    yield "sinusoidal_positions", "dim", lambda: sinusoidal_positions(3, 0)
    yield "sinusoidal_positions", "base", lambda: sinusoidal_positions(3, 8, base=0.0)
    yield "LearnedPositions", "max_length", lambda: LearnedPositions(0, 8)
    yield "LearnedPositions", "positions|length", lambda: LearnedPositions(4, 8)(5)
    yield "LearnedPositions", "positions|offset", lambda: LearnedPositions(4, 8)(2, offset=-1)
    yield "apply_rope", "x", lambda: apply_rope(zeros(5, 7))
    yield "apply_rope", "x", lambda: apply_rope(integers(5, 8))
    yield "apply_rope", "positions", lambda: apply_rope(zeros(5, 8), torch.arange(4))
    yield "apply_rope", "base", lambda: apply_rope(zeros(5, 8), base=NAN)
    yield "apply_rope", "layout", lambda: apply_rope(zeros(5, 8), layout="split")  # pyright: ignore[reportArgumentType]
    yield "alibi_slopes", "heads", lambda: alibi_slopes(0)
    yield "alibi_bias", "heads", lambda: alibi_bias(0, 3)
    yield "alibi_bias", "queries", lambda: alibi_bias(2, -3)
    for name, make in {"FeedForward": FeedForward, "SwiGLU": SwiGLU}.items():
        yield name, "dim", lambda f=make: f(0)
        yield name, "hidden", lambda f=make: f(8, 0)
        yield name, "x", lambda f=make: f(8)(zeros(2, 7))
    for name, make in {
        "TransformerBlock": TransformerBlock,
        "Encoder": partial(Encoder, layers=2),
        "Decoder": partial(Decoder, layers=2, cross_attention=False),
    }.items():
        yield name, "heads", lambda f=make: f(8, 3)
        yield name, "norm", lambda f=make: f(8, 2, norm="both")
        yield name, "x", lambda f=make: f(8, 2)(zeros(2, 5, 7))
        yield name, "x", lambda f=make: f(8, 2)(integers(2, 5, 8))
        yield name, "mask", lambda f=make: f(8, 2)(zeros(2, 5, 8), mask=zeros(5, 5))
    yield "TransformerBlock", "memory", lambda: TransformerBlock(8, 2)(zeros(2, 5, 8), memory=zeros(2, 5, 8))
    yield "Decoder", "memory", lambda: Decoder(8, 2, 1)(zeros(2, 5, 8))
    yield "Decoder", "memory", lambda: Decoder(8, 2, 1)(zeros(2, 5, 8), zeros(2, 5, 7))
    yield "Decoder", "layers", lambda: Decoder(8, 2, 0)
    yield "Encoder", "layers", lambda: Encoder(8, 2, 0)
    mask = partial(mask_tokens, mask_token=7, vocab_size=7, generator=seeded())
    yield "mask_tokens", "tokens", lambda: mask(zeros(3))
    yield "mask_tokens", "probability", lambda: mask(integers(3), probability=1.5)
    yield "mask_tokens", "vocab_size", lambda: mask(integers(3), vocab_size=0)


def gpt() -> Iterator[Row]:
    for name in ("vocab_size", "context_length", "dim", "layers", "heads", "kv_heads"):
        sizes = {"vocab_size": 5, "context_length": 4, "dim": 8, "layers": 1, "heads": 2}
        yield "GPTConfig", name, lambda changed={**sizes, name: 0}: GPTConfig(**changed)
    yield "KVCache", "batch_size", lambda: KVCache(GPT.config, 0)
    for name, read in {"MiniGPT": GPT, "generate": partial(generate, GPT, new_tokens=2)}.items():
        yield name, "tokens", lambda f=read: f(zeros(2, 3))
        yield name, "tokens", lambda f=read: f(integers(3))
        yield name, "tokens", lambda f=read: f(integers(2, 0))
        yield name, "tokens", lambda f=read: f(torch.tensor([[3, 11]]))
        yield name, "tokens", lambda f=read: f(torch.tensor([[-1, 3]]))
    yield "MiniGPT", "tokens", lambda: GPT(integers(2, 10))
    yield "MiniGPT", "cache", lambda: GPT(integers(3, 2), KVCache(GPT.config, 2))
    yield "generate", "new_tokens", lambda: generate(GPT, integers(1, 2), -1)
    yield "generate", "temperature", lambda: generate(GPT, integers(1, 2), 1, temperature=-1.0)
    yield "generate", "top_k", lambda: generate(GPT, integers(1, 2), 1, top_k=0)
    yield "generate", "top_p", lambda: generate(GPT, integers(1, 2), 1, top_p=1.5)
    yield "window_start", "length", lambda: window_start(-1, 4)
    yield "window_start", "context_length", lambda: window_start(5, 0)
    for name, filtered in {
        "apply_temperature": partial(apply_temperature, t=1.0),
        "keep_top_k": partial(keep_top_k, k=2),
        "keep_top_p": partial(keep_top_p, p=0.5),
        "next_token_probabilities": next_token_probabilities,
        "sample": sample,
    }.items():
        yield name, "logits", lambda f=filtered: f(torch.tensor(1.0))
        yield name, "logits", lambda f=filtered: f(zeros(3, 0))
        yield name, "logits", lambda f=filtered: f(integers(3, 5))
    for name, drawn in {"next_token_probabilities": next_token_probabilities, "sample": sample}.items():
        for row in ([NAN, 1.0], [math.inf, 1.0], [-math.inf, -math.inf]):
            yield name, "logits", lambda f=drawn, row=row: f(torch.tensor(row))
        for number in (-0.1, NAN):
            yield name, "temperature", lambda f=drawn, t=number: f(zeros(5), temperature=t)
        yield name, "top_k", lambda f=drawn: f(zeros(5), top_k=0)
        yield name, "top_p", lambda f=drawn: f(zeros(5), top_p=NAN)
    yield "apply_temperature", "temperature", lambda: apply_temperature(zeros(5), NAN)
    yield "keep_top_k", "top_k", lambda: keep_top_k(zeros(5), 0)
    yield "keep_top_p", "top_p", lambda: keep_top_p(zeros(5), -0.1)


def around_gpt() -> Iterator[Row]:
    yield "CharTokenizer", "text", lambda: CharTokenizer("")
    yield "CharTokenizer", "text", lambda: CharTokenizer("ab").encode("abc")
    yield "CharTokenizer", "ids", lambda: CharTokenizer("ab").decode([2])
    yield "BPETokenizer", "merges", lambda: BPETokenizer([(0, 256)])
    yield "BPETokenizer", "vocab_size", lambda: BPETokenizer.train("ab", 255)
    yield "BPETokenizer", "ids", lambda: BPETokenizer().decode([256])
    yield "text_windows", "tokens", lambda: text_windows(integers(2, 5), 2)
    yield "text_windows", "length", lambda: text_windows(integers(5), 5)
    batches = partial(window_batches, integers(20), 4, generator=seeded())
    yield "window_batches", "batch_size", lambda: batches(0)
    yield "window_batches", "oversample", lambda: batches(2, oversample=[16])
    yield "next_token_loss", "tokens", lambda: next_token_loss(GPT, zeros(2, 3), integers(2, 3))
    yield "next_token_loss", "targets", lambda: next_token_loss(GPT, integers(2, 3), integers(2, 4))
    pair = repeat((integers(2, 3), integers(2, 3)))
    yield "pretrain", "steps", lambda: pretrain(GPT, pair, steps=0)
    yield "pretrain", "lr", lambda: pretrain(GPT, pair, steps=1, lr=NAN)
    yield "learn_by_heart", "length|verses", lambda: learn_by_heart(GPT, [[1, 2]], generator=seeded())
    yield "learn_by_heart", "steps", lambda: learn_by_heart(GPT, [[1] * 20], steps=0, generator=seeded())
    answer = torch.tensor([[False, True, True]])
    yield "answer_log_prob", "logits", lambda: answer_log_prob(zeros(1, 4, 5), integers(1, 3), answer)
    yield "answer_log_prob", "answer", lambda: answer_log_prob(zeros(1, 3, 5), integers(1, 3), integers(1, 3))
    yield "answer_log_prob", "answer", lambda: answer_log_prob(zeros(1, 3, 5), integers(1, 3), ~answer)
    yield "answer_log_prob", "tokens", lambda: answer_log_prob(zeros(1, 3, 5), integers(1, 3) + 5, answer)
    yield "implicit_reward", "beta", lambda: implicit_reward(zeros(2), zeros(2), beta=0.0)
    yield "implicit_reward", "policy and reference", lambda: implicit_reward(zeros(2), zeros(3), beta=1.0)
    yield "dpo_loss", "beta", lambda: dpo_loss(*4 * [zeros(2)], beta=NAN)
    yield "dpo_loss", "chosen and rejected", lambda: dpo_loss(zeros(2), zeros(3), zeros(2), zeros(3))
    yield "group_advantages", "rewards", lambda: group_advantages(zeros(3, 1))
    yield "group_advantages", "rewards", lambda: group_advantages(torch.tensor(1.0))
    yield "fit_power_law", "x and y", lambda: fit_power_law(torch.tensor([1.0, 2.0]), torch.tensor([1.0]))
    yield "fit_power_law", "x and y", lambda: fit_power_law(torch.tensor([2.0, 2.0]), torch.tensor([1.0, 2.0]))
    yield "fit_power_law", "x", lambda: fit_power_law(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 2.0]))
    yield "training_flops", "parameters", lambda: training_flops(0, 1)
    yield "training_flops", "tokens", lambda: training_flops(1, NAN)
    yield "compute_optimal", "flops", lambda: compute_optimal(-1.0)
    yield "compute_optimal", "tokens_per_parameter", lambda: compute_optimal(1.0, tokens_per_parameter=0.0)
    yield "chinchilla_loss", "parameters", lambda: chinchilla_loss(torch.tensor(0.0), torch.tensor(1.0))
    yield "to_bins", "values", lambda: to_bins(torch.tensor([NAN]), -1.0, 1.0)
    yield "to_bins", "low", lambda: to_bins(zeros(2), 1.0, -1.0)
    yield "to_bins", "bins", lambda: to_bins(zeros(2), -1.0, 1.0, bins=0)
    yield "from_bins", "tokens", lambda: from_bins(torch.tensor([256]), -1.0, 1.0)
    yield "from_bins", "tokens", lambda: from_bins(zeros(2), -1.0, 1.0)
    yield "kv_cache_bytes", "tokens", lambda: kv_cache_bytes(MODEL_SHAPES[0], -1)
    yield "kv_cache_bytes", "bytes_per_number", lambda: kv_cache_bytes(MODEL_SHAPES[0], 1, bytes_per_number=0)


def vit() -> Iterator[Row]:
    config: Any = partial(ViTConfig, channels=1, dim=8, layers=1, heads=2, classes=3)
    yield "ViTConfig", "patch_size", lambda: config(9, 2)
    yield "ViTConfig", "layers", lambda: config(8, 2, layers=0)
    yield "ViTConfig", "pooling", lambda: config(8, 2, pooling="max")
    yield "ViTConfig", "positions", lambda: config(8, 2, positions="rotary")
    for name, read in {"ViT": VIT, "MaskedAutoencoder": lambda images: MAE(images, integers(len(images), 1))}.items():
        yield name, "images", lambda f=read: f(zeros(2, 1, 8, 6))
        yield name, "images", lambda f=read: f(zeros(2, 3, 8, 8))
        yield name, "images", lambda f=read: f(zeros(2, 8, 8))
    images = zeros(2, 1, 8, 8)
    visible = {"one row": integers(1, 3), "rank": integers(2), "outside": integers(2, 3) + 16, "type": zeros(2, 3)}
    for name, read in {
        "MaskedAutoencoder": partial(MAE, images),
        "reconstruction_loss": partial(reconstruction_loss, MAE, images),
        "ViT": lambda v: VIT.encode(images, visible=v),
    }.items():
        for wrong in (*visible.values(), torch.tensor([[1, 1, 2], [0, 1, 2]])):
            yield name, "visible", lambda f=read, v=wrong: f(v)
    yield "MaskedAutoencoder", "dim", lambda: MaskedAutoencoder(VIT_CONFIG, dim=7, layers=1, heads=1)
    yield "masked_pixels", "visible", lambda: masked_pixels(integers(2), VIT_CONFIG)
    yield "masked_pixels", "visible", lambda: masked_pixels(integers(2, 3) + 16, VIT_CONFIG)
    yield "random_masking", "ratio", lambda: random_masking(2, 16, 1.0, generator=seeded())
    yield "random_masking", "ratio", lambda: random_masking(2, 16, NAN, generator=seeded())
    yield "random_masking", "n", lambda: random_masking(-1, 16, generator=seeded())
    yield "grid_positions", "dim", lambda: grid_positions(2, 3, 7)
    yield "patch_grid", "patch_size", lambda: patch_grid(8, 9, 4)
    yield "patch_grid", "patch_size", lambda: patch_grid(8, 8, 0)
    yield "patchify", "images", lambda: patchify(zeros(8, 8), 2)
    yield "patchify", "patch_size", lambda: patchify(zeros(1, 1, 8, 9), 2)
    yield "unpatchify", "patches", lambda: unpatchify(zeros(1, 16), 2)
    yield "unpatchify", "patches", lambda: unpatchify(zeros(1, 16, 5), 2)
    yield "unpatchify", "patches", lambda: unpatchify(zeros(1, 15, 4), 2)
    yield "split_windows", "window", lambda: split_windows(zeros(1, 16, 3), (4, 4), 3)
    yield "split_windows", "tokens", lambda: split_windows(zeros(1, 15, 3), (4, 4), 2)
    yield "join_windows", "windows", lambda: join_windows(zeros(3, 4, 3), (4, 4), 2)
    yield "join_windows", "window", lambda: join_windows(zeros(4, 4, 3), (4, 4), 3)


def seq2seq() -> Iterator[Row]:
    yield "Seq2Seq", "hidden_dim", lambda: Seq2Seq(5, 4, 0)
    yield "Seq2Seq", "source", lambda: PAIRS(integers(2, 4) + 11, integers(2, 3))
    yield "Seq2Seq", "source", lambda: PAIRS(zeros(2, 4), integers(2, 3))
    yield "Seq2Seq", "source", lambda: PAIRS(integers(2, 0), integers(2, 3))
    yield "Seq2Seq", "target_in", lambda: PAIRS(integers(2, 4), integers(3, 3))
    yield "Seq2Seq", "target_in", lambda: PAIRS(integers(2, 4), integers(3))
    yield "Seq2Seq", "source_lengths", lambda: PAIRS(integers(2, 4), integers(2, 3), torch.tensor([4]))
    yield "Seq2Seq", "lengths", lambda: PAIRS(integers(2, 4), integers(2, 3), torch.tensor([4, 5]))
    yield "Seq2Seq", "lengths", lambda: PAIRS(integers(2, 4), integers(2, 3), torch.tensor([4.0, 3.0]))
    yield "greedy_decode", "start", lambda: greedy_decode(PAIRS, integers(2, 4), 11, 3)
    yield "greedy_decode", "steps", lambda: greedy_decode(PAIRS, integers(2, 4), 10, 0)
    yield "greedy_decode", "source", lambda: greedy_decode(PAIRS, integers(4), 10, 2)
    forced = partial(teacher_forcing_loss, PAIRS, integers(2, 4), integers(2, 3))
    yield "teacher_forcing_loss", "target", lambda: forced(integers(2, 4))
    yield "pair_batch", "source", lambda: pair_batch([integers(3)], [])
    yield "pair_batch", "source", lambda: pair_batch([], [])
    yield "noisy_inputs", "rate", lambda: noisy_inputs([], 1.5, generator=seeded())


def data() -> Iterator[Row]:
    yield "bright_block", "n", lambda: bright_block(-1, generator=seeded())
    yield "bright_block", "size", lambda: bright_block(1, size=9, generator=seeded())
    yield "bright_block", "block", lambda: bright_block(1, size=8, block=5, generator=seeded())
    yield "photo_crops", "n", lambda: photo_crops(-1, generator=seeded())
    yield "photo_crops", "size", lambda: photo_crops(1, size=10_000, generator=seeded())
    yield "noisy_curve", "n", lambda: noisy_curve(0, generator=seeded())
    yield "noisy_curve", "noise", lambda: noisy_curve(3, NAN, generator=seeded())
    yield "tactile_batches", "batch_size", lambda: tactile_batches(0, generator=seeded())
    yield "tactile_batches", "tokens", lambda: tactile_batches(1, tokens=(1, 0, 1), generator=seeded())
    yield "reversed_digits", "batch_size", lambda: reversed_digits(0, generator=seeded())
    yield "reversed_digits", "lengths", lambda: reversed_digits(1, lengths=(3, 2), generator=seeded())
    yield "dates", "batch_size", lambda: dates(0, generator=seeded())
    yield "dates", "forms", lambda: dates(1, forms=["yesterday"], generator=seeded())
    yield "dates", "years", lambda: dates(1, years=(2000, 1999), generator=seeded())
    yield "date_batch", "forms", lambda: date_batch([date(2024, 3, 5)], ["yesterday"])
    yield "date_batch", "days|source", lambda: date_batch([], [])
    yield "encode_text", "text", lambda: encode_text("昨")
    yield "decode_text", "tokens", lambda: decode_text(torch.tensor([10_000]))
    yield "decode_text", "tokens", lambda: decode_text(zeros(3))
    yield "poems", "language", lambda: poems("fr")
    yield "results", "name", lambda: results("unheard")
    yield "poems_by_heart", "language", lambda: poems_by_heart("")


def training() -> Iterator[Row]:
    model, batch = nn.Linear(2, 1), (zeros(3, 2), zeros(3, 1))
    run: Any = partial(fit, model, repeat(batch), lambda m, x, y: (m(x) - y).square().mean())
    yield "fit", "steps", lambda: run(steps=0)
    yield "fit", "lr", lambda: run(steps=1, lr=NAN)
    yield "fit", "warmup", lambda: run(steps=1, warmup=2)
    yield "fit", "clip", lambda: run(steps=1, clip=0.0)
    yield "fit", "schedule", lambda: run(steps=1, schedule="linear")
    yield "fit", "batches", lambda: fit(model, [batch], lambda m, x, y: (m(x) - y).square().mean(), steps=2)
    yield "fit", "loss", lambda: fit(model, [batch], lambda m, x, y: m(x) - y, steps=1)


def explore() -> Iterator[Row]:
    panel = heatmap(zeros(2, 3, 4))
    yield "Explorer", "sliders", lambda: Explorer({}, [panel])
    yield "Explorer", "panels", lambda: Explorer({"a": [1, 2]}, [])
    yield "Explorer", "panel 0", lambda: Explorer({"a": [1, 2, 3]}, [panel])
    yield "Explorer", "start", lambda: Explorer({"a": [1, 2]}, [panel], start={"b": 1})
    yield "Explorer", "slider 'a'", lambda: Explorer({"a": [1, NAN]}, [panel])
    for name, make in {
        "heatmap": heatmap,
        "lines": partial(lines, x=[0, 1]),
        "bars": partial(bars, names="ab"),
        "image": image,
    }.items():
        yield name, f"{name}: values", lambda f=make: f([[NAN, 1.0]])
        yield name, f"{name}: values", lambda f=make: f(zeros(0, 2))
        yield name, f"{name}: values", lambda f=make: f("text")
    yield "heatmap", "x", lambda: heatmap(zeros(3, 4), x=[1])
    yield "heatmap", "limits", lambda: heatmap(zeros(3, 4), limits=(1, 0))
    yield "lines", "x", lambda: lines(zeros(1, 3), x=[0, 1])
    yield "lines", "names", lambda: lines(zeros(2, 2), x=[0, 1], names=["a"])
    yield "bars", "names", lambda: bars([1.0, 2.0], names="a")
    yield "image", "channels", lambda: image(zeros(2, 2), channels=2)
    multiply = partial(product, zeros(2, 3, 4), zeros(2, 4, 5))
    for side in ("left", "right"):
        for wrong in (torch.full((4, 4), NAN), zeros(0, 4), zeros(4), "text"):
            matrices = {"left": zeros(4, 4), "right": zeros(4, 4), side: wrong}
            yield "product", f"product: {side}", lambda given=matrices: product(**given)
    yield "product", "left", lambda: product(zeros(3, 4), zeros(5, 4))
    yield "product", "left and right", lambda: product(zeros(2, 3, 4), zeros(3, 4, 5))
    yield "product", "rows", lambda: multiply(rows="ab")
    yield "product", "inner", lambda: multiply(inner="abc")
    yield "product", "columns", lambda: multiply(columns="abcd")
    yield "product", "names", lambda: multiply(names=["Q"])
    yield "product", "notes", lambda: multiply(notes=["Q"])
    yield "product", "divide_by", lambda: multiply(divide_by=NAN)
    yield "product", "mask", lambda: multiply(mask=zeros(3, 5))
    yield "product", "mask", lambda: multiply(mask=zeros(5, 3) > 0)
    yield "product", "start", lambda: multiply(start=(3, 0))
    yield "product", "format", lambda: multiply(format="%.2f")
    yield "readout", "template", lambda: readout("no field", value=[1.0])
    yield "readout", "value", lambda: readout("{value}", value=[NAN])


def plots() -> Iterator[Row]:
    yield "heatmap", "weights|values", lambda: draw_heatmap(zeros(3))
    yield "heatmap", "rows", lambda: draw_heatmap(zeros(3, 4), rows=["a"])
    yield "curves", "ys|x|series", lambda: curves([0, 1, 2], {"a": [1, 2]})


TABLES = (
    masks, kernels, attention_modules, transformer, gpt, around_gpt, vit, seq2seq, data, training, explore, plots,
)  # fmt: skip
ROWS = [row for table in TABLES for row in table()]

PACKAGES = ("attention", "transformer", "gpt", "vit", "seq2seq", "data", "training", "plots", "explore")
ANYTHING_GOES = {
    *("BlockOutput", "Memory", "PairBatch", "TactileBatch", "Poem", "ModelShape", "PowerLaw", "Panel"),  # records
    *("RunningExample", "running_example"),  # a record, and what gives it
    *("pre_tokenize", "literal"),  # any text
    *("true_curve", "count_parameters", "digit_images", "style", "use_style"),  # nothing to get wrong but the type
}


@pytest.mark.parametrize(
    ("name", "argument", "call"), ROWS, ids=[f"{i}-{name}-{argument}" for i, (name, argument, _) in enumerate(ROWS)]
)
def test_the_argument_is_named(name: str, argument: str, call: Callable[[], Any]):
    with pytest.raises(ValueError, match=argument):
        call()


def test_every_public_function_has_a_row():
    public = {
        name
        for package in PACKAGES
        for name in import_module(f"lib.{package}").__all__
        if callable(getattr(import_module(f"lib.{package}"), name))
    }
    assert public - {name for name, _, _ in ROWS} == ANYTHING_GOES
