"""What chapter 2.1.1 claims about the three forms, and the whole Transformer at its end: T8, T9."""

import re
import warnings
from pathlib import Path
from statistics import median

import nbformat
import pytest
import torch
import torch.nn.functional as F
from torch import Generator, nn

from experiments.transformer_forms import STEPS
from experiments.transformer_forms_models import START, TEST, DecoderOnly, EncoderDecoder, EncoderOnly, halves
from experiments.transformer_numbers import RATE
from experiments.transformer_numbers import STEPS as READING_STEPS
from lib.attention import causal_mask, padding_mask
from lib.data import results
from lib.transformer import Decoder, Encoder, TransformerBlock, count_parameters, mask_tokens
from tests.claims.prose import almost, stated, stated_text

PAGE = "transformer"
NOTEBOOK = Path(__file__).parents[2] / "book/zh/transformer.ipynb"


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def test_t8_bert_chooses_15_percent_and_splits_them_80_10_10():
    words = torch.randint(1000, (300, 512), generator=Generator().manual_seed(0))
    seen, chosen = mask_tokens(words, mask_token=1000, vocab_size=1000, generator=Generator().manual_seed(1))
    masked, same = (seen == 1000)[chosen].float().mean().item(), (seen == words)[chosen].float().mean().item()
    sentences = ["随机选 (\\d+)% 的 token", "(\\d+)% 换成 `\\[MASK\\]`", "(\\d+)% 换成一个随机的词", "(\\d+)% 原样不动"]
    measured = (chosen.float().mean().item(), masked, 1 - masked - same, same)
    assert [round(100 * x) for x in measured] == [stated(PAGE, sentence) for sentence in sentences]
    assert torch.equal(seen[~chosen], words[~chosen])


def test_t8_what_a_sentence_keeps_and_loses_follows_from_the_shares():
    chosen, masked = stated(PAGE, r"随机选 (\d+)% 的 token"), stated(PAGE, r"其中 (\d+)% 换成")
    assert chosen * masked / 100 == stated(PAGE, r"= (\d+)\\% 变成")
    assert chosen * stated(PAGE, r"(\d+)% 原样不动") / 100 == stated(PAGE, r"= ([\d.]+)\\% 不变但要算")
    assert 100 // chosen == {"六": 6}[stated_text(PAGE, "信号不到(.)分之一")]


def middle(form: str) -> list[float]:
    """Median over seeds of the share of right answers at each place, as stored."""
    return [median(shares) for shares in zip(*results("transformer_forms")["hits"][form], strict=True)]


def test_t8_what_the_prose_says_of_the_three_forms_is_what_five_seeds_gave():
    alone, both_ways, pair = middle("decoder"), middle("encoder"), middle("both")
    assert all(share == almost(PAGE, r"十个位置的中位数都是 ([\d.]+)，") for share in both_ways)
    assert max(alone[:4]) < stated(PAGE, r"第 2 到第 5 个 token 都不到 ([\d.]+)，")
    for shares, sentence in ((alone[4:], r"从第 6 个起是 ([\d.]+)。"), (pair, r"答后半句也是 ([\d.]+)，")):
        assert all(share == almost(PAGE, sentence) for share in shares)
    assert min(seed[0] for seed in results("transformer_forms")["hits"]["both"]) > 0.99  # the random first character


def test_t8_the_three_models_are_told_apart_as_they_were_trained():
    said = stated_text(PAGE, r"位置编码（(RoPE、可学习、正弦）、层数（2、2、1\+1）和步数（160、400、100)）都不同")
    assert [int(n) for n in said.rpartition("（")[2].split("、")] == list(STEPS.values())
    alone, both_ways, pair = DecoderOnly(), EncoderOnly(), EncoderDecoder()
    stacks = (alone.stack, both_ways.stack, pair.encoder, pair.decoder)
    assert [len(stack.blocks) for stack in stacks] == [2, 2, 1, 1]


def test_t8_a_decoder_layer_of_pytorch_is_a_block_that_reads_a_memory():
    theirs = nn.TransformerDecoderLayer(32, 4, 128, norm_first=True, batch_first=True).eval()
    ours = TransformerBlock.from_torch(theirs).eval()
    x, memory, padding = torch.randn(2, 7, 32), torch.randn(2, 12, 32), padding_mask([12, 8], 12)
    expected = theirs(x, memory, tgt_mask=~causal_mask(7), memory_key_padding_mask=~padding[:, 0, 0])
    torch.testing.assert_close(ours(x, causal_mask(7), memory=memory, memory_mask=padding).output, expected)


