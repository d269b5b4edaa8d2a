"""What chapter 2.1.3 says of its experiments is what their stored results hold, for the median of all seeds."""

from statistics import median

import pytest

from lib.data import results
from tests.claims.prose import almost

PAGE = "vit"


@pytest.mark.parametrize(
    ("recipe", "middle", "low", "high"),
    [
        ("random large", r"准确率的中位数是 ([\d.]+)（最小", r"（最小 ([\d.]+)，最大", r"，最大 ([\d.]+)）；缩到 0.02"),
        (
            "sinusoidal small",
            r"正弦表只有 ([\d.]+)（",
            r"表只有 [\d.]+（([\d.]+) 到",
            r"表只有 [^到]+到 ([\d.]+)）",
        ),
        (
            "random small",
            r"随机、0.02 的是 ([\d.]+)（",
            r"0.02 的是 [\d.]+（([\d.]+) 到",
            r"0.02 的是 [^到]+到 ([\d.]+)",
        ),
    ],
)
def test_v3_scale_against_structure(recipe: str, middle: str, low: str, high: str):
    scores = [run["test"] for run in results("vit_positions")["runs"][recipe]]
    assert median(scores) == almost(PAGE, middle)
    assert min(scores) == almost(PAGE, low)
    assert max(scores) == almost(PAGE, high)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("by distance", r"插值的误差中位数最小，([\d.]+)；"),
        ("mae", r"MAE 是 ([\d.]+)，比抄"),
        ("nearest patch", r"比抄最近的图像块（([\d.]+)）"),
        ("mean colour", r"和平均色（([\d.]+)）小"),
    ],
)
def test_v6_how_well_hidden_patches_are_filled_in(kind: str, sentence: str):
    assert median(run[kind] for run in results("mae_reconstruction")["photos"]) == almost(PAGE, sentence)
