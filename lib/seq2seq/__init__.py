"""Sequence to sequence (2.1.4): a recurrent encoder reads, a recurrent decoder with attention writes."""

from lib.seq2seq.model import Memory, Seq2Seq, greedy_decode, teacher_forcing_loss
from lib.seq2seq.pairs import IGNORED, START, PairBatch, noisy_inputs, pair_batch

__all__ = [
    "IGNORED",
    "START",
    "Memory",
    "PairBatch",
    "Seq2Seq",
    "greedy_decode",
    "noisy_inputs",
    "pair_batch",
    "teacher_forcing_loss",
]
