"""Attention: proved against torch in float64, and what must hold of every pattern."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.overrides import TorchFunctionMode

from builders import generator, numbers, padded, randomized, token_ids
from torch_reference import ignored_future, ignored_keys, torch_attention
from transformer.hooks import intervene, name_hook_points, record
from transformer.masks import causal_mask, padding_mask
from transformer.model import Attention

EXACT = {"atol": 1e-10, "rtol": 0}


def attention_of(n_heads: int = 2, d_model: int = 12, dropout: float = 0.0) -> Attention:
    attention = randomized(Attention(d_model, n_heads, dropout))
    name_hook_points(attention)
    return attention


def masks_of(kind: str, lengths: list[int], n_queries: int, n_keys: int) -> dict:
    """The same mask for both sides: ours (True = may attend) and torch's arguments (True = ignore)."""
    ours, theirs = None, {}
    if "padding" in kind:
        ours = padding_mask(padded(token_ids(len(lengths), n_keys, 9), lengths), 0)
        theirs["key_padding_mask"] = ignored_keys(ours)
    if "causal" in kind:
        ours = causal_mask(n_queries) if ours is None else ours & causal_mask(n_queries)
        theirs["attn_mask"] = ignored_future(n_queries)
    return {"ours": ours, "theirs": theirs}


@pytest.mark.parametrize("n_heads", [1, 2, 6])
@pytest.mark.parametrize("kind", ["none", "padding", "causal", "padding and causal"])
def test_self_attention_equals_multihead_attention_of_torch(n_heads, kind):
    """Row 10 of the cases: 1, 2 and 6 heads."""
    attention, x = attention_of(n_heads), numbers(3, 7, 12)
    masks = masks_of(kind, [7, 4, 1], 7, 7)
    with record() as acts:
        out = attention(x, x, masks["ours"])
    expected, pattern = torch_attention(attention)(x, x, x, average_attn_weights=False, **masks["theirs"])
    torch.testing.assert_close(out, expected, **EXACT)
    torch.testing.assert_close(acts["hook_pattern"], pattern.detach(), **EXACT)


@pytest.mark.parametrize("n_heads", [1, 2, 6])
@pytest.mark.parametrize("kind", ["none", "padding"])
def test_cross_attention_equals_multihead_attention_of_torch(n_heads, kind):
    attention, x, memory = attention_of(n_heads), numbers(3, 4, 12), numbers(3, 7, 12, seed=1)
    masks = masks_of(kind, [7, 4, 1], 4, 7)
    with record() as acts:
        out = attention(x, memory, masks["ours"])
    expected, pattern = torch_attention(attention)(x, memory, memory, average_attn_weights=False, **masks["theirs"])
    torch.testing.assert_close(out, expected, **EXACT)
    torch.testing.assert_close(acts["hook_pattern"], pattern.detach(), **EXACT)


def test_gradients_of_attention_equal_those_of_torch():
    attention, x = attention_of(), numbers(2, 5, 12).requires_grad_()
    same_x = x.detach().clone().requires_grad_()
    masks = masks_of("padding and causal", [5, 3], 5, 5)
    reference = torch_attention(attention)
    attention(x, x, masks["ours"]).square().sum().backward()
    reference(same_x, same_x, same_x, **masks["theirs"])[0].square().sum().backward()
    torch.testing.assert_close(x.grad, same_x.grad, **EXACT)
    torch.testing.assert_close(attention.out_proj.weight.grad, reference.out_proj.weight.grad, **EXACT)


shapes = st.tuples(st.sampled_from([1, 2, 3]), st.integers(1, 4), st.integers(1, 6), st.integers(1, 6))


@given(shapes, st.integers(0, 2**16))
def test_rows_of_a_pattern_sum_to_1_and_masked_cells_are_exactly_0(shape, seed):
    n_heads, d_head, n_queries, n_keys = shape
    attention = attention_of(n_heads, n_heads * d_head)
    x, context = numbers(2, n_queries, n_heads * d_head, seed=seed), numbers(2, n_keys, n_heads * d_head, seed=seed + 1)
    mask = torch.rand(2, 1, n_queries, n_keys, generator=generator(seed)) < 0.6
    with record() as acts:
        attention(x, context, mask)
    pattern, may_attend = acts["hook_pattern"], mask.expand(2, n_heads, n_queries, n_keys)
    assert pattern.shape == may_attend.shape
    assert bool((pattern[~may_attend] == 0).all())
    assert bool((pattern[may_attend] > 0).all())
    sees_something = may_attend.any(-1)
    torch.testing.assert_close(pattern.sum(-1), sees_something.double(), **EXACT)


