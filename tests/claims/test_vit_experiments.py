"""What chapter 2.1.3 says of its experiments is what their stored results hold, for the median of all seeds."""

from statistics import median

import pytest

from lib.data import results
from tests.claims.prose import almost, stated, stated_text

PAGE = "vit"


@pytest.mark.parametrize(
    ("recipe", "middle", "low", "high"),
    [
        ("random large", r"准确率的中位数是 ([\d.]+)（最小", r"（最小 ([\d.]+)，最大", r"，最大 ([\d.]+)），与没有"),
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


def spread(values: list[float]) -> tuple[float, float, float]:
    return median(values), min(values), max(values)


def three(sentence: str) -> tuple[object, object, object]:
    """Median, smallest and largest, where the page writes them as `0.98（0.95 到 0.99）` after `sentence`."""
    number = r"−?[\d.]+"
    before, between = rf"{sentence}{number}（", rf"{sentence}{number}（{number} 到 "
    return (
        rounded(rf"{sentence}({number})（"),
        rounded(rf"{before}({number}) 到"),
        rounded(rf"{between}({number})）"),
    )


def rounded(sentence: str) -> object:
    """As `almost`, but what lies halfway may be rounded up or down."""
    decimals = len(stated_text(PAGE, sentence).partition(".")[2])
    return pytest.approx(stated(PAGE, sentence), abs=0.501 * 10**-decimals)


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        ("none", r"没有位置的停在 "),
        ("random small long", r"600 步，随机、0.02 的也升到 "),
        ("sinusoidal small long", r"，缩小的正弦表升到 "),
    ],
)
def test_v3_without_positions_it_is_chance_and_the_standard_start_only_takes_longer(recipe: str, sentence: str):
    assert spread([run["test"] for run in results("vit_positions")["runs"][recipe]]) == three(sentence)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("random", r"学真标签，变化的相似度是 "),
        ("random, labels drawn", r"标签随机抽，就只有 "),
        ("sinusoidal, labels drawn", r"标签随机抽，变化也有 "),
        ("sinusoidal", r"；学真标签是 "),
    ],
)
def test_v3_how_alike_training_makes_the_positions_of_a_quadrant(kind: str, sentence: str):
    runs = results("vit_positions")["changes"][kind]
    assert spread([run["change"][0] for run in runs]) == three(sentence)


def test_v3_how_alike_the_positions_of_a_quadrant_are_at_the_start():
    changes = results("vit_positions")["changes"]
    for kind, sentence in (
        ("random", r"相似度的中位数是 (−?[\d.]+)），学真"),
        ("sinusoidal", r"起点是 ([\d.]+)，标签"),
    ):
        assert median(run["start"][0] for run in changes[kind]) == almost(PAGE, sentence)
    told, drawn = ([run["change"][0] for run in changes[kind]] for kind in ("random", "random, labels drawn"))
    assert min(told) > max(drawn)
    assert stated(PAGE, r"所以只看 ([\d.]+)，") == stated(PAGE, r"；学真标签是 ([\d.]+)（")


def test_v3_the_sinusoidal_start_is_as_good_as_the_large_random_one():
    scores = [run["test"] for run in results("vit_positions")["runs"]["sinusoidal large"]]
    assert median(scores) == almost(PAGE, r"与没有缩小的正弦表（([\d.]+)）差不多")


def test_v3_of_two_large_starts_the_random_one_leads_at_step_50():
    found = results("vit_positions")
    place = 50 // found["every"]
    for recipe, sentence in (
        ("random large", r"中位数是 ([\d.]+) 对"),
        ("sinusoidal large", r"中位数是 [\d.]+ 对 ([\d.]+)）"),
    ):
        assert median(run["curve"][place] for run in found["runs"][recipe]) == almost(PAGE, sentence)


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


@pytest.mark.parametrize(
    ("model", "amount", "sentence"),
    [
        ("cnn", "100", r"100 张训练图时，卷积网络的中位数是 "),
        ("vit 2", "100", r"卷积网络的中位数是 [^）]+），ViT 是 "),
        ("cnn", "1197", r"；1197 张时是 "),
        ("vit 2", "1197", r"；1197 张时是 [^）]+）和 "),
    ],
)
def test_v5_a_convolutional_network_and_a_vit_on_few_images(model: str, amount: str, sentence: str):
    assert spread([run["test"] for run in results("vit_digits")["models"][model][amount]["runs"]]) == three(sentence)


