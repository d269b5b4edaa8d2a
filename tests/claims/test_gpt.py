"""What chapter 2.1.2 claims about the model: G1–G3."""

import math
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from lib.data import running_example
from lib.gpt import SHAPES, GPTConfig, KVCache, MiniGPT, ModelShape, generate, kv_cache_bytes
from lib.transformer import count_parameters
from tests.claims.prose import almost, stated, stated_text

PAGE = "gpt"
CONFIG = GPTConfig(vocab_size=11, context_length=12, dim=24, layers=2, heads=6)


def random_model(config: GPTConfig = CONFIG, std: float = 0.3) -> MiniGPT:
    torch.manual_seed(0)
    model = MiniGPT(config)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=std)
    return model.requires_grad_(False)


def some_tokens(batch: int, time: int) -> Tensor:
    return torch.randint(CONFIG.vocab_size, (batch, time), generator=Generator().manual_seed(1))


@pytest.mark.parametrize(("vocab_size", "length"), [(4, 3), (3, 5)])
def test_g1_the_probabilities_of_all_sequences_sum_to_one(vocab_size: int, length: int):
    model = random_model(GPTConfig(vocab_size, context_length=6, dim=8, layers=1, heads=2), std=1.0)
    sequences = torch.cartesian_prod(*[torch.arange(vocab_size)] * length)
    log_probs = model(F.pad(sequences, (1, 0))[:, :-1]).log_softmax(-1)
    steps = log_probs.gather(-1, sequences[..., None]).squeeze(-1)
    assert steps.sum(-1).exp().sum().item() == pytest.approx(1, abs=1e-5)
    assert steps.exp().max() > 2 * steps.exp().min()  # and they are not all alike
    assert stated(PAGE, r"长度为 3 的序列一共 4\^3 = (\d+) 条") == 4**3


def test_g1_the_example_is_followed_to_its_probabilities():
    example = running_example()
    x = example.embedding[example.tokens]
    scores = (x @ example.w_q) @ (x @ example.w_k).T / 2
    weights = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf).softmax(-1)
    x = x + weights @ (x @ example.w_v)
    logits = (x + (x @ example.w_1).relu() @ example.w_2) @ example.embedding.T
    third = logits[3]
    told = stated_text(PAGE, r"「荣」的嵌入 \(([-\d., ]+)\) 来核对")
    torch.testing.assert_close(torch.tensor([float(n) for n in told.split(",")]), example.embedding[3])
    assert third[3].item() == almost(PAGE, r"0.30 \\times 0.3 \\approx ([\d.]+)。再对")
    assert math.exp(stated(PAGE, r"e\^\{([\d.]+)\}")) == almost(PAGE, r"e\^\{4.21\} \\approx ([\d.]+)，这一行")
    assert third.exp().sum().item() == almost(PAGE, r"五个指数合起来约是 ([\d.]+)，")
    probabilities = logits.softmax(-1)
    assert probabilities[3, 3].item() == almost(PAGE, r"67 / 71 \\approx ([\d.]+)。")
    assert probabilities[0, 1].item() == almost(PAGE, r"第一个后面「岁」是 ([\d.]+)")
    assert probabilities[2, 2].item() == almost(PAGE, r"第二个后面「枯」是 ([\d.]+)")
    assert math.log(5) == almost(PAGE, r"五个字是 ([\d.]+)")


def test_g1_the_loss_is_the_mean_negative_log_likelihood_and_its_exponential_the_perplexity():
    model, tokens = random_model(), some_tokens(3, 9)
    logits = model(tokens[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    probabilities = logits.softmax(-1).gather(-1, tokens[:, 1:, None])
    torch.testing.assert_close(loss, -probabilities.log().mean())
    assert F.cross_entropy(torch.zeros(1, 7), torch.tensor([2])).exp().item() == pytest.approx(7)


def test_g1_an_untrained_model_starts_at_the_logarithm_of_the_vocabulary():
    torch.manual_seed(0)
    model, tokens = MiniGPT(GPTConfig(73, context_length=24, dim=64, layers=2, heads=4)), torch.arange(24)[None]
    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[0, 1:])
    assert loss.item() == pytest.approx(math.log(73), abs=0.2)


@pytest.mark.parametrize("training", [True, False])
def test_g2_all_positions_in_one_pass_equal_one_at_a_time(training: bool):
    model, tokens = random_model().train(training), some_tokens(2, 10)
    one_pass = model(tokens)
    for length in range(1, 11):
        torch.testing.assert_close(model(tokens[:, :length])[:, -1], one_pass[:, length - 1], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("training", [True, False])
def test_g2_changing_the_future_leaves_the_past_alone(training: bool):
    model, tokens = random_model().train(training), some_tokens(2, 10)
    changed = tokens.clone()
    changed[:, 6:] = (tokens[:, 6:] + 1) % CONFIG.vocab_size
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :6], after[:, :6])
    assert not torch.allclose(before[:, 6:], after[:, 6:], atol=0.1)


