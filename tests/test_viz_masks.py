"""Boards of masks: what is drawn is what ``transformer.masks`` makes, and what attention does under it is measured."""

from __future__ import annotations

import base64
import json
import linecache
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from builders import tiny_checkpoint as build_tiny_checkpoint
from transformer.checkpoints import CHECKPOINTS_FOLDER
from transformer.masks import causal_mask, make_masks, padding_mask
from transformer.tracing import encode_source, record_values, trace_text
from viz.masks import boards_payload, in_convention, leak, mask_board, reasons, weights_board
from viz.tabs.mask_runs import CODE, MOST_STEPS, blinded, code_line, outcome, padded_run, settings
from viz.tabs.masks import EFFECTS, MOST_PADDING, Boards, bounded, draw_masks, request_of
from viz.tabs.session import Session

LAYERS = {"encoder_self": 0, "decoder_self": 1, "cross": 1}
VIEWS = ("padding", "padding_weights", "causal", "causal_weights", "combined", "combined_weights", "cross",
         "cross_weights", "blind", "effects")


def unpacked(array: dict) -> np.ndarray:
    return np.frombuffer(base64.b64decode(array["data"]), array["dtype"]).reshape(array["shape"])


def chips(n: int) -> list[dict]:
    return [{"label": str(i), "pad": False} for i in range(n)]


@pytest.fixture(scope="module")
def checkpoint():
    return build_tiny_checkpoint()


@pytest.fixture(scope="module")
def trace(checkpoint):
    return trace_text(checkpoint, "3 1 7 3 10 2", max_steps=5)


def views_of(checkpoint, trace, n_padding: int = 3, **asked: object) -> dict[str, dict]:
    """Every view of the tab by name, as the browser gets it."""
    wish = {"n_padding": n_padding, "layers": LAYERS, "head": 1, "blind": 2, "is_blind": True, **asked}
    payloads = Boards(checkpoint, padded_run(checkpoint, trace, n_padding), wish).payloads()
    no_nan = {"parse_constant": lambda name: pytest.fail(f"{name} reached the page")}
    return {name: json.loads(text, **no_nan) for name, text in zip(VIEWS, payloads, strict=True)}


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=5))
def test_the_two_conventions_are_negations_of_each_other(rows):
    mask = np.array(rows)
    assert np.array_equal(in_convention(mask, "attend"), ~in_convention(mask, "ignore"))
    why = reasons(mask.shape, future=~mask)
    board = mask_board("causal", mask, chips(3), chips(len(rows)), shape=(1,), axes=("B",), why=why)
    assert np.array_equal(unpacked(board["attend"]), 1 - unpacked(board["ignore"]))
    assert np.array_equal(unpacked(board["attend"]).astype(bool), mask)


def test_an_unknown_convention_is_refused():
    with pytest.raises(ValueError, match="convention must be one of attend, ignore, got 'bias'"):
        in_convention(np.ones((1, 1), bool), "bias")


def test_the_ignore_convention_is_the_one_of_torch_multihead_attention():
    generator = torch.Generator().manual_seed(0)
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(1, 5, 8, generator=generator)
    mask = causal_mask(5)[0, 0]
    ignored = torch.from_numpy(in_convention(mask.numpy(), "ignore"))
    _, weights = attention(x, x, x, attn_mask=ignored, average_attn_weights=False)
    assert bool((weights[..., ~mask] == 0).all())
    assert bool((weights[..., mask] > 0).all())


def test_the_boards_are_the_masks_of_the_network(checkpoint, trace):
    views = views_of(checkpoint, trace)
    src = torch.tensor([[*trace.src_ids, 0, 0, 0]])
    tgt_in = torch.tensor([[*trace.tgt_in_ids, 0, 0, 0]])
    masks = make_masks(src, tgt_in, 0)
    expected = {
        "padding": [padding_mask(src, 0)],
        "causal": [causal_mask(8)],
        "combined": [padding_mask(tgt_in, 0), causal_mask(8), masks.tgt_mask],
        "cross": [masks.memory_mask],
    }
    for name, tensors in expected.items():
        for board, tensor in zip(views[name]["boards"], tensors, strict=True):
            assert np.array_equal(unpacked(board["attend"]).astype(bool), tensor[0, 0].numpy())
            assert board["shape"] == list(tensor.shape)
    assert views["combined"]["operators"] == ["&", "="]


