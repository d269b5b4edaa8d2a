"""What chapter 2.1.2.2 claims: G7 scaling laws."""

from inspect import signature

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from lib.gpt import (
    GPTConfig,
    MiniGPT,
    chinchilla_loss,
    compute_optimal,
    fit_power_law,
    next_token_loss,
    training_flops,
)
from lib.transformer import count_parameters
from tests.claims.prose import almost, stated

PAGE = "gpt_scaling"
PUBLISHED = (1.69, 406.4, 0.34, 410.7, 0.28)
REFITTED = tuple(stated(PAGE, rf"常数是 {'[0-9.]+、' * place}([\d.]+)") for place in range(5))


def best_size(constants: tuple[float, ...], flops: float) -> float:
    _, a, alpha, b, beta = constants
    return (alpha * a / beta / b * (flops / 6) ** beta) ** (1 / (alpha + beta))


def test_g7_six_n_d_is_what_training_costs():
    model = MiniGPT(GPTConfig(100, context_length=64, dim=128, layers=4, heads=4))
    tokens = torch.zeros(8, 64, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        next_token_loss(model, tokens, tokens).backward()
    multiplied = count_parameters(model.blocks) + 100 * 128  # the embedding is multiplied once, as the head
    assert 0.98 < counter.get_total_flops() / training_flops(multiplied, 8 * 64) < 1


def test_g7_the_numbers_that_the_chapter_names():
    assert 2 ** -stated(PAGE, r"\\alpha_N \\approx ([\d.]+)：") == almost(PAGE, r"2\^\{-0.076\} \\approx ([\d.]+)")
    assert training_flops(1, 1) == stated(PAGE, r"各与前向一样多，共 4 次。加起来大约 (\d+) 次")
    ratio = signature(compute_optimal).parameters["tokens_per_parameter"].default
    assert ratio == stated(PAGE, r"大约每个参数 (\d+) 个 token")
    chinchilla = (1e9 * stated(PAGE, r"训练了 (\d+)B 的 Chinchilla"), 1e12 * stated(PAGE, r"读 ([\d.]+) 万亿 token"))
    assert compute_optimal(training_flops(*chinchilla)) == pytest.approx(chinchilla)
    gopher = 1e9 * stated(PAGE, r"Gopher（(\d+)B）")
    assert gopher / chinchilla[0] == stated(PAGE, r"参数是它 (\d) 倍、读得却少的 Gopher")
    assert 15e12 / (8e9 * ratio) == almost(PAGE, r"Llama 3.1 8B 读了它的约 (\d+) 倍")


def test_g7_the_formula_of_the_chapter_is_that_of_the_kernel():
    frac = r"L\(N, D\) = {}\s*\+ \\frac\{{{}\}}\{{N\^\{{{}\}}\}} \+ \\frac\{{{}\}}\{{D\^\{{{}\}}\}}"
    number, group = r"[\d.]+", r"([\d.]+)"
    said = tuple(stated(PAGE, frac.format(*(group if i == place else number for i in range(5)))) for place in range(5))
    assert said == PUBLISHED
    e, a, alpha, b, beta = said
    n, d = torch.tensor([1e7, 7e10, 3e8]), torch.tensor([4e9, 1.4e12, 2e8])
    torch.testing.assert_close(chinchilla_loss(n, d), e + a / n**alpha + b / d**beta)


def test_g7_the_formula_as_printed_and_as_fitted_again_have_their_lowest_points_where_the_chapter_says():
    flops = stated(PAGE, r"同一笔算力 (5.88)e23") * 1e23
    assert training_flops(70e9, 1.4e12) == pytest.approx(flops)
    assert REFITTED == (1.8172, 482.01, 0.3478, 2085.43, 0.3658)
    printed, again = best_size(PUBLISHED, flops), best_size(REFITTED, flops)
    assert printed / 1e9 == almost(PAGE, r"原文印出的公式给出 (\d+)B 参数")
    assert flops / 6 / printed**2 == almost(PAGE, r"原文印出的公式给出 32B 参数、每个参数 (\d+) 个 token")
    assert again / 1e9 == almost(PAGE, r"重新拟合的公式给出 (\d+)B 和")
    assert flops / 6 / again**2 == almost(PAGE, r"重新拟合的公式给出 73B 和 (\d+) 个")
    grid = torch.logspace(9, 12, 30_001, dtype=torch.float64)  # and there it is lowest
    assert grid[chinchilla_loss(grid, flops / 6 / grid).argmin()].item() == pytest.approx(printed, rel=1e-3)


def test_g7_twice_or_half_the_best_size_costs_less_than_the_chapter_says():
    percent = stated(PAGE, r"模型大一倍或小一半，损失差不到 (\d+)%")
    grid = torch.logspace(6, 13, 20_001, dtype=torch.float64)
    for flops in (1e20, 1e23, 1e25):  # the chapter's; at 1e19 it is 1.01 %
        best = grid[chinchilla_loss(grid, flops / 6 / grid).argmin()]
        losses = torch.stack([chinchilla_loss(n, flops / 6 / n) for n in (best, best / 2, 2 * best)])
        assert (losses[1:] / losses[0] - 1).max() < percent / 100


def ratio_and_loss(flops: float) -> tuple[float, float]:
    """Tokens a parameter, and the loss, at the lowest point of the printed formula."""
    best = best_size(PUBLISHED, flops)
    tokens = flops / 6 / best
    return tokens / best, chinchilla_loss(torch.tensor(best), torch.tensor(tokens)).item()


def test_g7_what_another_ratio_than_the_best_costs():
    ratio, lowest = ratio_and_loss(1e23)
    assert ratio == pytest.approx(stated(PAGE, r"最低点在每个参数约 (\d+) 个 token"), rel=0.05)
    assert lowest == almost(PAGE, r"比最低的 ([\d.]+) 高")
    for ratio, above in [(20, r"比最低的 2.005 高 ([\d.]+)%"), (1.25, r"每个参数只配 1.25 个，才高出 ([\d.]+)%")]:
        split = compute_optimal(1e23, tokens_per_parameter=ratio)
        loss = chinchilla_loss(*(torch.tensor(number) for number in split)).item()
        assert 100 * (loss / lowest - 1) == almost(PAGE, above)
        if ratio == 20:
            assert loss == almost(PAGE, r"每个参数 20 个 token 时，损失是 ([\d.]+)，")
    for flops, power in [(1e18, "1e18"), (1e25, "1e25")]:
        assert ratio_and_loss(flops)[0] == almost(PAGE, rf"{power} 时是 (\d+) 个")


def test_g7_points_close_together_do_not_tell_an_exponent():
    errors = torch.tensor([1.03, 0.97])

    def fitted(span: float) -> float:
        sizes = torch.tensor([1e6, span * 1e6])
        return fit_power_law(sizes, sizes**-0.076 * errors).exponent

    assert fitted(2) > 2 * 0.076
    assert fitted(1000) == pytest.approx(0.076, rel=0.15)


def test_exercise_1_ten_times_the_compute():
    grows = best_size(PUBLISHED, 1e24) / best_size(PUBLISHED, 1e23)
    assert grows == almost(PAGE, r"N 加到 ([\d.]+) 倍。")
    for constants, said in [(PUBLISHED, r"的算力，得 (\d+)B"), (REFITTED, r"的算力，得 32B 和 (\d+)B")]:
        assert best_size(constants, 5.88e23) / 1e9 == almost(PAGE, said)


def test_g7_the_printed_formula_hardly_tells_its_best_size_from_70b():
    best = best_size(PUBLISHED, flops := training_flops(70e9, 1.4e12))
    at_70b, lowest = (chinchilla_loss(n, flops / 6 / n) for n in (torch.tensor(70e9), torch.tensor(best)))
    assert at_70b.item() == almost(PAGE, r"70B 是 ([\d.]+)，最低点")
    assert lowest.item() == almost(PAGE, r"最低点是 ([\d.]+)）")
    assert (at_70b - lowest).item() == almost(PAGE, r"损失只差 ([\d.]+)（")
    ratios = [c / 6 / best_size(PUBLISHED, c) ** 2 for c in (1e18, 1e21, flops)]
    assert ratios == sorted(ratios)


def test_exercise_2_what_six_n_d_leaves_out():
    for place, (width, length) in enumerate([(128, 64), (12288, 2048), (4096, 131072)]):
        sentence = r"T/6d：([\d.]+)、", r"T/6d：0.08、([\d.]+) 和", r"T/6d：0.08、0.03 和 ([\d.]+)。"
        assert length / (6 * width) == almost(PAGE, sentence[place])


@pytest.mark.parametrize(("generated", "said"), [(1e13, "生成 10 万亿个 token "), (1e14, "生成 100 万亿个")])
def test_exercise_3_inference_counted(generated: float, said: str):
    floor, a, alpha, b, beta = REFITTED
    target = floor + a / 70e9**alpha + b / 1.4e12**beta
    sizes = torch.logspace(10, 11.5, 3001, dtype=torch.float64)
    left = target - floor - a / sizes**alpha
    sizes, left = sizes[left > 0], left[left > 0]
    needed = (b / left) ** (1 / beta)
    best = (6 * sizes * needed + 2 * sizes * generated).argmin()
    assert sizes[best].item() / 1e9 == almost(PAGE, rf"{said}时是 (\d+)B")
    assert needed[best].item() / 1e12 == almost(PAGE, rf"{said}时是 \d+B，训练 ([\d.]+) 万亿")