def test_t9_what_the_prose_says_of_reading_numbers_is_what_five_seeds_gave():
    runs = results("transformer_numbers")["runs"]
    for count, sentence in (("8000", "8000 个数，没见过的数整句写对的比例中位数是"), ("100", "100 个不同的数，也有")):
        exact = [run["exact"][-1] for run in runs[count]]
        assert len(exact) == 5
        assert median(exact) == almost(PAGE, rf"{sentence} ([\d.]+)（")
        assert min(exact) == almost(PAGE, rf"{sentence} [\d.]+（([\d.]+)–")
        assert max(exact) == almost(PAGE, rf"{sentence} [\d.]+（[\d.]+–([\d.]+)）")
    for key, sentence in (("follows", r"只有那一位跟着换（([\d.]+)）"), ("others_stay", r"其余不变（([\d.]+)）")):
        assert all(run["one_row"][key] == almost(PAGE, sentence) for run in runs["8000"])
    assert stated(PAGE, r"从 0 升到 ([\d.]+)，再按余弦降到 0") == RATE
    assert stated(PAGE, r"批次（64）和步数（(\d+)）与上面相同") == READING_STEPS
    reads = [torch.tensor(run["reads"]).mean().item() for run in runs["8000"]]
    assert median(reads) == almost(PAGE, r"交叉注意力平均把 ([\d.]+) 的权重")


def test_t9_encoder_and_decoder_are_those_of_pytorchs_transformer():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        theirs = nn.Transformer(32, 4, 2, 2, 128, 0.0, "gelu", batch_first=True, norm_first=True)
    encoder, decoder = Encoder.from_torch(theirs.encoder), Decoder.from_torch(theirs.decoder)
    source, target = torch.randn(3, 4, 32), torch.randn(3, 8, 32)
    expected = theirs(source, target, tgt_mask=~causal_mask(8))
    torch.testing.assert_close(decoder(target, encoder(source)[0]).output, expected, atol=1e-5, rtol=0)
    ours = count_parameters(Encoder(32, 4, 2)) + count_parameters(Decoder(32, 4, 2))
    biases = 6 * 4 * 32
    assert stated_text(PAGE, r"差的是(.)处注意力的偏置，每处 4\\times32 个") == "六"
    assert count_parameters(theirs) - ours == biases
    whole = ours + count_parameters(nn.ModuleList([nn.Embedding(10, 32), nn.Embedding(15, 32), nn.Linear(32, 14)]))
    assert whole == stated(PAGE, r"手写的模型一共 (\d+) 个")


def test_t9_what_the_page_writes_out_differs_from_lib_and_pytorch_by_rounding_only():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    shown = "".join(
        output.text for cell in notebook.cells for output in cell.get("outputs", []) if output.output_type == "stream"
    )
    named = re.findall(r"(?:与 ?(?:lib|PyTorch|nn\.\w+)|编码器：|解码器：)[^\n，]*?最大差 (\S+?)[，\n]", shown)
    assert len(named) >= 12
    assert max(float(number) for number in named) < 1e-5


def test_t8_who_sees_whom_in_the_three_forms():
    x, memory = torch.randn(2, 6, 24), torch.randn(2, 9, 24)
    _, both_ways = Encoder(24, 4, 2)(x, need_weights=True)
    assert both_ways is not None
    assert (both_ways > 0).all()
    _, alone, none = Decoder(24, 4, 2, cross_attention=False)(x, need_weights=True)
    assert alone is not None
    assert torch.equal((alone > 0), causal_mask(6).expand_as(alone))
    assert none is None
    _, own, read = Decoder(24, 4, 2)(x, memory, need_weights=True)
    assert own is not None
    assert read is not None
    assert torch.equal((own > 0), causal_mask(6).expand_as(own))
    assert read.shape == (2, 2, 4, 6, 9)
    assert (read > 0).all()


def test_t8_without_the_shift_a_decoder_sees_its_answer():
    model, (source, _, target) = EncoderDecoder(), halves(TEST[:8])
    changed = target.clone()
    changed[:, 2] = (changed[:, 2] + 1) % 8

    def leaks(make_input) -> bool:
        before, after = (model(source, make_input(answer))[0][:, 2] for answer in (target, changed))
        return not torch.allclose(before, after, atol=1e-6)

    assert leaks(lambda answer: answer)
    assert not leaks(lambda answer: F.pad(answer[:, :-1], (1, 0), value=START))
