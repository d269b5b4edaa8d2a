"""Feed-forward networks: their formulas, their counts, and that tokens stay apart."""

import pytest
import torch
import torch.nn.functional as F

from lib.transformer import FeedForward, SwiGLU

any_kind = pytest.mark.parametrize("kind", [FeedForward, SwiGLU])


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def size(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("activation", [F.gelu, F.relu])
def test_feed_forward_is_two_affine_maps_with_a_bend_between(activation):
    ffn, x = FeedForward(6, 10, activation=activation), torch.randn(2, 5, 6)
    (w1, b1), (w2, b2) = ((layer.weight, layer.bias) for layer in (ffn.up_proj, ffn.down_proj))
    torch.testing.assert_close(ffn(x), activation(x @ w1.T + b1) @ w2.T + b2)


def test_swiglu_multiplies_by_a_gate():
    ffn, x = SwiGLU(6, 10), torch.randn(2, 5, 6)
    gate = x @ ffn.gate_proj.weight.T
    hidden = gate * torch.sigmoid(gate) * (x @ ffn.up_proj.weight.T)
    torch.testing.assert_close(ffn(x), hidden @ ffn.down_proj.weight.T)


def test_default_widths_keep_the_count_of_weights():
    assert size(FeedForward(48)) - 4 * 48 - 48 == 8 * 48**2  # without the two biases
    assert size(SwiGLU(48)) == 8 * 48**2
    assert size(SwiGLU(64)) == 3 * 64 * 171  # 8 · 64 / 3 = 170.67


@any_kind
def test_a_token_is_worked_on_alone(kind):
    ffn, x = kind(6, 10), torch.randn(5, 6)
    alone = torch.stack([ffn(token) for token in x])
    torch.testing.assert_close(ffn(x), alone)


@any_kind
@pytest.mark.parametrize(
    ("dim", "hidden", "message"), [(0, 4, "dim .* got 0"), (4, 0, "hidden .* got 0"), (4, -1, "hidden .* got -1")]
)
def test_widths_are_at_least_one(kind, dim: int, hidden: int, message: str):
    with pytest.raises(ValueError, match=message):
        kind(dim, hidden)
