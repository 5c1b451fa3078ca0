"""Masks: who may look at whom, True = may attend."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from builders import padded, token_ids
from transformer.masks import causal_mask, make_masks, padding_mask

sizes = st.integers(1, 7)


@given(sizes, sizes)
def test_a_padding_mask_hides_keys_and_never_queries(n_source, n_real):
    """Row 13 of the cases: shape [B, 1, 1, S], so every query sees the same keys."""
    n_real = min(n_real, n_source)
    src = padded(token_ids(2, n_source, 9), [n_source, n_real])
    mask = padding_mask(src, 0)
    assert mask.shape == (2, 1, 1, n_source)
    assert mask.dtype == torch.bool
    spread = mask.expand(2, 3, 5, n_source)  # [B, H, T, S]
    assert bool((spread == (src != 0)[:, None, None, :]).all())
    assert int(mask[1].sum()) == n_real


@given(sizes)
def test_a_causal_mask_lets_each_query_see_itself_and_its_past(length):
    mask = causal_mask(length)
    assert mask.shape == (1, 1, length, length)
    for query in range(length):
        for key in range(length):
            assert bool(mask[0, 0, query, key]) == (key <= query)


def test_masks_are_those_of_torch_the_other_way_round():
    additive = nn.Transformer.generate_square_subsequent_mask(6)  # 0 = may attend, -inf = ignore
    assert torch.equal(causal_mask(6)[0, 0], additive == 0)


@given(sizes, sizes, sizes)
def test_the_mask_of_the_decoder_is_causal_and_padding(n_source, n_target, n_real):
    """Row 13 of the cases: [B, 1, 1, T] & [1, 1, T, T] -> [B, 1, T, T]."""
    n_real = min(n_real, n_target)
    src = padded(token_ids(2, n_source, 9), [n_source, 1])
    tgt_in = padded(token_ids(2, n_target, 9), [n_target, n_real])
    masks = make_masks(src, tgt_in, 0)
    assert masks.tgt_mask.shape == (2, 1, n_target, n_target)
    for query in range(n_target):
        for key in range(n_target):
            assert bool(masks.tgt_mask[0, 0, query, key]) == (key <= query)
            assert bool(masks.tgt_mask[1, 0, query, key]) == (key <= query and key < n_real)
    assert masks.src_mask.shape == (2, 1, 1, n_source)
    assert torch.equal(masks.memory_mask, masks.src_mask)


def test_another_pad_id_is_honoured():
    ids = torch.tensor([[5, 7, 0, 7]])
    assert padding_mask(ids, 7).flatten().tolist() == [True, False, True, False]
