"""The modern Hopfield network: attention in one update."""

import pytest
import torch

from lib.attention import (
    dot_product_attention,
    hopfield_update,
)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


class TestHopfield:
    def test_is_attention_with_the_patterns_as_keys_and_values(self):
        state, patterns = torch.randn(5, 6), torch.randn(7, 6)
        expected, _ = dot_product_attention(state, patterns, patterns, scale=0.8)
        torch.testing.assert_close(hopfield_update(state, patterns, 0.8), expected)
        torch.testing.assert_close(hopfield_update(state[0], patterns, torch.tensor(0.8)), expected[0])

    def test_one_step_restores_a_corrupted_pattern(self):
        patterns = torch.randn(10, 64, generator=torch.Generator().manual_seed(0)).sign()
        corrupted = patterns[3].clone()
        corrupted[:16] *= -1
        torch.testing.assert_close(hopfield_update(corrupted, patterns, 4.0), patterns[3])

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
    def test_a_large_beta_times_a_large_state_is_no_trouble(self, dtype: torch.dtype):
        patterns = (100 * torch.randn(10, 64).sign()).to(dtype)
        assert torch.equal(hopfield_update(patterns[3], patterns, 1000.0), patterns[3])

    def test_bad_input_is_named(self):
        with pytest.raises(ValueError, match="beta must be above 0, got -1"):
            hopfield_update(torch.zeros(6), torch.zeros(7, 6), -1)
        with pytest.raises(ValueError, match=r"same width, got \(5,\) torch.float32 and \(7, 6\)"):
            hopfield_update(torch.zeros(5), torch.zeros(7, 6), 1.0)
