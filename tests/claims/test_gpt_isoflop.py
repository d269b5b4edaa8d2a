"""What page 2.1.2.2 concludes from its own curves of equal compute: G7."""

import numpy as np
import pytest

from lib.data import results
from tests.claims.prose import almost, stated

PAGE = "gpt_scaling"
RUNS = results("isoflop")["runs"]
BUDGETS = sorted({run["budget"] for run in RUNS})


def lowest(sizes: np.ndarray, losses: np.ndarray) -> tuple[float, float]:
    """Size and loss at the lowest point of the parabola through a curve, over the logarithm of the size."""
    parabola = np.polynomial.Polynomial.fit(np.log(sizes), losses, 2)
    (best,) = parabola.deriv().roots()
    return float(np.exp(best)), float(parabola(best))


@pytest.fixture(scope="module")
def points() -> np.ndarray:
    """(seed, budget, size and loss)"""
    found = []
    for budget in BUDGETS:
        cells = [run for run in RUNS if run["budget"] == budget]
        sizes, losses = np.array([run["size"] for run in cells]), np.array([run["loss"] for run in cells])
        found.append([lowest(sizes, losses[:, seed]) for seed in range(5)])
    return np.array(found).transpose(1, 0, 2)


def by_power_law(values: np.ndarray) -> float:
    """The fifth budget's value, by a power law through the first four."""
    law = np.polynomial.Polynomial.fit(np.log(BUDGETS[:4]), np.log(values[:4]), 1)
    return float(np.exp(law(np.log(BUDGETS[4]))))


def test_g7_the_best_size_grows_with_compute_and_more_slowly(points: np.ndarray):
    sizes = np.median(points[:, :, 0], 0) / 1000
    said = "五笔算力的最低点，中位数依次是 "
    for size, after in zip(sizes, ["、", "、", "、", " 和 ", " 千个参数"], strict=True):
        assert size == almost(PAGE, rf"{said}([\d.]+){after}")
        said += rf"[\d.]+{after}"
    growth = sizes[4] / sizes[0]
    assert growth == almost(PAGE, r"参数量是 ([\d.]+) 倍，平均")
    assert growth ** (1 / 4) == almost(PAGE, r"平均每 3 倍算力乘 ([\d.]+)")
    assert BUDGETS[4] / BUDGETS[0] == pytest.approx(stated(PAGE, r"算力从头到尾是 (\d+) 倍"))


def test_g7_smaller_budgets_tell_the_size_and_not_the_loss(points: np.ndarray):
    told = np.array([[by_power_law(seed[:, 0]), by_power_law(seed[:, 1])] for seed in points])
    measured = points[:, 4]
    assert np.median(told[:, 0]) / 1000 == almost(PAGE, r"预言的大小是 ([\d.]+) 千")
    assert np.median(measured[:, 0]) / 1000 == almost(PAGE, r"千，量到的是 ([\d.]+) 千，差")
    off = 1 - np.median(told[:, 0]) / np.median(measured[:, 0])
    assert 100 * off == almost(PAGE, r"千，差 ([\d.]+)%")
    assert np.median(told[:, 1]) == almost(PAGE, r"预言的损失是 ([\d.]+)")
    assert np.median(measured[:, 1]) == almost(PAGE, r"预言的损失是 [\d.]+，量到的是 ([\d.]+)")
    assert (told[:, 1] > measured[:, 1]).all()
    assert 100 * (np.median(told[:, 1]) / np.median(measured[:, 1]) - 1) == almost(PAGE, r"都报高，多了 ([\d.]+)%")