def test_g2_equals_the_model_that_hugging_face_calls_gpt2():
    torch.manual_seed(0)
    shape = GPT2Config(vocab_size=11, n_positions=12, n_embd=24, n_layer=2, n_head=6)
    theirs = GPT2LMHeadModel(shape).eval()
    tokens = some_tokens(2, 10)
    torch.testing.assert_close(MiniGPT.from_gpt2(theirs).eval()(tokens), theirs(tokens).logits, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kv_heads", [6, 2, 1])
@pytest.mark.parametrize("sizes", [[1] * 12, [7, 1, 4], [12]])
def test_g3_the_cache_gives_the_same_logits(kv_heads: int, sizes: list[int]):
    config = GPTConfig(11, 12, 24, 2, heads=6, kv_heads=kv_heads)
    model, tokens, cache = random_model(config), some_tokens(3, 12), KVCache(config, batch_size=3)
    pieces = [model(part, cache) for part in tokens.split(sizes, dim=1)]
    torch.testing.assert_close(torch.cat(pieces, 1), model(tokens), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("options", [{"temperature": 0.0}, {"top_k": 4}, {"temperature": 1.4, "top_p": 0.8}])
def test_g3_the_cache_gives_the_same_tokens_also_past_the_end_of_the_context(options: dict[str, Any]):
    model, prompt = random_model(), some_tokens(2, 5)
    runs = [
        generate(model, prompt, 40, use_cache=cached, generator=Generator().manual_seed(3), **options)
        for cached in (True, False)
    ]
    assert runs[0].shape == (2, 45)
    assert torch.equal(*runs)


def test_g3_a_step_costs_what_one_token_costs_not_what_the_sequence_costs():
    model = random_model(GPTConfig(64, context_length=256, dim=64, layers=2, heads=4))

    def cost(length: int, cached: bool) -> int:  # with weights, as the counter does not know the fused kernel
        tokens, cache = torch.zeros(1, length, dtype=torch.long), KVCache(model.config, 1)
        model(tokens[:, :-1], cache)
        with FlopCounterMode(display=False) as work:
            model.with_weights(tokens[:, -1:], cache) if cached else model.with_weights(tokens)
        return work.get_total_flops()

    matrices = sum(p.numel() for p in model.parameters() if p.ndim == 2) - 256 * 64  # positions are looked up
    for length in (16, 256):
        assert cost(length, cached=True) == 2 * matrices + 2 * 4 * length * 64  # two layers of 4 T d
    assert cost(256, cached=True) / cost(16, cached=True) < 2

    model = random_model(GPTConfig(73, context_length=256, dim=64, layers=2, heads=4))  # the page's
    assert cost(256, cached=False) / cost(256, cached=True) == stated(PAGE, r"256 个 token 时相差 (\d+) 倍")
    assert cost(16, cached=True) / 1e3 == almost(PAGE, r"用缓存的一步只从 (\d+) 千次")
    assert cost(256, cached=True) / 1e3 == almost(PAGE, r"千次升到 (\d+) 千次")


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 2), (6, 1)])
def test_g3_bytes_by_formula_are_those_of_our_cache_and_of_hugging_face(heads: int, kv_heads: int):
    dim = 8 * heads
    ours = KVCache(GPTConfig(10, 16, dim, layers=3, heads=heads, kv_heads=kv_heads), batch_size=2)
    shape = ModelShape("", 3, heads, kv_heads, 8, 16, 1.0, "")
    counted = kv_cache_bytes(shape, 16, batch_size=2, bytes_per_number=4)
    assert ours.bytes == counted

    config = LlamaConfig(
        vocab_size=10,
        hidden_size=dim,
        intermediate_size=dim,
        num_hidden_layers=3,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
    )
    cache = DynamicCache(config=config)
    with torch.no_grad():
        LlamaForCausalLM(config)(torch.zeros(2, 16, dtype=torch.long), cache=cache)
    layers: list[Any] = cache.layers
    assert sum(layer.keys.nbytes + layer.values.nbytes for layer in layers) == counted


