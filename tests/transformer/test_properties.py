"""Properties of positions and stacks for any shape, and gradients against finite differences."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd import gradcheck

from lib.attention import causal_mask, padding_mask
from lib.transformer import (
    Decoder,
    Encoder,
    FeedForward,
    RotaryAttention,
    SwiGLU,
    TransformerBlock,
    alibi_bias,
    apply_rope,
    sinusoidal_positions,
)

sizes = st.integers(1, 6)
layouts = st.sampled_from(["interleaved", "half"])
bases = st.floats(1.5, 1e6)
seeds = st.integers(0, 2**16)
few = settings(max_examples=15)


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def seeded(seed: int, make: Callable[[], nn.Module]) -> Any:
    torch.manual_seed(seed)
    return make().double()


class TestRope:
    @given(seeds, sizes, sizes, layouts, bases, st.integers(0, 10_000))
    def test_scores_depend_on_offsets_only_and_norms_are_kept(self, seed, pairs, time, layout, base, shift):
        q, k = draw(seed, 2, 3, time, 2 * pairs)
        positions = torch.randint(500, (time,), generator=torch.Generator().manual_seed(seed))

        def scores(moved: int) -> Tensor:
            turned_q, turned_k = (apply_rope(x, positions + moved, base, layout) for x in (q, k))
            torch.testing.assert_close(turned_q.norm(dim=-1), q.norm(dim=-1))
            return turned_q @ turned_k.mT

        torch.testing.assert_close(scores(shift), scores(0), atol=1e-8, rtol=1e-8)

    @given(seeds, sizes, sizes, bases)
    def test_the_layouts_are_related_by_a_permutation(self, seed, pairs, time, base):
        x, order = draw(seed, 2, time, 2 * pairs), torch.arange(2 * pairs).view(pairs, 2).T.flatten()
        torch.testing.assert_close(apply_rope(x, base=base)[..., order], apply_rope(x[..., order], None, base, "half"))

    @given(seeds, sizes, sizes, sizes, layouts, bases)
    def test_turns_add_up_and_a_turn_back_undoes_them(self, seed, pairs, a, b, layout, base):
        x = draw(seed, 3, 2 * pairs)
        first, second = torch.full((3,), a), torch.full((3,), b)
        twice = apply_rope(apply_rope(x, first, base, layout), second, base, layout)
        torch.testing.assert_close(twice, apply_rope(x, first + second, base, layout))
        torch.testing.assert_close(apply_rope(twice, -first - second, base, layout), x)


class Cache:
    """Keys and values put end to end."""

    def __init__(self, key: Tensor) -> None:
        self.key = self.value = key

    @property
    def length(self) -> int:
        return self.key.shape[-2]

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        self.key, self.value = torch.cat([self.key, key], -2), torch.cat([self.value, value], -2)
        return self.key, self.value


@few
@given(seeds, st.lists(sizes, min_size=1, max_size=4), layouts, st.sampled_from([1, 2, 4]), st.booleans())
def test_a_cache_filled_in_any_steps_gives_what_one_pass_gives(seed, steps, layout, kv_heads, need_weights):
    attention = partial(RotaryAttention, kv_heads=kv_heads, layout=layout)
    decoder = seeded(seed, lambda: Decoder(16, 4, 2, cross_attention=False, attention=attention))
    x = draw(seed, 2, sum(steps), 16).requires_grad_()
    caches = [Cache(torch.empty(2, kv_heads, 0, 4, dtype=torch.float64)) for _ in range(2)]
    parts = [decoder(part, caches=caches, need_weights=need_weights) for part in x.split(steps, 1)]
    output, expected = torch.cat([part.output for part in parts], 1), decoder(x).output
    torch.testing.assert_close(output, expected)
    for ours, theirs in zip(*(torch.autograd.grad(y.square().sum(), x) for y in (output, expected)), strict=True):
        torch.testing.assert_close(ours, theirs)
    if need_weights:
        whole = decoder(x, need_weights=True).weights
        torch.testing.assert_close(parts[-1].weights, whole[..., -steps[-1] :, :])


@given(st.integers(1, 12), st.integers(0, 40), st.integers(0, 40), bases)
def test_moving_on_along_sinusoidal_positions_is_one_rotation(dim, start, steps, base):
    table = sinusoidal_positions(start + steps + 1, 2 * dim, base).double().unflatten(-1, (dim, 2))
    angle = steps * base ** -(torch.arange(dim, dtype=torch.float64) / dim)
    cos, sin = angle.cos(), angle.sin()
    rotation = torch.stack([cos, sin, -sin, cos], -1).unflatten(-1, (2, 2))
    moved = torch.einsum("iab,ib->ia", rotation, table[start])
    torch.testing.assert_close(moved, table[start + steps], atol=1e-5, rtol=0)
    torch.testing.assert_close(table.norm(dim=(-1, -2)), torch.full_like(table[:, 0, 0], dim**0.5))


@given(sizes, st.integers(0, 8), st.integers(0, 8), st.integers(0, 5))
def test_alibi_depends_on_offsets_only_and_ends_where_the_keys_end(heads, queries, keys, more):
    bias, longer = alibi_bias(heads, queries, keys), alibi_bias(heads, queries + more, keys + more)
    assert bias.shape == (heads, queries, keys)
    assert torch.equal(longer[:, more:, more:], bias)  # the earlier ones stand in front
    assert torch.equal(alibi_bias(heads, queries, keys + more)[..., more:], bias)
    assert (bias <= 0).all()


norms = st.sampled_from(["pre", "post"])


@few
@given(seeds, st.integers(2, 7), st.integers(1, 3), norms, st.booleans(), st.booleans(), st.data())
def test_a_decoder_never_sees_the_future(seed, time, batch, norm, cross_attention, training, data):
    decoder = seeded(seed, lambda: Decoder(8, 2, 2, norm=norm, cross_attention=cross_attention)).train(training)
    memory = draw(seed + 1, batch, 3, 8) if cross_attention else None
    first_change = data.draw(st.integers(1, time - 1))
    x = draw(seed, batch, time, 8)
    changed = torch.cat([x[:, :first_change], 1e6 * draw(seed + 2, batch, time - first_change, 8)], 1)
    before, after = decoder(x, memory).output, decoder(changed, memory).output
    torch.testing.assert_close(before[:, :first_change], after[:, :first_change], atol=0, rtol=1e-12)
    assert not torch.equal(before[:, first_change:], after[:, first_change:])


@few
@given(seeds, st.integers(1, 7), norms, st.data())
def test_an_encoder_is_permutation_equivariant_and_its_padding_changes_nothing(seed, time, norm, data):
    encoder = seeded(seed, lambda: Encoder(8, 2, 2, norm=norm))
    x, order = draw(seed, 2, time, 8), torch.tensor(data.draw(st.permutations(range(time))))
    torch.testing.assert_close(encoder(x[:, order])[0], encoder(x)[0][:, order])
    padded = torch.cat([x, 1e6 * draw(seed + 1, 2, 3, 8)], 1)
    result = encoder(padded, padding_mask([time, time], time + 3))[0][:, :time]
    torch.testing.assert_close(result, encoder(x)[0])


@few
@given(seeds, st.integers(1, 6), st.integers(1, 6), st.data())
def test_the_order_of_the_memory_does_not_matter(seed, time, memory_time, data):
    block = seeded(seed, lambda: TransformerBlock(8, 2, cross_attention=True))
    x, memory = draw(seed, 2, time, 8), draw(seed + 1, 2, memory_time, 8)
    order = torch.tensor(data.draw(st.permutations(range(memory_time))))
    torch.testing.assert_close(block(x, memory=memory[:, order]).output, block(x, memory=memory).output)


FUNCTIONS: dict[str, tuple[Callable[[], nn.Module], Callable[[Any], Callable[..., Tensor]]]] = {
    "FeedForward": (lambda: FeedForward(4, 5), lambda m: lambda x, _: m(x)),
    "SwiGLU": (lambda: SwiGLU(4, 5), lambda m: lambda x, _: m(x)),
    "RotaryAttention": (lambda: RotaryAttention(4, 2, kv_heads=1), lambda m: lambda x, _: m(x)[0]),
    "RotaryAttention, weights": (lambda: RotaryAttention(4, 2), lambda m: lambda x, _: m(x, need_weights=True)[1]),
    "block": (lambda: TransformerBlock(4, 2), lambda m: lambda x, _: m(x, causal_mask(3)).output),
    "block, Post-LN": (
        lambda: TransformerBlock(4, 2, norm="post"),
        lambda m: lambda x, _: m(x, bias=alibi_bias(2, 3)).output,
    ),
    "cross-attention": (
        lambda: TransformerBlock(4, 2, cross_attention=True),
        lambda m: lambda x, memory: m(x, memory=memory).output,
    ),
    "cross-attention, Post-LN, RMSNorm": (
        lambda: TransformerBlock(4, 2, norm="post", cross_attention=True, norm_layer=nn.RMSNorm),
        lambda m: lambda x, memory: m(x, memory=memory, memory_mask=padding_mask([2, 1], 2)).output,
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_those_of_finite_differences(name: str):
    make, call = FUNCTIONS[name]
    module = seeded(0, make)
    x, memory = draw(1, 2, 3, 4).requires_grad_(), draw(2, 2, 2, 4).requires_grad_("cross" in name)
    parameters = list(module.parameters())

    def function(x: Tensor, memory: Tensor, *values: Tensor) -> Tensor:
        named = dict(zip((key for key, _ in module.named_parameters()), values, strict=True))
        return torch.func.functional_call(
            Called(module, call(module)), {f"module.{k}": v for k, v in named.items()}, (x, memory)
        )

    assert gradcheck(function, (x, memory, *parameters), fast_mode=True)


class Called(nn.Module):
    """A module whose forward pass is a function of another."""

    def __init__(self, module: nn.Module, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.module, self.function = module, function

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_gradients_of_rope_are_those_of_finite_differences(layout):
    x, positions = (
        draw(1, 2, 3, 4).requires_grad_(),
        torch.tensor([0.5, 7.0, 2.0], dtype=torch.float64).requires_grad_(),
    )
    assert gradcheck(lambda x, p: apply_rope(x, p, 100.0, layout), (x, positions))
