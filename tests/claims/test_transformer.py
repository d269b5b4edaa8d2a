"""What chapter 2.1.1 claims about the block, its parameters and where it norms: T1–T4."""

import math
from functools import partial
from typing import Literal

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.attention import MultiHeadAttention, causal_mask, dot_product_attention
from lib.training import fit
from lib.transformer import (
    Decoder,
    Encoder,
    FeedForward,
    LearnedPositions,
    SwiGLU,
    TransformerBlock,
    count_parameters,
    sinusoidal_positions,
)

Norm = Literal["pre", "post"]
ORDER = torch.tensor([3, 0, 7, 1, 9, 4, 2, 8, 6, 5])


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def matrices(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters() if parameter.ndim == 2)


@pytest.mark.parametrize("dim", [24, 48, 96])
@pytest.mark.parametrize("feed_forward", [FeedForward, SwiGLU])
def test_t1_a_block_keeps_the_shape_and_has_12_d_squared_weights_two_thirds_in_the_ffn(feed_forward, dim: int):
    block = TransformerBlock(dim, 4, feed_forward=feed_forward)
    assert block(torch.randn(2, 7, dim)).output.shape == (2, 7, dim)
    assert matrices(block.attention) == 4 * dim**2
    assert matrices(block.feed_forward) == 8 * dim**2
    assert matrices(block.feed_forward) / matrices(block) == pytest.approx(2 / 3)


def test_t1_without_rounding_swiglu_at_8_d_over_3_keeps_the_count_and_at_4_d_has_half_again():
    assert count_parameters(SwiGLU(96)) == count_parameters(SwiGLU(96, 256)) == 8 * 96**2
    assert count_parameters(SwiGLU(96, 4 * 96)) == 12 * 96**2


def test_t1_gpt_2_small_counted_from_the_parts():
    with torch.device("meta"):
        stack = Decoder(768, 12, 12, cross_attention=False, attention=partial(MultiHeadAttention, bias=True))
        parts = nn.ModuleList([nn.Embedding(50257, 768), LearnedPositions(1024, 768), stack])
    assert count_parameters(parts) == 124_439_808


class Sorter(nn.Module):
    """Sorts six digits; the model of the chapter's experiment."""

    def __init__(self, norm: Norm, layers: int) -> None:
        super().__init__()
        self.embed, self.answer = nn.Embedding(6, 32), nn.Linear(32, 6)
        self.stack = Encoder(32, 4, layers, norm=norm)
        for weight in self.stack.parameters():
            if weight.ndim == 2:
                nn.init.xavier_uniform_(weight)

    def forward(self, digits: Tensor) -> Tensor:
        return self.answer(self.stack(self.embed(digits) + sinusoidal_positions(6, 32))[0])


def digits(seed: int):
    generator = torch.Generator().manual_seed(seed)
    while True:
        drawn = torch.randint(6, (16, 6), generator=generator)
        yield drawn, drawn.sort(1).values


