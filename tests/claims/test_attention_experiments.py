"""What chapter 2.1.0 says of its experiments is what their stored results hold, for the median of all seeds."""

from statistics import median
from typing import Any

import pytest
import torch

from lib.data import results
from tests.claims.prose import almost, stated

PAGE = "attention"


def of_all(runs: list[dict[str, Any]], *keys: Any) -> list[float]:
    """One number of each run, behind these keys."""
    found = []
    for run in runs:
        value: Any = run
        for key in keys:
            value = value[key]
        found.append(value)
    return found


def test_a7_what_heads_do():
    stored = results("head_roles")
    clearest = {"previous": [], "referent": []}
    without = {"previous": [], "referent": []}
    for run in stored["four"]:
        for question, kind in enumerate(clearest):
            weights = torch.tensor(run[kind]).flatten()
            clearest[kind].append(weights.max().item())
            cut = torch.tensor(run["without"]).flatten(0, 1)[weights.argmax(), question]
            without[kind].append(cut.item())
    assert min(clearest["previous"]) == almost(PAGE, r"每次都有一个头把 ([\d.]+) 以上的权重给了前一个词")
    assert median(clearest["referent"]) == almost(PAGE, r"没有那么专心，中位数 ([\d.]+)")
    assert min(clearest["referent"]) == almost(PAGE, r"没有那么专心，中位数 [\d.]+，最小 ([\d.]+)")
    assert max(clearest["referent"]) == almost(PAGE, r"没有那么专心，中位数 [\d.]+，最小 [\d.]+，最大 ([\d.]+)")
    for kind, sentence in {"previous": "答前一个词的准确率中位数降到", "referent": "答名词的降到"}.items():
        assert median(without[kind]) == almost(PAGE, rf"{sentence} ([\d.]+)")
        assert min(without[kind]) == almost(PAGE, rf"{sentence} [\d.]+（([\d.]+) 到")
        assert max(without[kind]) == almost(PAGE, rf"{sentence} [\d.]+（[\d.]+ 到 ([\d.]+)）")
    assert stored["steps"] == stated(PAGE, r"用十个随机种子各训练 (\d+) 步")
    assert len(stored["seeds"]) == 10
    for heads in ("four", "one"):  # one head a layer is enough
        right = 100 * min(min(run["accuracy"]) for run in stored[heads])
        assert right > stated(PAGE, {"four": r"两个问题都答对 (\d+)% 以上", "one": r"也答对 (\d+)% 以上"}[heads])


def test_a10_a_share_is_learned():
    stored = results("tactile_share")
    runs = stored["runs"]["joint"]["4"]
    shares = of_all(runs, "share", -1)
    assert median(shares) == almost(PAGE, r"从 4/216 左右升到 ([\d.]+)（五个种子的中位数")
    assert min(shares) == almost(PAGE, r"五个种子的中位数，最小 ([\d.]+)，最大")
    assert max(shares) == almost(PAGE, r"五个种子的中位数，最小 [\d.]+，最大 ([\d.]+)）")
    assert min(of_all(runs, "accuracy", -1)) == 1
    assert median(of_all(runs, "without_touch")) == almost(PAGE, r"切掉触觉，准确率退到 ([\d.]+)，与瞎猜无异")
    assert min(of_all(runs, "without_vision")) == 1


@pytest.mark.parametrize("touches", [64, 16, 4, 1])
def test_a10_the_fewer_tokens_the_later(touches: int):
    stored = results("tactile_share")
    first = [
        next((mark for mark, right in zip(stored["marks"], run["accuracy"], strict=True) if right > 0.9), None)
        for run in stored["runs"]["joint"][str(touches)]
    ]
    never = first.count(None)
    assert never == (1 if touches == 1 else 0)
    late = stored["marks"][-1] + 1
    steps = stated(PAGE, rf"(?<!\d){touches} 个要 (\d+) 步")
    assert median(late if mark is None else mark for mark in first) == steps


def test_a10_a_small_share_decides_and_loud_values_only_speed_it_up():
    stored = results("small_share")
    marks, runs = stored["marks"], {factor: found["0.01"] for factor, found in stored["runs"].items()}
    plain = runs["1"]
    last, sentence = of_all(plain, "accuracy", -1), "400 步时准确率的中位数是"
    assert median(last) == almost(PAGE, rf"{sentence} ([\d.]+)（五个种子，")
    assert min(last) == almost(PAGE, rf"{sentence} [\d.]+（五个种子，([\d.]+) 到")
    assert max(last) == almost(PAGE, rf"{sentence} [\d.]+（五个种子，[\d.]+ 到 ([\d.]+)）")
    assert median(of_all(plain, "without_touch", -1)) == almost(PAGE, r"，切掉触觉就退到 ([\d.]+)。")
    assert plain[0]["share"] == pytest.approx(stated(PAGE, r"份额一直是 (\d+/\d+)，约"), abs=1e-4)
    for factor in ("5", "20"):
        assert median(of_all(runs[factor], "accuracy", marks.index(80))) > 0.995
    assert median(of_all(plain, "value_ratio", 1)) == almost(PAGE, r"训练之后是视觉的 ([\d.]+) 倍")
    assert median(of_all(plain, "shrunk")) == almost(PAGE, r"准确率就掉到 ([\d.]+)。")
    for rate in stored["runs"]["1"].values():  # the other rates say the same
        assert median(of_all(rate, "accuracy", -1)) > 0.85
        assert median(of_all(rate, "without_touch", -1)) < 0.35
