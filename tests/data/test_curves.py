"""The noisy curve: its formula, its range and its noise."""

import pytest
import torch
from torch import Generator

from lib.data import noisy_curve, true_curve


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def test_the_curve_is_two_sines_and_a_power():
    x = torch.tensor([0.0, 1.0, 4.0])
    expected = [0.0, 2 * 0.8414709848 + 1, 2 * -0.7568024953 + 4**0.8]
    assert true_curve(x).tolist() == pytest.approx(expected)


def test_integers_are_points_of_the_curve_too():
    torch.testing.assert_close(true_curve(torch.tensor([0, 1, 4])), true_curve(torch.tensor([0.0, 1.0, 4.0])))


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


def test_the_seed_decides_and_the_global_one_is_left_alone():
    before = torch.get_rng_state()
    first, again, other = (noisy_curve(generator=seeded(seed)) for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n must be at least 1, got 0"),
        ({"noise": -0.1}, "noise must be at least 0, got -0.1"),
        ({"noise": float("nan")}, "noise must be at least 0, got nan"),
    ],
)
def test_bad_numbers_are_refused(options: dict, message: str):
    with pytest.raises(ValueError, match=message):
        noisy_curve(**options, generator=seeded())
