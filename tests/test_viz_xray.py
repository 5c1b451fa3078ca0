"""What the X-ray sends: every number equals a recomputation, every part has its shape, formula and line of code."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from builders import tiny_checkpoint
from transformer.hooks import record
from transformer.tracing import trace_text
from transformer.xray import gradients, logit_lens, logit_shares, stream_norms
from viz.tabs.session import Session, first_session
from viz.tabs.xray import (
    MOST_TOKENS,
    PROBABILITIES,
    first_part,
    part_of,
    payload_of_part,
    payload_of_saliency,
    payload_of_tokens,
    subject_of,
    values_of,
)
from viz.tabs.xray_parts import FORMULAS, MODULES
from viz.xray import NO_NUMBER, figures, part_values, quantised, strongest_columns, token_payload

ROOT = Path(__file__).parent.parent
CHECKPOINTS = {
    "pre-LN": tiny_checkpoint(n_encoder_layers=1, n_decoder_layers=3),
    "post-LN": tiny_checkpoint(norm_first=False, positional_encoding="learned", tie_output=False),
}
SESSIONS = {
    name: Session("copy", trace_text(checkpoint, "3 1 7", max_steps=5)).with_own(checkpoint)
    for name, checkpoint in CHECKPOINTS.items()
}
every = pytest.mark.parametrize("name", SESSIONS)


def numbers(packed: dict) -> np.ndarray:
    """The numbers of a quantised array; NaN where there is none."""
    codes = np.frombuffer(base64.b64decode(packed["data"]), "<u2").reshape(packed["shape"])
    values = packed["low"] + codes.astype(float) * (packed["high"] - packed["low"]) / 65534
    return np.where(codes == NO_NUMBER, np.nan, values)


def recomputed(session: Session) -> dict[str, np.ndarray]:
    """Every value of the run by a pass of the network of its own."""
    model, trace = session.checkpoint.model, session.trace
    with torch.no_grad(), record() as acts:
        model(torch.tensor([trace.src_ids]), torch.tensor([trace.tgt_in_ids]))
    values = {name: (value[0] if value.dim() > 2 else value).numpy() for name, value in acts.items()}
    return {**values, PROBABILITIES: torch.tensor(values["hook_logits"]).softmax(dim=-1).numpy()}


@every
def test_every_part_shows_the_numbers_figures_and_shape_of_a_recomputation(name):
    session, expected = SESSIONS[name], recomputed(SESSIONS[name])
    subject = subject_of(session)
    values = values_of(subject)
    assert set(values) == {address for address in expected if not address.endswith("norm_in")}
    for address, value in values.items():
        part, exact = part_of(subject, values, address), expected[address].astype(float)
        assert part["shape"] == list(exact.shape)
        assert len(part["axes"]) == exact.ndim
        heads = exact if exact.ndim == 3 else exact[None]
        sent = numbers(part["values"])
        if address in ("hook_logits", PROBABILITIES):
            heads = heads[:, :, strongest_columns(value, MOST_TOKENS)]
        finite = np.isfinite(heads)
        assert np.isnan(sent).tolist() == (~finite).tolist()
        reach = np.ptp(heads[finite])
        np.testing.assert_allclose(sent[finite], heads[finite], atol=reach / 131068 + 1e-6)
        for facts, head in zip(part["figures"], exact if exact.ndim == 3 else [exact], strict=True):
            shown = head[np.isfinite(head)]
            assert facts["mean"] == pytest.approx(shown.mean(), abs=1e-6)
            assert facts["std"] == pytest.approx(shown.std(), abs=1e-6)
            assert (facts["min"], facts["max"]) == pytest.approx((shown.min(), shown.max()), abs=1e-6)
            assert facts["n_hidden"] == head.size - shown.size


@every
def test_every_part_names_a_line_that_stands_in_the_source_at_that_number(name):
    subject = subject_of(SESSIONS[name])
    values = values_of(subject)
    for address in values:
        part = part_of(subject, values, address)
        file, line = part["code"]["place"].split(":")
        written = (ROOT / file).read_text().splitlines()[int(line) - 1].strip()
        assert part["code"]["text"].startswith(written)
        assert part["formula"]
        assert not re.search(r"\{(context|x)\}", part["formula"])


@every
def test_a_part_shows_the_norms_of_its_own_weights_and_of_their_gradients(name):
    subject = subject_of(SESSIONS[name])
    values, model = values_of(subject), subject.checkpoint.model
    parts = {address: part_of(subject, values, address) for address in values}
    for part in parts.values():
        assert (part["weights"] is None) == (part["n_parameters"] == 0)
    queries = parts["decoder.layers.0.cross_attn.hook_q"]["weights"]
    weight = model.decoder.layers[0].cross_attn.q_proj.weight
    assert [row["name"].rpartition(".q_proj.")[2] for row in queries["rows"]] == ["weight", "bias"]
    assert queries["rows"][0]["shape"] == list(weight.shape)
    assert queries["rows"][0]["norm"] == pytest.approx(float(weight.double().norm()), rel=1e-6)
    assert queries["rows"][0]["gradient"] > 0
    assert queries["loss"] == pytest.approx(-subject.trace.log_prob, abs=1e-4)


@every
def test_the_weights_of_all_parts_add_up_to_those_of_the_model(name):
    subject = subject_of(SESSIONS[name])
    values, model = values_of(subject), subject.checkpoint.model
    counted = sum(part_of(subject, values, address)["n_parameters"] for address in values)
    tied = model.unembed.weight.numel() if model.config.tie_output else 0
    assert counted - tied == sum(weight.numel() for weight in model.parameters())


def test_every_hook_point_of_the_network_has_words_in_both_languages():
    hooks = {address.rpartition(".")[2].removeprefix("hook_") for address in values_of(subject_of(SESSIONS["pre-LN"]))}
    assert set(FORMULAS) | set(MODULES) <= hooks
    for language in ("en", "zh"):
        words = json.loads((ROOT / "assets" / "strings" / language / "xray.json").read_text())
        assert [hook for hook in sorted(hooks) if f"part_{hook}" not in words or f"says_{hook}" not in words] == []


@every
def test_a_part_that_the_network_does_not_have_is_answered_with_the_last_cross_attention(name):
    session = SESSIONS[name]
    expected = first_part(subject_of(session))
    last = session.checkpoint.model.config.n_decoder_layers - 1
    assert expected == f"decoder.layers.{last}.cross_attn.hook_pattern"
    for part in (None, 7, "decoder.layers.9.hook_resid_pre", "<b>", {"part": 1}):
        assert json.loads(payload_of_part(session, part, None))["part"]["address"] == expected


def test_the_picture_is_sent_only_to_who_has_not_got_it():
    session = SESSIONS["pre-LN"]
    first = json.loads(payload_of_part(session, None, None))
    assert first["picture"]["shapes"]["decoder.layers.2.self_attn.hook_pattern"] == [2, 5, 5]
    assert first["picture"]["config"]["n_decoder_layers"] == 3
    assert "picture" not in json.loads(payload_of_part(session, None, first["run"]))


@every
def test_the_token_table_holds_lens_shares_and_norms_of_the_network(name):
    session = SESSIONS[name]
    checkpoint, trace = session.checkpoint, session.trace
    sent = json.loads(payload_of_tokens(session))
    lens, norms = logit_lens(checkpoint, trace, 3), stream_norms(checkpoint, trace)
    found = logit_shares(checkpoint, trace)
    np.testing.assert_allclose(np.sum(sent["shares"], axis=0), found.logits, atol=1e-4)
    np.testing.assert_allclose(sent["shares"], found.shares, atol=1e-6)
    np.testing.assert_allclose(sent["norms"]["after"], norms.after, atol=1e-5)
    np.testing.assert_allclose(sent["norms"]["written"], norms.written, atol=1e-5)
    np.testing.assert_allclose(sent["probabilities"], np.exp(lens.written_log_prob), atol=1e-6)
    assert sent["ranks"] == lens.written_rank.tolist()
    vocabulary = checkpoint.tgt_tokenizer.vocabulary
    for point, step in np.ndindex(lens.token_ids.shape[:2]):
        assert [label for label, _ in sent["candidates"][point][step]] == [
            vocabulary[i] for i in lens.token_ids[point, step]
        ]


def test_saliency_is_that_of_the_asked_step_and_a_step_there_is_not_is_the_last():
    session = SESSIONS["pre-LN"]
    n_steps = len(session.trace.steps)
    for step, meant in ((0, 0), (99, n_steps - 1), (-3, 0), ("1", n_steps - 1), (True, n_steps - 1)):
        sent = json.loads(payload_of_saliency(session, step))
        expected = gradients(session.checkpoint, session.trace, meant)
        assert sent["step"] == meant
        assert sent["sides"]["source"]["saliency"] == pytest.approx(expected.source_saliency.tolist(), abs=1e-5)
        assert len(sent["sides"]["target"]["tokens"]) == meant + 1


def test_a_run_of_a_model_that_is_not_here_is_answered_with_an_example():
    stranger = trace_text(tiny_checkpoint(seed=5), "5 5")
    session = first_session().with_opened_trace(stranger)
    sent = json.loads(payload_of_part(session, None, None))
    assert sent["picture"]["is_example"] is True
    assert sent["picture"]["model"] == session.checkpoint.name
    assert json.loads(payload_of_tokens(session))["run"] == sent["run"]


@given(st.lists(st.floats(-1e6, 1e6) | st.just(-np.inf), min_size=1, max_size=30))
def test_a_quantised_number_is_right_to_a_131068th_of_the_range_and_infinity_has_a_code_of_its_own(values):
    exact = np.array(values)
    packed = quantised(exact)
    finite = np.isfinite(exact)
    reach = packed["high"] - packed["low"]
    np.testing.assert_allclose(numbers(packed)[finite], exact[finite], atol=reach / 131068 * 1.001 + 1e-9)
    assert np.isnan(numbers(packed)).tolist() == (~finite).tolist()
    assert figures(exact)["n_hidden"] == (~finite).sum()


def test_rows_columns_and_tables_that_do_not_fit_are_refused():
    chip = {"label": "a", "special": False, "unknown": False}
    with pytest.raises(ValueError, match=re.escape("2 rows are named, the value is (3, 4)")):
        part_values(np.zeros((3, 4)), [chip] * 2, None)
    with pytest.raises(ValueError, match="3 columns are named, 4 of"):
        part_values(np.zeros((3, 4)), [chip] * 3, [chip] * 3)
    fitting = {
        "written": [chip], "sublayers": ["a"], "norms": dict.fromkeys(("before", "written", "after"), np.ones((1, 1))),
        "components": ["x"], "shares": np.ones((1, 1)), "logits": np.ones(1), "candidates": [[[]], [[]]],
        "probabilities": np.ones((2, 1)), "ranks": np.ones((2, 1), int),
    }
    token_payload(**fitting)
    with pytest.raises(ValueError, match="shares: got"):
        token_payload(**{**fitting, "shares": np.ones((2, 1))})