def sorting_loss(model: nn.Module, drawn: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(model(drawn).flatten(0, 1), target.flatten())


def last_gradient(norm: Norm, layers: int) -> float:
    """Norm of the gradient of the last W₂ at initialisation, mean over four draws."""
    norms = []
    for seed in range(4):
        torch.manual_seed(seed)
        model = Sorter(norm, layers)
        nn.init.normal_(model.answer.weight, std=32**-0.5)
        sorting_loss(model, *next(digits(0))).backward()
        gradient = model.stack.get_parameter(f"blocks.{layers - 1}.feed_forward.down_proj.weight").grad
        assert gradient is not None
        norms.append(gradient.norm())
    return torch.stack(norms).mean().item()


def test_t2_at_initialisation_the_last_gradient_falls_with_depth_in_pre_ln_only():
    shallow, deep = last_gradient("pre", 2), last_gradient("pre", 24)
    assert deep < 0.8 * shallow
    assert last_gradient("post", 24) > 0.8 * last_gradient("post", 2)
    assert last_gradient("post", 24) > 2 * deep


@pytest.mark.parametrize(
    ("norm", "layers", "warmup", "low", "high"),
    [("pre", 12, 0, 0.0, 0.4), ("post", 12, 0, 1.6, 2.0), ("post", 12, 60, 0.0, 1.55), ("post", 2, 0, 0.0, 0.4)],
    ids=["Pre-LN", "Post-LN", "Post-LN with warm-up", "Post-LN, shallow"],
)
def test_t2_only_a_deep_post_ln_stack_does_not_train_without_warm_up(
    norm: Norm, layers: int, warmup: int, low: float, high: float
):
    history = fit(
        Sorter(norm, layers),
        digits(1),
        sorting_loss,
        steps=120,
        lr=4e-3,
        warmup=warmup,
        schedule="cosine",
        optimizer=partial(torch.optim.AdamW, foreach=True),
    )
    assert low < sum(history[-10:]) / 10 < high


def test_t3_the_ffn_acts_token_by_token_and_attention_mixes():
    block, x = TransformerBlock(24, 4), torch.randn(1, 8, 24)
    changed = x.clone()
    changed[0, 3] = torch.randn(24)
    moved = (block.feed_forward(changed) != block.feed_forward(x)).any(-1)[0]
    assert moved.tolist() == [i == 3 for i in range(8)]
    attended = (block.attention(changed)[0] - block.attention(x)[0]).abs().amax(-1)
    assert (attended > 1e-5).all()


def test_t3_attention_is_not_linear_in_its_input_but_is_on_a_single_token():
    attend = MultiHeadAttention(24, 4)
    a, b = torch.randn(2, 1, 8, 24)
    assert not torch.allclose(attend(a + b)[0], attend(a)[0] + attend(b)[0], atol=0.05)
    one, other = a[:, :1], b[:, :1]
    torch.testing.assert_close(attend(one + other)[0], attend(one)[0] + attend(other)[0])
    ffn = FeedForward(24)
    assert not torch.allclose(ffn(one + other), ffn(one) + ffn(other), atol=0.05)


def test_t3_at_zero_weights_a_residual_block_is_the_identity():
    block, x = TransformerBlock(24, 4), torch.randn(2, 7, 24)
    for name, parameter in block.named_parameters():
        if "norm" not in name:
            nn.init.zeros_(parameter)
    assert torch.equal(block(x).output, x)


def equivariant(f) -> bool:
    x = torch.randn(2, 10, 24)
    return torch.allclose(f(x[:, ORDER]), f(x)[:, ORDER], atol=1e-5)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_t4_only_positions_or_a_causal_mask_break_permutation_equivariance(norm: Norm):
    stack, positions = Encoder(24, 4, 2, norm=norm), sinusoidal_positions(10, 24)
    assert equivariant(lambda x: stack(x)[0])
    assert not equivariant(lambda x: stack(x + positions)[0])
    assert not equivariant(lambda x: stack(x, causal_mask(10))[0])


def test_t4_under_a_causal_mask_a_marked_first_token_tells_the_position():
    mark = F.one_hot(torch.tensor(0), 8).float()[:, None]
    output, _ = dot_product_attention(torch.zeros(8, 4), torch.zeros(8, 4), mark, causal_mask(8))
    torch.testing.assert_close(1 / output.squeeze(-1), torch.arange(1.0, 9.0))


def test_t4_equal_tokens_under_a_causal_mask_alone_stay_equal():
    stack = Decoder(24, 4, 2, cross_attention=False)
    output = stack(torch.randn(24).expand(1, 8, 24)).output[0]
    torch.testing.assert_close(output, output[:1].expand_as(output))


def test_numbers_that_the_prose_states():
    assert round(math.log(6), 2) == 1.79
    drawn = torch.cartesian_prod(*[torch.arange(6)] * 6).sort(1).values  # all 6⁶ sequences, sorted
    share = torch.stack([(drawn == digit).float().mean(0) for digit in range(6)])
    assert round(torch.special.entr(share).sum(0).mean().item(), 2) == 1.24  # guessing by place alone
    assert round(2.3e19 / 3.3e18) == 7
    assert round(8 * 4096 / 3) == 10923
    assert math.ceil(8 * 4096 / 3 / 256) * 256 == 11008
    assert round(100 * 50257 * 768 / 124_439_808) == 31
    assert 38e6 < 50257 * 768 < 39e6
