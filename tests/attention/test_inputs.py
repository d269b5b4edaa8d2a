"""Shapes that fit, and keys that no query may see."""

import math

import pytest
import torch

from lib.attention import causal_mask, padding_mask
from lib.attention.inputs import blank_unseen, check_inputs


def test_leading_shapes_broadcast_to_that_of_the_scores():
    shape = check_inputs(torch.zeros(2, 1, 5, 4), torch.zeros(3, 7, 4), torch.zeros(7, 6), padding_mask([7, 1], 7))
    assert shape == (2, 3, 5, 7)


def test_query_and_key_may_differ_in_width_only_where_allowed():
    query, key = torch.zeros(5, 4), torch.zeros(7, 3)
    assert check_inputs(query, key, key, same_width=False) == (5, 7)
    with pytest.raises(ValueError, match=r"query \(5, 4\) and key \(7, 3\)"):
        check_inputs(query, key, key)


def test_only_rows_that_no_query_sees_are_blanked():
    rows = torch.full((2, 7, 3), math.nan)
    mask = padding_mask([7, 4], 7)[:, 0] & causal_mask(5, 7)
    blank = blank_unseen(rows, mask)
    assert (blank[1, 4:] == 0).all()
    assert blank[0].isnan().all()
    assert blank[1, :4].isnan().all()


def test_without_a_mask_nothing_is_blanked():
    rows = torch.rand(7, 3)
    assert blank_unseen(rows, None) is rows