def test_broadcasting_the_row_over_the_square_gives_the_combined_board(checkpoint, trace):
    row, square, both = (unpacked(board["attend"]) for board in views_of(checkpoint, trace)["combined"]["boards"])
    assert (row.shape, square.shape, both.shape) == ((1, 8), (8, 8), (8, 8))
    assert np.array_equal(row & square, both)


@pytest.mark.parametrize("n_padding", [0, 1, 8])
def test_every_pad_has_a_column_of_its_own_and_pads_stay_apart_from_tokens(checkpoint, trace, n_padding):
    for name, view in views_of(checkpoint, trace, n_padding).items():
        if name == "effects":
            continue
        for board in view["boards"]:
            pads = [chip for chip in board["columns"] if chip["pad"]]
            assert len(pads) == n_padding
            assert all(chip["label"] == "<pad>" for chip in pads)
            assert not any(chip["pad"] for chip in board["columns"][: len(board["columns"]) - n_padding])


def test_a_source_of_twelve_with_eight_pads_gives_the_pads_a_weight_of_exactly_zero(checkpoint):
    short = trace_text(checkpoint, "3 1 7", max_steps=4)
    for name in ("padding_weights", "cross_weights"):
        without, masked = views_of(checkpoint, short, 8)[name]["boards"]
        assert len(masked["columns"]) == 12
        assert np.all(unpacked(masked["weights"])[:, 4:] == 0)
        assert masked["on_padding"] == 0
        assert np.all(unpacked(without["weights"])[:, 4:] > 0)
        assert without["on_padding"] == pytest.approx(unpacked(without["weights"])[:4, 4:].sum(axis=1).mean(), abs=1e-6)


def test_without_the_causal_mask_the_future_is_seen_and_with_it_exactly_not(checkpoint, trace):
    without, masked = views_of(checkpoint, trace)["causal_weights"]["boards"]
    future = ~np.tri(8, dtype=bool)
    assert np.all(unpacked(masked["weights"])[future] == 0)
    assert masked["on_future"] == 0
    assert np.all(unpacked(without["weights"])[future] > 0)
    assert without["on_future"] > 0


def test_the_weights_drawn_are_those_of_a_forward_pass_with_the_same_masks(checkpoint, trace):
    run = padded_run(checkpoint, trace, 3)
    drawn = views_of(checkpoint, trace)["combined_weights"]["boards"]
    for board, setting in zip(drawn, ("none", "padding_only", "causal_only", "all"), strict=True):
        name = "decoder.layers.1.self_attn.hook_pattern"
        expected = record_values(checkpoint, run.trace, {name}, settings(run)[setting])[name][1]
        assert np.array_equal(unpacked(board["weights"]), expected)
        assert np.allclose(unpacked(board["weights"]).sum(axis=1), 1, atol=1e-6)


def test_a_fully_masked_row_has_weights_of_exactly_zero_and_no_nan(checkpoint, trace):
    board, weights = views_of(checkpoint, trace, blind=2)["blind"]["boards"]
    assert not unpacked(board["attend"])[2].any()
    assert unpacked(board["attend"])[3].any()
    drawn = unpacked(weights["weights"])
    assert np.isfinite(drawn).all()
    assert np.all(drawn[2] == 0)
    assert np.allclose(drawn[[0, 1, 3, 4]].sum(axis=1), 1, atol=1e-6)
    run = padded_run(checkpoint, trace, 3)
    result = outcome(checkpoint, run, settings(run, 2)["blind"], LAYERS, 0)
    assert np.isfinite(result.logits).all()
    assert math.isfinite(result.log_prob)