@pytest.mark.parametrize(("model", "sentence"), [("cnn", r"一个像素，卷积网络降到 "), ("vit 2", r"），ViT 降到 ")])
def test_v5_when_digits_are_moved_by_a_pixel(model: str, sentence: str):
    assert spread([run["moved"] for run in results("vit_digits")["models"][model]["1197"]["runs"]]) == three(sentence)


def test_v5_a_larger_rate_is_far_worse_for_both_models_on_few_images():
    found = results("vit_digits")
    assert found["larger"] == stated(PAGE, r"所以又拿 ([\d.]+) 给两种模型")
    for name, sentence in (("cnn", r"卷积网络只有 ([\d.]+)，ViT 只有"), ("vit 2", r"，ViT 只有 ([\d.]+)，都远")):
        assert median(run["test"] for run in found["at the larger rate"][name]) == almost(PAGE, sentence)


def test_v5_the_gap_shrinks_and_training_was_long_enough():
    models = results("vit_digits")["models"]
    runs = {name: {amount: models[name][amount]["runs"] for amount in ("100", "1197")} for name in ("cnn", "vit 2")}
    for amount, sentence in (("100", r"差距从 ([\d.]+) 缩小"), ("1197", r"缩小到 ([\d.]+)。")):
        cnn, vit = ([run["test"] for run in runs[name][amount]] for name in ("cnn", "vit 2"))
        assert min(cnn) > max(vit)
        assert median(cnn) - median(vit) == almost(PAGE, sentence)
    losses = {(name, amount): [run["loss"] for run in runs[name][amount]] for name in runs for amount in runs[name]}
    few = max(losses["cnn", "100"] + losses["vit 2", "100"])
    assert few < stated(PAGE, r"100 张时，两种模型在训练图上的损失都不到 ([\d.]+)，")
    assert median(losses["cnn", "1197"]) == almost(PAGE, r"1197 张时，卷积网络约 ([\d.]+)，ViT 还有")
    assert min(losses["vit 2", "1197"]) == almost(PAGE, r"，ViT 还有 ([\d.]+) 到")
    assert max(losses["vit 2", "1197"]) == almost(PAGE, r"，ViT 还有 [\d.]+ 到 ([\d.]+)：")


def test_patches_that_cls_weighs_most_are_those_the_model_relies_on_in_each_seed():
    runs = results("vit_digits")["models"]["vit 2"]["1197"]["runs"]
    for run in runs:
        assert min(run["without four"], key=run["without four"].__getitem__) == "most weight"
    for kind, sentence in (
        ("least weight", r"中位数只从 0.96 降到 ([\d.]+)；"),
        ("random", r"随机去掉四个是 ([\d.]+)，"),
        ("most ink", r"去掉笔画最多的四个是 ([\d.]+)（"),
        ("most weight", r"去掉权重最大的四个降到 ([\d.]+)，"),
    ):
        assert median(run["without four"][kind] for run in runs) == almost(PAGE, sentence)
    ink = [run["without four"]["most ink"] for run in runs]
    assert min(ink) == rounded(r"各种子差得很多，从 ([\d.]+) 到")
    assert max(ink) == rounded(r"各种子差得很多，从 [\d.]+ 到 ([\d.]+)）")


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [("mae", r"MAE 的特征是 "), ("drawn", r"没训练的编码器是 "), ("pixels", r"，像素是 ")],
)
def test_v6_a_probe_with_200_labels(kind: str, sentence: str):
    assert spread([run[kind][1]["test"] for run in results("mae_features")["runs"]]) == three(sentence)


def test_v6_the_penalties_that_were_tried_are_those_of_the_page():
    found = results("mae_features")
    smallest, largest = (stated(PAGE, rf"都试 {number} 八种") for number in (r"([\d.]+) 到 \d+", r"[\d.]+ 到 (\d+)"))
    assert (min(found["penalties"]), max(found["penalties"]), len(found["penalties"])) == (smallest, largest, 8)


def test_v6_with_all_labels_an_encoder_as_drawn_does_as_well_and_with_200_pretraining_helps_a_little():
    for run in results("mae_features")["runs"]:
        (mae, drawn, pixels) = ([found["test"] for found in run[kind]] for kind in ("mae", "drawn", "pixels"))
        assert abs(mae[2] - drawn[2]) < 0.02 < drawn[2] - pixels[2]
        assert 0.005 - 1e-6 <= mae[1] - max(drawn[1], pixels[1]) < 0.03
