"""What chapter 2.1.4 says of its experiments is what their stored results hold, for the median of all seeds."""

from statistics import median

import pytest

from lib.data import results
from tests.claims.prose import almost

PAGE = "seq2seq"
ERRORS = results("seq2seq_errors")["runs"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [("attention", "有注意力"), ("vector", "一个向量"), ("sums", "累加"), ("noisy", "加过噪声")],
)
def test_s3_accuracy_after_an_error(kind: str, name: str):
    later = [sum(run["wrong"][3][4:]) / 4 for run in ERRORS[kind]]
    assert median(later) == almost(PAGE, rf"{name} ([\d.]+)（[\d.]+–[\d.]+）[，。]")
    assert min(later) == almost(PAGE, rf"{name} [\d.]+（([\d.]+)–[\d.]+）[，。]")
    assert max(later) == almost(PAGE, rf"{name} [\d.]+（[\d.]+–([\d.]+)）[，。]")


def test_s3_the_gap_of_the_vector_model_stays():
    gaps = [run["forced"][-1] - run["free"][-1] for run in ERRORS["vector"]]
    assert min(gaps) == almost(PAGE, r"仍高出自由运行 ([\d.]+) 到")
    assert max(gaps) == almost(PAGE, r"仍高出自由运行 [\d.]+ 到 ([\d.]+)")
    assert max(run["forced"][-1] - run["free"][-1] for run in ERRORS["attention"]) < 0.01


def test_s1_weights_on_the_anti_diagonal():
    for kind, sentence in {"attention": r"不加噪声是 ([\d.]+)", "noisy": r"加噪声是 [\d.]+，加噪声是 ([\d.]+)"}.items():
        assert median(sum(run["diagonal"][-1]) / 8 for run in ERRORS[kind]) == almost(PAGE, sentence)
        assert median(run["exact"][-1] for run in ERRORS[kind]) > 0.995


def test_s2_eight_digits_with_one_vector():
    exact = [run["exact"][-1] for run in ERRORS["vector"]]
    assert median(exact) == almost(PAGE, r"一个向量的是 ([\d.]+)（")
    assert median(run["exact"][4] for run in ERRORS["vector"]) == almost(PAGE, r"后者 125 步时才 ([\d.]+)")


def test_s2_attention_over_length():
    runs = results("bottleneck")["runs"]["attention 64"]
    assert len(runs) == 5
    for length in (8, 12, 16):
        said = almost(PAGE, rf"长度 {length} (?:是|只有) ([\d.]+)")
        assert median(run[-1][length - 1] for run in runs) == said
