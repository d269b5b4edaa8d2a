"""What chapter 2.1.0 claims about streams that attend to one another: A8–A10."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.attention import MultiHeadAttention, block_causal_mask
from lib.data import tactile_batches
from lib.training import fit
from tests.claims.prose import almost, stated

VISION, TOUCH, ACTION = (
    int(stated("attention", pattern))
    for pattern in (r"输入有 (\d+) 个视觉 token", r"图像块）、(\d+) 个触觉 token", r"要给出 (\d+) 步动作")
)
SHARE = stated("attention", r"先是 (\d+/\d+) ≈")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def test_a8_the_wiring_decides_shapes_and_who_is_updated():
    vision, touch, action = (torch.randn(8, count, 64) for count in (VISION, TOUCH, ACTION))
    attend, sequence = MultiHeadAttention(64, 4), torch.cat([vision, touch, action], 1)
    seen, all_tokens = VISION + TOUCH, VISION + TOUCH + ACTION
    wirings = {
        (VISION, VISION): (vision, vision),
        (ACTION, seen): (action, sequence[:, :seen]),
        (all_tokens, all_tokens): (sequence, sequence),
    }
    for shape, (query, context) in wirings.items():
        output, weights = attend(query, context, need_weights=True)
        assert weights is not None
        assert weights.shape[-2:] == shape
        assert output.shape == query.shape
    joint, weights = attend(sequence, need_weights=True)
    assert weights is not None
    assert weights[..., seen:, VISION:seen].sum(-1).mean().item() == pytest.approx(SHARE, rel=0.1)
    torch.testing.assert_close(attend(action, sequence)[0], joint[:, seen:])
    _, weights = attend(action, sequence[:, :seen], need_weights=True)
    assert weights is not None
    crossed = stated("attention", r"给得略多一点（4 个时是 (\d+/\d+)）")
    assert weights[..., VISION:].sum(-1).mean().item() == pytest.approx(crossed, rel=0.1)
    assert TOUCH / all_tokens == SHARE == stated("attention", r"份额\*\*永远\*\*是 (\d+/\d+)")
    assert TOUCH / seen == crossed
    assert almost("attention", r"动作给触觉的权重只有 (\d+)%") == 100 * SHARE


def test_a9_under_a_block_causal_mask_observations_do_not_see_the_action():
    attend, before = MultiHeadAttention(32, 4), torch.randn(2, 28, 32)
    after = before.clone()
    after[:, 23:] += 100
    mask = block_causal_mask([23, 5])
    assert torch.equal(attend(before, mask=mask)[0][:, :23], attend(after, mask=mask)[0][:, :23])
    assert not torch.allclose(attend(before)[0][:, :23], attend(after)[0][:, :23])
    assert not torch.allclose(attend(before, mask=mask)[0][:, 23:], attend(after, mask=mask)[0][:, 23:])


class Policy(nn.Module):
    """One joint attention layer, of which only the action rows are computed."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.embed, self.attend, self.answer = nn.Linear(features, 32), MultiHeadAttention(32, 4), nn.Linear(32, 4)

    def forward(
        self, vision: Tensor, touch: Tensor, action: Tensor, kept: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        x = self.embed(torch.cat([vision, touch, action], 1))
        update, weights = self.attend(x[:, -action.shape[1] :], x, kept, need_weights=True)
        return self.answer(update), weights


def action_loss(model: Policy, vision: Tensor, touch: Tensor, action: Tensor, label: Tensor) -> Tensor:
    return F.cross_entropy(model(vision, touch, action)[0].flatten(0, 1), label.flatten())


@pytest.mark.parametrize("flat", [False, True], ids=["learned", "uniform weights, large values"])
def test_a10_a_share_is_learned_and_a_small_one_can_decide(flat: bool):
    policy = Policy(11 if flat else 7)
    if flat:
        nn.init.zeros_(policy.attend.q_proj.weight).requires_grad_(False)
    draws = tactile_batches(
        16, generator=torch.Generator().manual_seed(1), tokens=(VISION, TOUCH, 7), shared_features=not flat
    )
    scenes = ((v, 20 * t if flat else t, a, label) for v, t, a, label in draws)
    fit(policy, scenes, action_loss, steps=80, lr=1e-2)
    vision, touch, action, label = next(scenes)
    kept = torch.ones(VISION + TOUCH + 7, dtype=torch.bool)
    kept[VISION : VISION + TOUCH] = False
    logits, weights = policy(vision, touch, action)
    share = weights[..., ~kept].sum(-1).mean().item()
    accuracy = (logits.argmax(-1) == label).float().mean()
    without = (policy(vision, touch, action, kept)[0].argmax(-1) == label).float().mean()
    assert share == pytest.approx(TOUCH / (VISION + TOUCH + 7), rel=1e-4) if flat else share > 0.4
    guess = stated("attention", r"四选一，瞎猜的准确率是 ([\d.]+)")
    assert accuracy > 0.9
    assert without < guess + 0.35