@given(st.integers(0, 2**16), st.floats(-300, 300))
def test_softmax_does_not_notice_a_number_added_to_a_whole_row(seed, shift):
    attention, x = attention_of(), numbers(1, 5, 12, seed=seed)
    mask = causal_mask(5)
    with record() as acts:
        attention(x, x, mask)
    with intervene({"hook_scaled_scores": lambda scores: scores + shift}), record() as shifted:
        attention(x, x, mask)
    torch.testing.assert_close(shifted["hook_pattern"], acts["hook_pattern"], **EXACT)
    assert torch.equal(shifted["hook_raw_scores"], acts["hook_raw_scores"])


def test_a_row_that_sees_nothing_gives_zeros_and_finite_gradients():
    """Row 12 of the cases: no NaN anywhere, forwards and backwards."""
    attention, x = attention_of(), numbers(2, 4, 12).requires_grad_()
    mask = torch.ones(2, 1, 4, 4, dtype=torch.bool)
    mask[0, 0, 2] = False
    mask[1] = False
    with record() as acts:
        out = attention(x, x, mask)
    assert bool((acts["hook_pattern"][0, :, 2] == 0).all())
    assert bool((acts["hook_z"][1] == 0).all())
    assert torch.equal(out[0, 2], attention.out_proj.bias)
    assert all(bool(value.isfinite().all()) for name, value in acts.items() if name != "hook_attn_scores")
    out.square().sum().backward()
    assert bool(x.grad.isfinite().all())
    assert all(bool(parameter.grad.isfinite().all()) for parameter in attention.parameters())


def test_every_recorded_stage_is_the_arithmetic_its_name_says():
    attention, x, memory = attention_of(), numbers(2, 3, 12), numbers(2, 5, 12, seed=1)
    mask = padding_mask(padded(token_ids(2, 5, 9), [5, 2]), 0)
    with record() as acts:
        out = attention(x, memory, mask)
    q, k, v = acts["hook_q"], acts["hook_k"], acts["hook_v"]
    torch.testing.assert_close(q[1, 1, 2], attention.q_proj(x)[1, 2, 6:].detach(), **EXACT)  # head 1 owns columns 6-11
    product = sum(q[0, 1, 2, i] * k[0, 1, 4, i] for i in range(6))
    torch.testing.assert_close(acts["hook_raw_scores"][0, 1, 2, 4], product, **EXACT)
    torch.testing.assert_close(acts["hook_scaled_scores"], acts["hook_raw_scores"] / math.sqrt(6), **EXACT)
    assert bool((acts["hook_attn_scores"][1, :, :, 2:] == -math.inf).all())
    assert torch.equal(acts["hook_attn_scores"][0], acts["hook_scaled_scores"][0])
    numerators = acts["hook_attn_scores"].exp()
    torch.testing.assert_close(acts["hook_pattern"], numerators / numerators.sum(-1, keepdim=True), **EXACT)
    weighted = sum(acts["hook_pattern"][0, 1, 2, s] * v[0, 1, s] for s in range(5))
    torch.testing.assert_close(acts["hook_z"][0, 1, 2], weighted, **EXACT)
    joined = torch.cat([acts["hook_z"][:, head] for head in range(2)], dim=-1)
    torch.testing.assert_close(out, attention.out_proj(joined), **EXACT)


def test_the_order_of_the_keys_does_not_matter():
    attention, x, memory = attention_of(), numbers(1, 3, 12), numbers(1, 6, 12, seed=1)
    order = torch.randperm(6, generator=generator())
    torch.testing.assert_close(attention(x, memory[:, order]), attention(x, memory), **EXACT)


def test_the_pattern_is_recorded_before_dropout():
    attention, x = attention_of(dropout=0.5).train(), numbers(1, 6, 12)
    with record() as acts:
        attention(x, x, None)
    torch.testing.assert_close(acts["hook_pattern"].sum(-1), torch.ones(1, 2, 6, dtype=torch.float64), **EXACT)


class SoftmaxTypes(TorchFunctionMode):
    """Notes the number type of every softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[torch.dtype] = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if function is torch.Tensor.softmax:
            self.seen.append(result.dtype)
        return result


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(torch.bfloat16, torch.float32), (torch.float32, torch.float32), (torch.float64, torch.float64)],
    ids=str,
)
@pytest.mark.parametrize("mask", [None, causal_mask(9)], ids=["bare", "masked"])
def test_softmax_runs_in_float32_at_least(dtype, expected, mask):
    attention, x = attention_of().to(dtype), numbers(1, 9, 12).to(dtype)
    with record() as acts, SoftmaxTypes() as types:
        out = attention(x, x, mask)
    assert types.seen == [expected]
    assert acts["hook_pattern"].dtype == out.dtype == dtype
    assert torch.equal(acts["hook_pattern"], acts["hook_attn_scores"].to(expected).softmax(-1).to(dtype))
