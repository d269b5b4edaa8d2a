"""Additive attention: its formula, masks and shapes."""

import math

import pytest
import torch
from torch import Tensor, nn

from lib.attention import (
    AdditiveAttention,
    padding_mask,
)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def gradients(output: Tensor, module: nn.Module) -> tuple[Tensor, ...]:
    return torch.autograd.grad(output.square().sum(), list(module.parameters()))


class TestAdditive:
    def test_scores_are_v_tanh_of_the_sum_of_projections(self):
        attend = AdditiveAttention(query_dim=3, key_dim=4, hidden_dim=5)
        query, key, value = torch.randn(3), torch.randn(2, 4), torch.randn(2, 6)
        v, w_q, w_k = attend.score.weight[0], attend.q_proj.weight, attend.k_proj.weight
        scores = torch.stack([v @ torch.tanh(w_q @ query + w_k @ k) for k in key])
        output, weights = attend(query[None], key, value)
        torch.testing.assert_close(weights[0], scores.softmax(0))
        torch.testing.assert_close(output[0], scores.softmax(0) @ value)

    def test_hidden_keys_get_nothing_whatever_they_hold(self):
        attend = AdditiveAttention(3, 4, 5)
        query, key, value = torch.randn(2, 5, 3), torch.randn(2, 7, 4), torch.randn(2, 7, 6)
        mask = padding_mask([4, 0], 7)[:, 0]
        output, weights = attend(query, key, value, mask)
        assert (weights.masked_select(~mask) == 0).all()
        assert (output[1] == 0).all()
        dirty, _ = attend(query, key.masked_fill(~mask.mT, math.nan), value.masked_fill(~mask.mT, math.inf), mask)
        assert torch.equal(dirty, output)
        assert all(g.isfinite().all() for g in gradients(dirty, attend))

    def test_has_no_bias(self):
        assert sum(p.numel() for p in AdditiveAttention(3, 4, 5).parameters()) == 3 * 5 + 4 * 5 + 5

    def test_wrong_widths_are_named(self):
        attend = AdditiveAttention(3, 4, 5)
        with pytest.raises(ValueError, match=r"query must be \(..., time, 3\), real numbers, got \(5, 4\)"):
            attend(torch.zeros(5, 4), torch.zeros(7, 4), torch.zeros(7, 4))
        with pytest.raises(ValueError, match=r"key must be \(..., time, 4\), real numbers, got \(7, 3\)"):
            attend(torch.zeros(5, 3), torch.zeros(7, 3), torch.zeros(7, 3))
