"""Data sets: seeded, and what they promise about their numbers."""

import pytest
import torch
from torch import Generator

from lib.data import noisy_curve, tactile_batches, true_curve


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def test_the_curve_is_two_sines_and_a_power():
    x = torch.tensor([0.0, 1.0, 4.0])
    expected = [0.0, 2 * 0.8414709848 + 1, 2 * -0.7568024953 + 4**0.8]
    assert true_curve(x).tolist() == pytest.approx(expected)


def test_noisy_curve_is_sorted_in_its_range_and_noisy_as_asked():
    x, y = noisy_curve(20_000, noise=0.3, generator=seeded())
    assert x.shape == y.shape == (20_000,)
    assert torch.equal(x, x.sort().values)
    assert x.min() >= 0
    assert x.max() <= 5
    assert x.mean().item() == pytest.approx(2.5, abs=0.05)
    assert (y - true_curve(x)).std().item() == pytest.approx(0.3, abs=0.01)


def test_noisy_curve_has_fifty_points_by_default():
    assert noisy_curve(generator=seeded())[0].shape == (50,)


@pytest.mark.parametrize("draw", [lambda g: noisy_curve(generator=g), lambda g: next(tactile_batches(3, generator=g))])
def test_the_same_seed_gives_the_same_data_and_another_seed_does_not(draw):
    first, again, other = draw(seeded(1)), draw(seeded(1)), draw(seeded(2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])


def test_the_global_seed_is_left_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    noisy_curve(generator=seeded())
    next(tactile_batches(3, generator=seeded()))
    assert torch.equal(torch.get_rng_state(), before)


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


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda g: noisy_curve(0, generator=g), "n must be at least 1, got 0"),
        (lambda g: noisy_curve(5, noise=-0.1, generator=g), "noise must not be negative, got -0.1"),
        (lambda g: tactile_batches(0, generator=g), "batch_size = 0"),
        (lambda g: tactile_batches(2, generator=g, classes=0), "classes = 0"),
        (lambda g: tactile_batches(2, generator=g, tokens=(9, 0, 3)), r"tokens = \(9, 0, 3\)"),
        (lambda g: tactile_batches(2, generator=g, noise=-1.0), "noise = -1.0"),
    ],
)
def test_bad_numbers_are_refused_at_the_call(draw, message: str):
    with pytest.raises(ValueError, match=message):
        draw(seeded())
