"""Scenes of vision and touch: what each stream shows, and what is refused."""

import pytest
import torch
from torch import Generator

from lib.data import tactile_batches


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


@pytest.mark.parametrize(("shared", "dim"), [(True, 3 + 4), (False, 3 + 2 * 4)])
def test_scenes_have_many_vision_and_few_tactile_tokens(shared: bool, dim: int):
    batch = next(tactile_batches(5, generator=seeded(), shared_features=shared))
    assert batch.vision.shape == (5, 196, dim)
    assert batch.tactile.shape == (5, 4, dim)
    assert batch.action.shape == (5, 16, dim)
    assert batch.label.shape == (5, 16)
    assert (batch.label == batch.label[:, :1]).all()


@pytest.mark.parametrize("shared", [True, False])
def test_touch_shows_the_label_and_action_tokens_show_nothing(shared: bool):
    batch = next(tactile_batches(50, generator=seeded(), shared_features=shared, noise=0.0))
    shown = batch.tactile[..., -4:].argmax(-1)
    assert torch.equal(shown, batch.label[:, :1].expand(-1, 4))
    assert (batch.action[..., 3:] == 0).all()


def test_vision_says_nothing_about_the_label():
    batch = next(tactile_batches(400, generator=seeded(), noise=0.0))
    agrees = batch.vision[..., 3:].argmax(-1) == batch.label[:, :1]
    assert agrees.float().mean().item() == pytest.approx(1 / 4, abs=0.01)


def test_each_stream_is_marked():
    batch = next(tactile_batches(2, generator=seeded(), noise=0.0))
    for kind, tokens in enumerate(batch[:3]):
        assert (tokens[..., :3] == torch.eye(3)[kind]).all()


def test_unshared_features_keep_vision_and_touch_apart():
    batch = next(tactile_batches(20, generator=seeded(), shared_features=False, noise=0.0))
    assert (batch.vision[..., -4:] == 0).all()
    assert (batch.tactile[..., 3:-4] == 0).all()


def test_labels_are_even_and_batches_differ():
    batches = tactile_batches(1000, generator=seeded(), tokens=(1, 1, 1))
    first, second = next(batches), next(batches)
    assert torch.bincount(first.label[:, 0]).float().div(1000).tolist() == pytest.approx([0.25] * 4, abs=0.05)
    assert not torch.equal(first.label, second.label)


def test_the_seed_decides_and_the_global_one_is_left_alone():
    before = torch.get_rng_state()
    first, again, other = (next(tactile_batches(3, generator=seeded(seed))) for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first.vision, other.vision)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"classes": 0}, "classes must be at least 1, got 0"),
        ({"tokens": (9, 0, 3)}, r"tokens must be three numbers of at least 1, got \(9, 0, 3\)"),
        ({"noise": -1.0}, "noise must be at least 0, got -1.0"),
        ({"noise": float("nan")}, "noise must be at least 0, got nan"),
    ],
)
def test_bad_numbers_are_refused_at_the_call(options: dict, message: str):
    with pytest.raises(ValueError, match=message):
        tactile_batches(**({"batch_size": 2, "generator": seeded()} | options))
