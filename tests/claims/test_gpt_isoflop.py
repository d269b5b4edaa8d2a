"""What page 2.1.2.2 concludes from its own curves of equal compute: G7."""

import re

import numpy as np
import pytest

from experiments.isoflop import TUNING_SEED, run
from lib.data import results
from tests.claims.prose import almost, stated, stated_text

PAGE = "gpt_scaling"
STORED = results("isoflop")
RUNS = STORED["runs"]
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
    unchanged = np.median(points[:, 3, 0]) / np.median(measured[:, 0])
    assert 100 * (1 - unchanged) == almost(PAGE, r"若假定大小不再变，就要差 (\d+)%")


def test_g7_the_size_told_costs_hardly_more_than_the_best(points: np.ndarray):
    cells = [run for run in RUNS if run["budget"] == BUDGETS[4]]
    log_sizes = np.log([run["size"] for run in cells])
    for seed, measured in enumerate(points):
        parabola = np.polynomial.Polynomial.fit(log_sizes, [run["loss"][seed] for run in cells], 2)
        more = float(parabola(np.log(by_power_law(measured[:, 0])))) - measured[4, 1]
        assert 0 <= more < stated(PAGE, r"损失比最低点只高不到 ([\d.]+)，")


def test_g7_the_exponent_of_the_loss_grows(points: np.ndarray):
    exponents = -np.diff(np.log(np.median(points[:, :, 1], 0))) / np.diff(np.log(BUDGETS))
    assert (np.diff(exponents) > 0).all()
    assert exponents[0] == almost(PAGE, r"损失的指数从 ([\d.]+) 升到")
    assert exponents[-1] == almost(PAGE, r"损失的指数从 [\d.]+ 升到 ([\d.]+)，")


def test_g7_a_line_also_says_too_high_a_loss_and_less_so(points: np.ndarray):
    for losses in points[:, :, 1]:
        line = np.polynomial.Polynomial.fit(np.log(BUDGETS[:4]), losses[:4], 1)
        assert losses[4] < line(np.log(BUDGETS[4])) < by_power_law(losses)


def test_the_sizes_and_rates_that_the_page_names():
    sizes = [run["size"] for run in RUNS]
    assert min(sizes) == stated(PAGE, r"从 (\d+) 到 \d+ 个。算力一共")
    assert max(sizes) == stated(PAGE, r"从 \d+ 到 (\d+) 个。算力一共")
    said = re.findall(r"[\d.]+", stated_text(PAGE, r"四个值是 ([\d. 、和]+)，一个约是"))
    assert [float(rate) for rate in said] == STORED["rates"]
    largest = [run for run in RUNS if run["rate"] == max(STORED["rates"])]
    assert len(RUNS) == stated(PAGE, r"(\d+) 格里有")
    assert len(largest) == stated(PAGE, r"\d+ 格里有 (\d+) 格挑中最大的")
    assert {run["budget"] for run in largest} == set(BUDGETS[:3])


@pytest.mark.parametrize("width", [6, 16])
def test_a_larger_rate_is_worse_where_the_largest_was_chosen(width: int):
    """Two of the eleven cells that the page speaks of; the others take longer."""
    (cell,) = (cell for cell in RUNS if cell["budget"] == BUDGETS[0] and cell["width"] == width)
    rate = stated(PAGE, r"以 ([\d.]+) 再训练过，每一格的损失都更高")
    assert run(TUNING_SEED, BUDGETS[0], width, rate) > min(cell["tuning"])