LLAMA_LIKE = {  # width, feed-forward width, vocabulary
    "Llama 2 7B": (4096, 11008, 32000),
    "Llama 2 70B": (8192, 28672, 32000),
    "Mistral 7B": (4096, 14336, 32000),
    "Llama 3.1 8B": (4096, 14336, 128256),
    "Llama 3.1 405B": (16384, 53248, 128256),
    "Qwen2.5 7B": (3584, 18944, 152064),
}
GPT_LIKE = {"GPT-2": (768, 50257), "GPT-2 XL": (1600, 50257), "GPT-3 175B": (12288, 50257)}


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.name for shape in SHAPES])
def test_g3_a_public_shape_has_the_parameters_that_its_model_is_known_for(shape: ModelShape):
    """The parts of both architectures, added up; the widths are those of the papers and released configurations."""
    if shape.name in GPT_LIKE:
        dim, vocab_size = GPT_LIKE[shape.name]
        block = 12 * dim**2 + 13 * dim
        total = shape.layers * block + (vocab_size + shape.context_length) * dim + 2 * dim
    else:
        dim, hidden, vocab_size = LLAMA_LIKE[shape.name]
        attention = 2 * dim**2 + 2 * dim * shape.kv_heads * shape.head_dim
        total = shape.layers * (attention + 3 * dim * hidden + 2 * dim) + 2 * vocab_size * dim + dim
    assert shape.heads * shape.head_dim == dim
    assert total == pytest.approx(shape.parameters, rel=0.005)


def test_g3_the_numbers_that_the_chapter_names():
    shapes = {shape.name: shape for shape in SHAPES}
    small, large = shapes["Llama 2 7B"], shapes["Llama 2 70B"]
    assert kv_cache_bytes(small, 1) == 2**19  # half a MiB a token
    assert kv_cache_bytes(small, 4096) == 2 * 2**30
    assert kv_cache_bytes(large, 1) < kv_cache_bytes(small, 1)  # ten times the model, the smaller cache
    card = stated(PAGE, r"一张 (\d+) GiB 的卡")
    grouped, multi_head = (kv_cache_bytes(large._replace(kv_heads=n), 4096) / 2**30 for n in (8, 64))
    assert multi_head == stated(PAGE, r"合 (\d+) GiB，放得下")
    assert card // multi_head == stated(PAGE, r"合 10 GiB，放得下 (\d+) 条")
    assert grouped == stated(PAGE, r"用 8 组，是 ([\d.]+) GiB")
    assert card // grouped == stated(PAGE, r"是 1.25 GiB，放得下 (\d+) 条")
    assert large.kv_heads == stated(PAGE, r"因为它只有 (\d+) 组键值")
    assert shapes["GPT-3 175B"].parameters == 1e8 * stated(PAGE, r"GPT-3 有 (\d+) 亿个参数")


def test_the_parts_of_minigpt_add_up_to_its_parameters():
    model = MiniGPT(GPTConfig(73, context_length=24, dim=64, layers=2, heads=4))
    block = 12 * 64**2 + 13 * 64
    assert count_parameters(model.blocks[0]) == block
    total, tables = count_parameters(model), (73 + 24) * 64
    assert total == 2 * block + tables + 2 * 64
    matrices = stated(PAGE, r"2 \\times 12 \\times 64\^2 = (\d+) 个")
    assert matrices == 2 * 12 * 64**2
    assert tables == stated(PAGE, r"\(73 \+ 24\) \\times 64 = (\d+) 个")
    assert total - matrices - tables == stated(PAGE, r"零头 (\d+) 个")