def test_switched_off_the_blind_row_sees_what_the_combined_mask_allows(checkpoint, trace):
    views = views_of(checkpoint, trace, is_blind=False)
    assert views["blind"]["boards"][0]["attend"] == views["combined"]["boards"][2]["attend"]
    assert [row["name"] for row in views["effects"]["rows"]] == [name for name in EFFECTS if name != "blind"]


def test_blinding_a_query_leaves_the_given_mask_as_it_was():
    mask = causal_mask(4)
    assert not blinded(mask, 1)[0, 0, 1].any()
    assert torch.equal(mask, causal_mask(4))


def test_padding_under_all_masks_changes_nothing_the_model_writes(checkpoint, trace):
    effects = views_of(checkpoint, trace, 8)["effects"]
    (usual,) = [row for row in effects["rows"] if row["name"] == "all"]
    assert usual["log_prob"] == pytest.approx(effects["unpadded"], abs=1e-4)
    assert all(usual["is_right"])
    assert [chip["label"] for chip in usual["predicted"]] == [chip["label"] for chip in effects["right"]]


def test_pads_at_the_end_are_hidden_from_real_queries_by_the_causal_mask_alone(checkpoint, trace):
    rows = {row["name"]: row for row in views_of(checkpoint, trace)["effects"]["rows"]}
    assert rows["causal_only"]["moved"] == 0
    assert rows["padding_only"]["moved"] > 0
    assert rows["none"]["moved"] > 0
    assert rows["no_src_padding"]["moved"] > 0


def test_the_table_of_effects_is_recomputed_from_the_logits(checkpoint, trace):
    run = padded_run(checkpoint, trace, 2)
    for masks in settings(run, 1).values():
        result = outcome(checkpoint, run, masks, LAYERS, 0)
        right = [checkpoint.tgt_tokenizer.vocabulary.index(step.token) for step in trace.steps]
        shifted = np.exp(result.logits - result.logits.max(axis=1, keepdims=True))
        probability = (shifted / shifted.sum(axis=1, keepdims=True))[np.arange(5), right]
        assert np.allclose(result.right_probability, probability)
        assert result.log_prob == pytest.approx(np.log(probability).sum())
        assert result.predicted == checkpoint.tgt_tokenizer.tokens(result.logits.argmax(axis=1).tolist())


def test_the_padded_source_is_the_one_that_encode_source_makes(checkpoint, trace):
    ids, tokens, pieces = encode_source(checkpoint, trace.text, 4)
    padded = padded_run(checkpoint, trace, 4).trace
    assert (padded.src_ids, padded.src_tokens, padded.src_pieces) == (ids, tokens, pieces)


def test_as_many_pads_are_put_as_the_model_has_positions_for(checkpoint):
    full = trace_text(checkpoint, "1 2 3 4 5 6 7 8 9 1 2 3 4 5", max_steps=3)  # 14 symbols and <eos>, of 16 positions
    run = padded_run(checkpoint, full, 8)
    assert run.n_padding == 1
    assert len(run.trace.src_ids) == 16
    answer = draw_masks(Session("own", full, checkpoint), SimpleNamespace(n_padding=8))
    assert json.loads(answer[0]) | {"asked": 8, "fits": 1, "max_len": 16} == json.loads(answer[0])


def test_a_very_long_run_is_cut_to_its_first_steps_and_says_so():
    checkpoint = build_tiny_checkpoint(max_len=128)
    long = trace_text(checkpoint, "3 1 7", max_steps=120)
    assert len(long.steps) == 120  # untrained: it does not stop by itself
    answer = draw_masks(Session("own", long, checkpoint), SimpleNamespace(n_padding=2))
    assert json.loads(answer[0])["n_steps"] == MOST_STEPS
    assert json.loads(answer[0])["n_written"] == 120
    assert len(json.loads(answer[3])["boards"][0]["columns"]) == MOST_STEPS + 2


