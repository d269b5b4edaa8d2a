"""What chapter 2.1.4 says of its experiments is what their stored results hold, for the median of all seeds."""

from statistics import median

import pytest

from experiments import bottleneck
from lib.data import results
from tests.claims.prose import almost, stated, stated_text

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


def test_s3_accuracy_without_an_error():
    kinds = ("attention", "vector", "sums", "noisy")
    for i, kind in enumerate(kinds):
        sentence = r"不写错时，这四步的中位数依次是 " + r"[\d.]+、" * i + r"([\d.]+)"
        assert median(sum(run["usual"][4:]) / 4 for run in ERRORS[kind]) == almost(PAGE, sentence)
    vector = almost(PAGE, r"一个向量本来就没学好，要和 ([\d.]+) 比")
    assert median(sum(run["usual"][4:]) / 4 for run in ERRORS["vector"]) == vector
    sums = almost(PAGE, r"正确率是 0；测得 ([\d.]+)，")
    assert median(sum(run["wrong"][3][4:]) / 4 for run in ERRORS["sums"]) == sums


def test_s3_the_gap_is_largest_early():
    marks, said = results("seq2seq_errors")["marks"], stated(PAGE, r"训练前期差距最大（第 (\d+) 步前后）")
    for kind in ("attention", "vector"):
        gaps = [median(run["forced"][i] - run["free"][i] for run in ERRORS[kind]) for i in range(len(marks))]
        assert marks[gaps.index(max(gaps))] == said


def test_s3_the_gap_of_the_vector_model_stays():
    gaps = [run["forced"][-1] - run["free"][-1] for run in ERRORS["vector"]]
    assert min(gaps) == almost(PAGE, r"仍高出自由运行 ([\d.]+) 到")
    assert max(gaps) == almost(PAGE, r"仍高出自由运行 [\d.]+ 到 ([\d.]+)")
    assert max(run["forced"][-1] - run["free"][-1] for run in ERRORS["attention"]) < 0.01


def test_s1_weights_on_the_anti_diagonal():
    for kind, sentence in {"attention": r"不加噪声是 ([\d.]+)", "noisy": r"加噪声是 [\d.]+，加噪声是 ([\d.]+)"}.items():
        assert median(sum(run["diagonal"][-1]) / 8 for run in ERRORS[kind]) == almost(PAGE, sentence)
        assert median(run["exact"][-1] for run in ERRORS[kind]) > 0.995
    weight = almost(PAGE, r"不加噪声的模型，反对角线上只有 ([\d.]+) 的权重")
    assert median(sum(run["diagonal"][-1]) / 8 for run in ERRORS["attention"]) == weight


def test_s2_eight_digits_with_one_vector():
    exact = [run["exact"][-1] for run in ERRORS["vector"]]
    assert median(exact) == almost(PAGE, r"一个向量的是 ([\d.]+)（")
    assert median(run["exact"][4] for run in ERRORS["vector"]) == almost(PAGE, r"后者 125 步时才 ([\d.]+)")


def test_s2_over_length():
    runs = results("bottleneck")["runs"]
    assert {kind: len(each) for kind, each in runs.items()} == dict.fromkeys(runs, 5)
    for length in (8, 12, 16):
        said = almost(PAGE, rf"长度 {length} (?:是|只有) ([\d.]+)")
        assert median(run[-1][length - 1] for run in runs["attention 64"]) == said
    assert median(run[-1][11] for run in runs["vector 64"]) == almost(PAGE, r"长度 12 到 1500 步也只有 ([\d.]+)")


def test_s2_over_steps_and_width():
    marks, runs = results("bottleneck")["marks"], results("bottleneck")["runs"]
    at_500 = {kind: [run[marks.index(500)][7] for run in each] for kind, each in runs.items()}
    for kind, sentence in {
        "attention 64": r"写长度 8，有注意力的是 ([\d.]+)",
        "vector 64": r"一个向量宽 64 的是 ([\d.]+)",
        "vector 128": r"宽 128 的是 ([\d.]+)，两种",
    }.items():
        assert median(at_500[kind]) == almost(PAGE, sentence)
    assert min(at_500["attention 64"]) > max(at_500["vector 64"] + at_500["vector 128"])
    assert min(at_500["vector 128"]) < max(at_500["vector 64"])
    assert median(run[-1][7] for run in runs["vector 64"]) == almost(PAGE, r"升到 ([\d.]+)，五个种子都在上升")
    assert min(run[-1][7] - run[marks.index(500)][7] for run in runs["vector 64"]) > 0.1
    assert stated(PAGE, r"500 步写长度 8 仍只有 ([\d.]+)") == stated(PAGE, r"宽 128 的是 ([\d.]+)，两种")


def test_s2_no_rate_that_was_tried_brings_one_vector_up_to_attention():
    stored = results("bottleneck")
    rates, runs, tuning = stored["rates"], stored["runs"], stored["tuning"]
    assert stated(PAGE, r"用的是同一个学习率 ([\d.]+)。") == bottleneck.RATE
    assert rates[0] == stated(PAGE, r"试 ([\d.]+) 到 [\d.]+ 的四个值")
    assert rates[-1] == stated(PAGE, r"试 [\d.]+ 到 ([\d.]+) 的四个值")
    assert stated(PAGE, r"的四个值，训练 (\d+) 步") == bottleneck.TUNING_STEPS
    at_500 = {kind: [found[-1][7] for found in each] for kind, each in tuning.items()}
    assert max(at_500["vector 64"]) == almost(PAGE, r"长度 8 最好的是 ([\d.]+)（宽 64）")
    assert max(at_500["vector 128"]) == almost(PAGE, r"（宽 64）和 ([\d.]+)（宽 128）")
    best = {rates[each.index(max(each))] for each in at_500.values()}
    assert best == {stated(PAGE, r"都在最小的 ([\d.]+)，")} == {min(rates)}
    least = min(run[-1][7] for run in runs["attention 64"])
    assert least == almost(PAGE, r"最差的种子 ([\d.]+)。")
    assert least > max(at_500["vector 64"] + at_500["vector 128"])


