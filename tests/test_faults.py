"""Every fault makes exactly its named proofs fail, on a trained and on a random model, and leaves the model alone."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
import torch

from builders import tiny_checkpoint
from transformer.checkpoints import shipped_checkpoint
from transformer.conditions import USUAL, Conditions, NextLogitsUnder, together
from transformer.decoding import cached_next_logits, greedy_decode
from transformer.errors import InputError
from transformer.fault_table import DOCUMENT, TASK, TEXT, failing_proofs, fault_document
from transformer.faults import FAULTS, N_PADDING, chosen_faults, faulty, shifted_positions, wrongly_split
from transformer.hooks import intervene
from transformer.masks import make_masks
from transformer.model import sinusoidal_encoding
from transformer.proofs import NEEDS_ANOTHER_DEVICE, PROOFS, prove
from transformer.search import Search
from transformer.tracing import record_values, trace_text
from transformer.training_faults import TRAINING_FAULTS

COPY_TEXT = "3 1 7 3 10 2"
both = pytest.mark.parametrize("name", FAULTS)


@cache
def failing_on_copy(name: str) -> frozenset[str]:
    return frozenset(failing_proofs([name]))


@cache
def random_model():
    """Post-LN, learned positions: what the shipped models do not have."""
    return tiny_checkpoint(norm_first=False, positional_encoding="learned")


@both
def test_exactly_the_named_proofs_of_a_fault_fail_on_a_trained_model(name):
    assert set(FAULTS[name].must_fail) <= set(PROOFS)
    assert failing_on_copy(name) == set(FAULTS[name].must_fail)


@both
def test_exactly_the_named_proofs_of_a_fault_fail_on_a_random_post_ln_model(name):
    failing = {proof.name for proof in prove(random_model(), "1 2 3", [name]) if not proof.holds}
    assert failing == set(FAULTS[name].must_fail)


def test_every_proof_but_that_of_a_second_device_is_failed_by_some_fault():
    named = {proof for fault in FAULTS.values() for proof in fault.must_fail}
    assert set(PROOFS) - named == {NEEDS_ANOTHER_DEVICE}
    assert all(fault.must_fail for fault in FAULTS.values())


def test_the_table_in_the_documents_is_what_a_run_gives_now():
    """Regenerate with ``python -m transformer.fault_table``."""
    assert (TASK, TEXT) == ("copy", COPY_TEXT)
    assert DOCUMENT.read_text(encoding="utf-8") == fault_document({name: set(failing_on_copy(name)) for name in FAULTS})


def test_the_document_has_every_fault_and_a_cross_for_every_failing_proof():
    written = DOCUMENT.read_text(encoding="utf-8")
    of_decoding, of_training = written.split("## Faults of training")
    rows = {line.split("`")[1]: line.count(" x ") for line in of_decoding.splitlines() if line.startswith("| `")}
    measured = [line.split("`")[1] for line in of_training.splitlines() if line.startswith("| `")]
    assert measured == list(TRAINING_FAULTS)
    assert rows == {name: len(fault.must_fail) for name, fault in FAULTS.items()}
    assert all(f"(`{name}`)" in written for name in [*FAULTS, *TRAINING_FAULTS])


# What single faults do


def run(name: str, text: str = COPY_TEXT, **options):
    return trace_text(shipped_checkpoint("copy"), text, conditions=faulty([name]), **options)


def test_a_faulty_run_is_an_ordinary_trace_and_its_values_can_be_computed_again():
    for name in ("no_causal_mask", "no_score_scale", "positions_shifted", "no_residual"):
        conditions = FAULTS[name].conditions
        trace = trace_text(shipped_checkpoint("copy"), COPY_TEXT, conditions=conditions, n_padding=N_PADDING)
        again = record_values(shipped_checkpoint("copy"), trace, conditions=conditions)
        for kind, place in (
            ("encoder_self", "encoder.layers.1.self_attn"), ("decoder_self", "decoder.layers.1.self_attn"),
            ("cross", "decoder.layers.0.cross_attn"),
        ):
            layer = int(place.split(".")[2])
            np.testing.assert_allclose(trace.patterns[kind][layer], again[f"{place}.hook_pattern"], atol=1e-5)


def test_without_a_causal_mask_the_pattern_reaches_into_the_future():
    pattern = run("no_causal_mask").patterns["decoder_self"]
    assert np.triu(pattern, 1).max() > 0.1
    assert np.triu(run("causal_mask_off_by_one").patterns["decoder_self"], 2).max() == 0
    assert np.triu(run("causal_mask_off_by_one").patterns["decoder_self"], 1).max() > 0
    assert np.triu(trace_text(shipped_checkpoint("copy"), COPY_TEXT).patterns["decoder_self"], 1).max() == 0


def test_padding_is_attended_to_without_its_mask_and_on_the_wrong_axis():
    for name in ("no_padding_mask", "padding_mask_on_queries"):
        assert FAULTS[name].needs_padding
        assert run(name, n_padding=N_PADDING).patterns["cross"][..., -N_PADDING:].max() > 0
    on_queries = run("padding_mask_on_queries", n_padding=N_PADDING).patterns["encoder_self"]
    assert on_queries[..., -N_PADDING:, :].max() == 0  # padding asks nothing


def test_a_run_that_does_not_stop_goes_on_to_the_last_position_and_shows_all_it_wrote():
    trace = run("no_stop")
    assert len(trace.steps) == shipped_checkpoint("copy").model.config.max_len
    assert not trace.finished
    assert trace.steps[6].token == "<eos>"
    assert trace.output_text == " ".join(step.token for step in trace.steps if step.token != "<eos>")
    beam = run("no_stop", search=Search("beam", beam_width=2), max_steps=9)
    assert len(beam.steps) == 9


def test_the_wrong_first_token_is_what_the_run_says_it_was_fed():
    assert run("wrong_first_token").tgt_in_tokens[0] == "<eos>"


def test_dropout_gives_another_run_each_time_and_no_cross_attention_forgets_the_text():
    outputs = {tuple(step.log_prob for step in run("dropout_left_on").steps) for _ in range(3)}
    assert len(outputs) == 3
    assert run("no_cross_attention", "1 2 3").output_text == run("no_cross_attention", "9 8 7").output_text


def test_the_wrong_split_is_what_view_without_a_transpose_gives():
    projected = torch.arange(2.0 * 3 * 8).view(2, 3, 8)  # [B, T, D]
    right = projected.unflatten(-1, (4, 2)).transpose(1, 2)
    assert torch.equal(wrongly_split(right), projected.view(2, 4, 3, 2))


@pytest.mark.parametrize("start", [0, 3, 15])
def test_shifted_positions_are_the_next_rows_of_the_table_and_go_on_behind_its_end(start):
    model = tiny_checkpoint().model  # 16 positions
    (shift,) = shifted_positions(model).values()
    expected = sinusoidal_encoding(17, 12)[start + 1 :]
    torch.testing.assert_close(shift(model.tgt_embedding.positions[start:]), expected, atol=1e-6, rtol=0)


# How they are chosen, combined and kept apart


def test_contradictory_and_unknown_faults_are_refused():
    for names in (["no_causal_mask", "causal_mask_off_by_one"], ["no_padding_mask", "padding_mask_on_queries"],
                  ["no_positions", "positions_shifted"]):
        with pytest.raises(InputError) as caught:
            chosen_faults(names)
        assert caught.value.code == "faults_contradict"
        assert all(name in str(caught.value) for name in names)
    with pytest.raises(InputError, match="no fault 'gremlins'"):
        faulty(["gremlins"])


def test_faults_combine_in_one_order_however_they_are_named():
    names = ["no_residual", "no_cross_attention", "no_stop", "no_causal_mask"]
    assert chosen_faults(names) == chosen_faults(names[::-1])
    conditions = faulty(names)
    assert not conditions.cached
    assert not conditions.stops
    acts = record_values(random_model(), trace_text(random_model(), "1 2"), conditions=conditions)
    # Without cross-attention its sub-layer writes 0; without the residual sum the stream is then the norm of 0.
    norm = random_model().model.decoder.layers[0].cross_norm
    expected = norm(torch.zeros(1, 12)).detach().numpy()
    np.testing.assert_allclose(acts["decoder.layers.0.hook_resid_mid_cross"], np.broadcast_to(expected, (16, 12)))


def test_all_faults_that_do_not_contradict_each_other_decode_to_finite_numbers():
    left_out = {"causal_mask_off_by_one", "padding_mask_on_queries", "positions_shifted"}
    conditions = faulty([name for name in FAULTS if name not in left_out])
    trace = trace_text(shipped_checkpoint("copy"), COPY_TEXT, conditions=conditions, n_padding=2, max_steps=8)
    assert all(math.isfinite(step.log_prob) for step in trace.steps)
    assert all(np.isfinite(pattern).all() for pattern in trace.patterns.values())


def test_two_visitors_of_one_model_one_with_faults_on_do_not_meet():
    checkpoint = tiny_checkpoint()
    before = {key: value.clone() for key, value in checkpoint.model.state_dict().items()}
    plain = trace_text(checkpoint, "1 2 3").log_prob
    names = ["no_positions", "no_score_scale", "no_layer_norm", "no_residual", "no_causal_mask"]
    broken = trace_text(checkpoint, "1 2 3", conditions=faulty(names)).log_prob
    with ThreadPoolExecutor(2) as pool:
        jobs = [
            pool.submit(lambda c: trace_text(checkpoint, "1 2 3", conditions=c).log_prob, conditions)
            for _ in range(6) for conditions in (USUAL, faulty(names))
        ]
    assert {job.result() for job in jobs[::2]} == {plain}
    assert {job.result() for job in jobs[1::2]} == {broken}
    assert plain != broken
    assert all(torch.equal(value, before[key]) for key, value in checkpoint.model.state_dict().items())


def test_usual_conditions_change_nothing_and_make_the_usual_masks():
    model = shipped_checkpoint("copy").model
    src, tgt_in = torch.tensor([[5, 6, 2, 0], [7, 2, 0, 0]]), torch.tensor([[1, 5, 6], [1, 7, 0]])
    for ours, usual in zip(USUAL.masks(src, tgt_in, 0), make_masks(src, tgt_in, 0), strict=True):
        assert torch.equal(ours, usual)
    assert together().usual_masks
    limits = {"batch_size": 2, "max_steps": 6, **USUAL.limits(2)}
    with torch.inference_mode():
        plain = greedy_decode(cached_next_logits(model, src), **limits)
        for cached in (True, False):
            other = greedy_decode(NextLogitsUnder(Conditions(cached=cached), model, src), **limits)
            assert [row.token_ids for row in other] == [row.token_ids for row in plain]
            assert [row.log_prob for row in other] == pytest.approx([row.log_prob for row in plain], abs=1e-5)


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.conditions.cached])
def test_under_a_fault_that_keeps_the_cache_a_step_makes_no_more_passes_than_usual(name):
    """Bounded cost, counted and not timed: one query a step in every decoder layer, as in a plain decode."""
    queries: list[int] = []

    def count(q: torch.Tensor) -> torch.Tensor:
        queries.append(q.shape[2])
        return q

    checkpoint = tiny_checkpoint()
    with intervene({"decoder.layers.1.self_attn.hook_q": count}):
        trace = trace_text(checkpoint, "1 2 3", conditions=FAULTS[name].conditions)
    assert queries == [1] * len(trace.steps)
