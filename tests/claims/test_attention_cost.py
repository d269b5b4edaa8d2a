"""What chapter 2.1.0 claims about the cost of attention: A11."""

import pytest

from experiments.attention_memory import run
from lib.data import results
from tests.claims.prose import almost, stated


def test_a11_work_grows_as_t_squared_and_only_the_matrix_makes_memory_do_so():
    sizes = (512, 1024)
    whole, tiles = [run(size, None) for size in sizes], [run(size, 64) for size in sizes]
    for size, of_whole, of_tiles in zip(sizes, whole, tiles, strict=True):
        assert of_whole["flops"] == of_tiles["flops"] == 4 * size**2 * 64
        # Scores and weights; the output and a view of the key come on top.
        assert of_whole["bytes"] == pytest.approx(4 * 2 * size**2, rel=0.15)
        page = 4 * (size * 64 + size + 2 * 64**2 + 3 * 64 * 64)
        assert of_tiles["bytes"] == pytest.approx(page, rel=0.15)


def test_a11_from_11585_tokens_on_two_matrices_fill_a_gibibyte():
    length = stated("attention", r"解得 T = (\d+)")
    assert 2 * 4 * (length - 1) ** 2 < 2**30 <= 2 * 4 * (length + 1) ** 2
    assert stated("attention", r"两张矩阵要 (\d+) TiB 以上") * 2**40 < 2 * 4 * 1e6**2


def test_a11_the_page_states_what_was_measured():
    stored = results("attention_memory")
    for kind, pattern in (
        ("whole", r"整张算的峰值从 {} MiB 变成 {} MiB，是 {} 倍"),
        ("64", r"分块的从 {} 变成 {} MiB，是 {} 倍"),
    ):
        peaks = [row["bytes"] for row in stored["kinds"][kind]][-2:]
        factor = stated("attention", pattern.format(r"[\d.]+", r"[\d.]+", r"(\d+)"))
        assert peaks[1] / peaks[0] == pytest.approx(factor, rel=0.1)
        for place, length in enumerate((4096, 8192)):
            run = stored["kinds"][kind][stored["lengths"].index(length)]
            groups = [r"[\d.]+", r"[\d.]+", r"\d+"]
            groups[place] = r"([\d.]+)"
            assert run["bytes"] / 2**20 == almost("attention", pattern.format(*groups))
            assert run["flops"] == 4 * length**2 * 64
            both = stated("attention", rf"{'整张' if kind == 'whole' else '，分块'}是 (\d+)T\^2d")
            assert run["flops_both"] == both * length**2 * 64
