"""Cuts into heads and sub-layers, and what each head matters: batched equals one by one, and all is recomputed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import tiny_checkpoint
from transformer import importance
from transformer.checkpoints import shipped_checkpoint
from transformer.conditions import PaintedMasks, paint, together
from transformer.errors import InputError
from transformer.faults import faulty
from transformer.importance import head_importance
from transformer.surgery import HeadCut, SubLayerCut, pinned, surgery
from transformer.tracing import ATTENTION_KINDS, address, record_values, trace_text

CHECKPOINT = tiny_checkpoint()
CONFIG = CHECKPOINT.model.config
TEXT = "3 1 7 3"


def cut_run(*cuts, text: str = TEXT):
    return trace_text(CHECKPOINT, text, conditions=surgery(cuts, CONFIG), max_steps=7)


PLAIN = trace_text(CHECKPOINT, TEXT, max_steps=7)
heads = st.tuples(st.sampled_from(list(ATTENTION_KINDS)), st.integers(0, 1), st.integers(0, 1))


@settings(max_examples=8)
@given(heads)
def test_a_head_that_is_off_has_no_weights_and_the_others_of_its_layer_keep_theirs(head):
    kind, layer, index = head
    pattern = cut_run(HeadCut(kind, layer, index)).patterns[kind][layer]
    assert pattern[index].max() == 0
    assert pattern[1 - index].sum() > 0
    if kind == "encoder_self" and layer == 0:
        assert np.array_equal(pattern[1 - index], PLAIN.patterns[kind][layer][1 - index])


@settings(max_examples=8)
@given(heads)
def test_a_uniform_head_gives_the_same_weight_to_all_it_may_see_and_none_to_the_rest(head):
    kind, layer, index = head
    pattern = cut_run(HeadCut(kind, layer, index, "uniform")).patterns[kind][layer, index]
    if kind == "decoder_self":
        expected = np.tril(np.ones_like(pattern)) / np.arange(1, len(pattern) + 1)[:, None]
    else:
        expected = np.full_like(pattern, 1 / pattern.shape[1])
    np.testing.assert_allclose(pattern, expected, atol=1e-6)


def test_scaling_multiplies_what_a_head_gives_and_nothing_else():
    cuts = surgery([HeadCut("cross", 1, 0, "scale", factor=-2.5)], CONFIG)
    name = address("cross", 1, "hook_z")
    before = record_values(CHECKPOINT, PLAIN, {name})[name]
    after = record_values(CHECKPOINT, PLAIN, {name}, conditions=cuts)[name]
    np.testing.assert_allclose(after[0], before[0] * -2.5, rtol=1e-6)
    assert np.array_equal(after[1], before[1])
    assert cut_run(HeadCut("cross", 1, 0, "scale", factor=1.0)).log_prob == pytest.approx(PLAIN.log_prob, abs=1e-6)


@given(st.integers(0, 3), st.integers(0, 4), st.floats(0, 1))
def test_a_pinned_row_still_sums_to_1_and_its_other_weights_keep_their_proportions(query, key, weight):
    pattern = torch.rand(2, 3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    pattern /= pattern.sum(dim=-1, keepdim=True)
    changed = pinned(pattern, 1, query, key, weight)
    assert torch.allclose(changed.sum(dim=-1), torch.ones(2, 3, 4, dtype=torch.float64))
    row, before = changed[:, 1, query], pattern[:, 1, query]
    assert bool((row[:, key] == weight).all())
    others = [k for k in range(5) if k != key]
    ratio = (1 - weight) / (1 - before[:, key])
    assert torch.allclose(row[:, others], before[:, others] * ratio[:, None])
    changed[:, 1, query] = before
    assert torch.equal(changed, pattern)


def test_a_pin_acts_at_its_own_query_of_a_decode_and_a_row_that_is_not_there_is_left_alone():
    pattern = cut_run(HeadCut("decoder_self", 0, 1, "pin", query=2, key=0, weight=0.75)).patterns["decoder_self"][0, 1]
    assert pattern[2, 0] == pytest.approx(0.75)
    np.testing.assert_allclose(pattern.sum(axis=-1), 1, atol=1e-6)
    assert cut_run(HeadCut("cross", 0, 1, "pin", query=15, key=0)).log_prob == pytest.approx(PLAIN.log_prob, abs=1e-5)
    # With no other weight in the row there is nothing to share the rest out among.
    alone = pinned(torch.tensor([[[[1.0, 0.0]]]]), 0, 0, 0, 0.25)
    assert alone.flatten().tolist() == [0.25, 0.0]


@pytest.mark.parametrize(("stack", "kind", "hook"), [
    ("encoder", "self_attn", "hook_attn_out"), ("encoder", "feed_forward", "hook_mlp_out"),
    ("decoder", "cross_attn", "hook_cross_attn_out"), ("decoder", "feed_forward", "hook_mlp_out"),
])
def test_a_silenced_sub_layer_writes_zeros_and_no_other_does(stack, kind, hook):
    acts = record_values(CHECKPOINT, PLAIN, conditions=surgery([SubLayerCut(stack, 1, kind)], CONFIG))
    written = {name for name in acts if name.endswith("_out") and "norm" not in name and name.count(".") == 3}
    assert len(written) == 10
    assert {name for name in written if not acts[name].any()} == {f"{stack}.layers.1.{hook}"}


def test_cuts_combine_with_each_other_and_with_faults():
    cuts = [HeadCut("cross", 0, 0), HeadCut("cross", 0, 1, "uniform"), SubLayerCut("decoder", 1, "feed_forward"),
            HeadCut("encoder_self", 0, 0, "pin", query=0, key=1, weight=0.5),
            HeadCut("encoder_self", 0, 0, "pin", query=1, key=1, weight=0.5)]
    conditions = together(surgery(cuts, CONFIG), faulty(["no_causal_mask"]))
    trace = trace_text(CHECKPOINT, TEXT, conditions=conditions, max_steps=5)
    assert trace.patterns["cross"][0, 0].max() == 0
    assert trace.patterns["cross"][0, 1].min() == pytest.approx(0.2)
    assert trace.patterns["encoder_self"][0, 0, 0, 1] == pytest.approx(0.5)
    assert np.triu(trace.patterns["decoder_self"], 1).max() > 0


@pytest.mark.parametrize(("cut", "code"), [
    (HeadCut("cross", 2, 0), "setting_whole"), (HeadCut("cross", 0, 2), "setting_whole"),
    (HeadCut("cross", 0, True), "setting_whole"), (HeadCut("sideways", 0, 0), "setting_choice"),
    (HeadCut("cross", 0, 0, "explode"), "setting_choice"), (HeadCut("cross", 0, 0, "scale", 11.0), "setting_range"),
    (HeadCut("cross", 0, 0, "scale", float("nan")), "setting_range"),
    (HeadCut("cross", 0, 0, "pin", weight=1.5), "setting_range"),
    (HeadCut("decoder_self", 0, 0, "pin", query=1, key=2), "surgery_future"),
    (SubLayerCut("encoder", 0, "cross_attn"), "setting_choice"),
    (SubLayerCut("attic", 0, "self_attn"), "setting_choice"),
    (SubLayerCut("decoder", -1, "self_attn"), "setting_whole"),
])
def test_a_cut_that_does_not_fit_the_network_is_refused(cut, code):
    with pytest.raises(InputError) as caught:
        surgery([cut], CONFIG)
    assert caught.value.code == code


@pytest.mark.parametrize("second", [
    HeadCut("cross", 0, 1), HeadCut("cross", 0, 1, "uniform"), HeadCut("cross", 0, 1, "pin", query=3, key=0)
])
def test_one_head_cannot_be_changed_in_two_ways(second):
    pin = HeadCut("cross", 0, 1, "pin", query=3, key=1)
    for cuts in ([pin, second], [second, pin]):
        with pytest.raises(InputError, match="Layer 1, head 2 of cross attention is changed twice"):
            surgery(cuts, CONFIG)


# What each head matters


def one_by_one(checkpoint, trace, head) -> float:
    """Log-probability of the run's output with one head off, by a pass of its own in numpy from its logits."""
    conditions = surgery([HeadCut(*head)], checkpoint.model.config)
    logits = record_values(checkpoint, trace, {"hook_logits"}, conditions=conditions)["hook_logits"].astype(np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    vocabulary = checkpoint.tgt_tokenizer.vocabulary
    return sum(log_probs[t, vocabulary.index(step.token)] for t, step in enumerate(trace.steps))


@pytest.mark.parametrize("checkpoint", [CHECKPOINT, shipped_checkpoint("copy")], ids=["random", "trained"])
def test_all_heads_in_one_batched_pass_are_each_head_by_itself(checkpoint, monkeypatch):
    trace = trace_text(checkpoint, TEXT)
    measured = head_importance(checkpoint, trace)
    assert measured.log_prob == pytest.approx(trace.log_prob, abs=1e-4)
    told: list[tuple[int, int]] = []
    # Chunks of a few heads give the same, and say how far they are.
    monkeypatch.setattr(importance, "rows_of_a_pass", lambda *sizes: 5)
    chunked = head_importance(checkpoint, trace, progress=lambda done, of: told.append((done, of)))
    n_heads = sum(values.size for values in measured.log_prob_change.values())
    assert told == [(min(done, n_heads), n_heads) for done in range(5, n_heads + 5, 5)]
    for kind, changes in measured.log_prob_change.items():
        np.testing.assert_allclose(chunked.log_prob_change[kind], changes, atol=1e-4)
        for layer, head in np.ndindex(changes.shape):
            expected = one_by_one(checkpoint, trace, (kind, layer, head)) - trace.log_prob
            assert changes[layer, head] == pytest.approx(expected, abs=2e-4), (kind, layer, head)


@settings(max_examples=6)
@given(heads)
def test_attention_and_value_weighted_attention_of_a_head_equal_a_recomputation(head):
    kind, layer, index = head
    measured = head_importance(CHECKPOINT, PLAIN)
    stack, name = ATTENTION_KINDS[kind]
    acts = record_values(CHECKPOINT, PLAIN, {address(kind, layer), address(kind, layer, "hook_v")})
    pattern, v = acts[address(kind, layer)][index], acts[address(kind, layer, "hook_v")][index]
    w_o = getattr(getattr(CHECKPOINT.model, stack).layers[layer], name).out_proj.weight.numpy()
    own = w_o[:, index * CONFIG.d_head : (index + 1) * CONFIG.d_head]  # [D, K]
    adds = np.array([
        [np.linalg.norm(pattern[query, key] * own @ v[key]) for key in range(len(v))] for query in range(len(pattern))
    ])
    np.testing.assert_allclose(measured.attention[kind][layer, index], pattern.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(measured.value_weighted[kind][layer, index], adds.mean(axis=0), rtol=1e-4)
    assert measured.strongest[kind][layer, index] == pytest.approx(pattern.max(axis=1).mean(), rel=1e-5)
    assert measured.written[kind][layer, index] == pytest.approx(adds.sum(axis=1).mean(), rel=1e-4)


def test_the_rows_of_a_pass_bound_its_memory():
    model = shipped_checkpoint("copy").model
    assert importance.rows_of_a_pass(model, 10, 10) > 24
    assert importance.rows_of_a_pass(model, 100_000, 10) == 1


# Painted masks


def masks(n_source: int = 5, n_target: int = 8, **changes: np.ndarray) -> PaintedMasks:
    usual = {"encoder": np.ones((n_source, n_source), bool), "decoder": np.tri(n_target, dtype=bool),
             "cross": np.ones((n_target, n_source), bool)}
    return PaintedMasks(**{**usual, **changes})


def test_painting_the_usual_masks_changes_nothing():
    assert paint(masks()).cached
    trace = trace_text(CHECKPOINT, TEXT, conditions=paint(masks()), max_steps=7)
    assert trace.log_prob == pytest.approx(PLAIN.log_prob, abs=1e-6)


def test_a_mask_that_hides_everything_decodes_to_zeros_without_nan():
    nothing = PaintedMasks(np.zeros((5, 5), bool), np.zeros((8, 8), bool), np.zeros((8, 5), bool))
    trace = trace_text(CHECKPOINT, TEXT, conditions=paint(nothing), max_steps=7)
    assert all(pattern.max() == 0 for pattern in trace.patterns.values())
    assert np.isfinite([step.log_prob for step in trace.steps]).all()


@settings(max_examples=8)
@given(st.data())
def test_any_painted_cells_decide_who_is_seen_while_decoding(data):
    def drawn(rows: int, columns: int) -> np.ndarray:
        bits = data.draw(st.integers(0, 2 ** (rows * columns) - 1))
        return np.array([bits >> i & 1 for i in range(rows * columns)], bool).reshape(rows, columns)

    # Half of the masks leave the future hidden, and are decoded with a cache.
    painted = PaintedMasks(drawn(5, 5), drawn(4, 4) & (np.tri(4, dtype=bool) | data.draw(st.booleans())), drawn(4, 5))
    trace = trace_text(CHECKPOINT, TEXT, conditions=paint(painted), max_steps=4)
    n = len(trace.steps)
    for kind, mask in (("encoder_self", painted.encoder), ("decoder_self", painted.decoder[:n, :n]),
                       ("cross", painted.cross[:n])):
        pattern = trace.patterns[kind]
        assert pattern[..., ~mask].max(initial=0) == 0
        sees = np.broadcast_to(mask.any(axis=1), pattern.shape[:3])
        np.testing.assert_allclose(pattern.sum(axis=-1), sees, atol=1e-5)


def test_beyond_what_is_painted_the_usual_masks_hold_and_the_future_needs_a_pass_over_everything():
    two_rows = masks(decoder=np.eye(2, dtype=bool), cross=np.zeros((2, 5), bool), n_target=2)
    trace = trace_text(CHECKPOINT, TEXT, conditions=paint(two_rows), max_steps=4)
    assert trace.patterns["cross"][:, :, :2].max() == 0
    assert trace.patterns["cross"][:, :, 2:].min() > 0
    assert (trace.patterns["decoder_self"][0, 0] > 0).tolist() == [
        [True, False, False, False], [False, True, False, False], [True, True, True, False], [True, True, True, True]
    ]
    ahead = np.tri(8, dtype=bool)
    ahead[0, 1] = True
    assert not paint(masks(decoder=ahead)).cached
    trace = trace_text(CHECKPOINT, TEXT, conditions=paint(masks(decoder=ahead)), max_steps=4)
    assert trace.patterns["decoder_self"][:, :, 0, 1].min() > 0


def test_masks_that_do_not_fit_are_refused():
    for wrong in ({"encoder": np.ones((5, 4), bool)}, {"cross": np.ones((3, 5), bool)}, {"decoder": np.ones((8, 8))}):
        with pytest.raises(InputError) as caught:
            masks(**wrong)
        assert caught.value.code == "mask_shape"
    with pytest.raises(InputError, match=r"\(5, 5\) is needed, got \(4, 4\)"):
        trace_text(CHECKPOINT, TEXT, conditions=paint(masks(n_source=4)))