def test_s5_the_year_is_read_late_in_english_and_first_in_chinese():
    runs = results("seq2seq_transformer")["runs"]["dates recurrent"]
    assert len(runs) == 5
    assert all(run["year"][0] > run["month"][0] + 4 and run["year"][1] + 2 < run["month"][1] for run in runs)
    said = {
        ("year", 0): r"中位数是第 ([\d.]+) 个字符",
        ("month", 0): r"折回前面，到第 ([\d.]+) 个",
        ("year", 1): r"写年份在第 ([\d.]+) 个",
        ("month", 1): r"写月份在第 ([\d.]+) 个",
    }
    for (part, form), sentence in said.items():
        assert median(run[part][form] for run in runs) == almost(PAGE, sentence)
    chinese = [run["month"][1] for run in runs]
    said = {
        median: r"汉字的月份 ([\d.]+)（",
        min: r"汉字的月份 [\d.]+（([\d.]+)–",
        max: r"汉字的月份 [\d.]+（[\d.]+–([\d.]+)）",
    }
    for of, sentence in said.items():
        assert of(chinese) == almost(PAGE, sentence)


def test_s5_even_weights_lie_in_the_middle():
    middles = {"英文": (len("March 5, 2024") + 1) / 2, "汉字": (len("二〇二四年三月五日") + 1) / 2}
    assert stated(PAGE, r"重心在英文是第 (\d+) 个，") == middles["英文"]
    assert stated(PAGE, r"重心在英文是第 \d+ 个，在汉字是第 (\d+) 个") == middles["汉字"]
    for run in results("seq2seq_transformer")["runs"]["dates recurrent"]:
        assert run["year"][0] > middles["英文"] + 2
        assert run["month"][0] < middles["英文"] - 2
        assert run["year"][1] < middles["汉字"] - 2
        assert run["month"][1] > middles["汉字"]


def test_s6_a_transformer_beside_the_recurrent_pair():
    stored = results("seq2seq_transformer")
    exact = {key: [run["exact"] for run in runs] for key, runs in stored["runs"].items()}
    said = {
        ("dates recurrent", 3): r"200 步时循环的一对中位数是 ([\d.]+)，",
        ("dates transformer", 3): r"循环的一对中位数是 0.89，Transformer 是 ([\d.]+)，",
        ("dates recurrent", 7): r"400 步时中位数同为 ([\d.]+)，",
        ("dates transformer", 7): r"400 步时中位数同为 ([\d.]+)，",
    }
    for (key, mark), sentence in said.items():
        assert median(each[mark] for each in exact[key]) == almost(PAGE, sentence)
    digits = exact["digits recurrent"] + exact["digits transformer"]
    assert min(each[3] for each in digits) == almost(PAGE, r"都不低于 ([\d.]+)，400 步")
    assert {each[7] for each in digits} == {stated(PAGE, r"400 步时都是 ([\d.]+)。")}
    for mark in (3, 7):  # the ranges overlap
        ends = {key: [each[mark] for each in exact[key]] for key in ("dates recurrent", "dates transformer")}
        assert min(ends["dates recurrent"]) < max(ends["dates transformer"])
        assert min(ends["dates transformer"]) < max(ends["dates recurrent"])
    last = sorted(each[7] for each in exact["dates transformer"])
    assert last[0] == almost(PAGE, r"有一个种子学得慢，停在 ([\d.]+)。")
    assert last[1] > last[0] + 0.1
    times = {task: each["transformer"] / each["recurrent"] for task, each in stored["milliseconds"].items()}
    assert times["digits"] == almost(PAGE, r"倒写时 Transformer 是循环的 ([\d.]+) 倍")
    assert times["dates"] == almost(PAGE, r"日期时是 ([\d.]+) 倍")


def test_s6_the_rates_for_dates_lie_inside_of_what_was_tried():
    stored = results("seq2seq_transformer")
    rates, tuning, best = stored["rates"], stored["tuning"], stored["best"]
    assert [float(rate) for rate in stated_text(PAGE, r"各挑一个（([\d.、]+)）").split("、")] == rates
    assert best["dates recurrent"] == stated(PAGE, r"循环的一对挑中 ([\d.]+)，")
    assert best["dates transformer"] == stated(PAGE, r"Transformer 挑中 ([\d.]+)，")
    assert all(rates[0] < best[f"dates {model}"] < rates[-1] for model in ("recurrent", "transformer"))
    none = {rate for rate, each in zip(rates, tuning["dates transformer"], strict=True) if max(each) == 0}
    said = (r"Transformer 用 ([\d.]+) 和", r"Transformer 用 [\d.]+ 和 ([\d.]+) 训练 200 步，一个日期也没有写对")
    assert none == {stated(PAGE, sentence) for sentence in said}