def test_stacks_of_different_height_and_a_single_head_are_laid_out_from_the_model():
    checkpoint = build_tiny_checkpoint(n_heads=1, n_encoder_layers=1, n_decoder_layers=3)
    asked = request_of(SimpleNamespace(layer=2, head=0), checkpoint, 4)
    assert asked["layers"] == {"encoder_self": 0, "decoder_self": 2, "cross": 2}
    session = Session("own", trace_text(checkpoint, "3 1", max_steps=2), checkpoint)
    assert len(draw_masks(session, SimpleNamespace(layer=2))) == 1 + len(VIEWS)


@pytest.mark.parametrize("value", [10**9, -(10**9), "3", None, 2.5, True, [1], {"n": 1}, math.nan])
def test_forged_requests_are_held_within_the_model_and_the_run(checkpoint, trace, value):
    event = SimpleNamespace(n_padding=value, layer=value, head=value, blind=value, is_blind=value)
    asked = request_of(event, checkpoint, 5)
    assert 0 <= asked["n_padding"] <= MOST_PADDING
    assert all(0 <= layer < 2 for layer in asked["layers"].values())
    assert 0 <= asked["head"] < 2
    assert 0 <= asked["blind"] < 5
    assert isinstance(asked["is_blind"], bool)
    draw_masks(Session("own", trace, checkpoint), event)


def test_numbers_are_held_between_their_limits():
    assert [bounded(value, 0, 8, 3) for value in (-1, 0, 5, 8, 9, "5", None, True)] == [0, 0, 5, 8, 8, 3, 3, 3]


def test_the_line_of_code_shown_is_the_line_that_stands_there():
    for shown in CODE.values():
        line = linecache.getline(str(CHECKPOINTS_FOLDER.parent / shown["file"]), shown["line"])
        assert shown["code"] in line
    with pytest.raises(ValueError, match="no line of causal_mask holds 'import'"):
        code_line(causal_mask, "import")


def test_hostile_tokens_travel_as_data_and_unknown_ones_with_what_was_typed(checkpoint):
    hostile = trace_text(checkpoint, "<b> 3 </script> &amp;", max_steps=2)
    labels = [chip["label"] for chip in views_of(checkpoint, hostile, 1)["padding"]["boards"][0]["columns"]]
    assert labels == ["<unk> <b>", "3", "<unk> </script>", "<unk> &amp;", "<eos>", "<pad>"]


def test_a_board_refuses_labels_reasons_and_weights_that_do_not_fit():
    mask = np.array([[True, False]])
    why = reasons((1, 2), padding=~mask)
    with pytest.raises(ValueError, match=r"the board is \(1, 2\), the tokens ask for \(1, 3\)"):
        mask_board("padding", mask, chips(3), None, shape=(1,), axes=("B",), why=why)
    with pytest.raises(ValueError, match="reasons must be 0 exactly where the mask is True"):
        mask_board("padding", mask, chips(2), None, shape=(1,), axes=("B",), why=np.zeros((1, 2), np.uint8))
    with pytest.raises(ValueError, match=r"a hidden cell has a weight of 0\.25"):
        weights_board("with", np.array([[0.75, 0.25]]), chips(2), chips(1), why=why)
    with pytest.raises(ValueError, match="not a finite number"):
        weights_board("with", np.array([[np.nan, 0.0]]), chips(2), chips(1), why=why)
    with pytest.raises(ValueError, match="expected 1 operators between 2 boards, got 2"):
        boards_payload([{}, {}], ["&", "="])


def test_a_leak_is_the_mean_over_real_queries_of_the_weight_in_the_region():
    weights = np.array([[0.5, 0.5], [0.2, 0.8], [0.0, 1.0]])
    region = np.array([[False, True]] * 3)
    assert leak(weights, region, np.array([True, True, False])) == pytest.approx(0.65)
    with pytest.raises(ValueError, match="at least one real query"):
        leak(weights, region, np.zeros(3, bool))
