"""The benches that cut and paint: what is sent equals a recomputation, and nothing that does not fit gets through."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import tiny_checkpoint
from transformer.checkpoints import shipped_checkpoint
from transformer.conditions import PaintedMasks, paint
from transformer.errors import InputError
from transformer.importance import head_importance
from transformer.search import Search
from transformer.surgery import HeadCut, SubLayerCut, surgery
from transformer.tracing import ATTENTION_KINDS, record_values, trace_text
from viz.surgery import MEASURES, aligned, disagreement, heads_payload, outcome_payload
from viz.tabs import lab_surgery
from viz.tabs.lab_masks import masks_of, painted_and_decoded, rows_of, usual, usual_masks
from viz.tabs.lab_runs import bench_of
from viz.tabs.lab_surgery import MOST_CUTS, cut_and_decoded, cuts_of, measured
from viz.tabs.session import Session

TEXT = "3 1 7 3"
CHECKPOINT = shipped_checkpoint("copy")
SESSION = Session("copy", trace_text(CHECKPOINT, TEXT))
CONFIG = CHECKPOINT.model.config
tokens = st.lists(st.sampled_from("abc"), max_size=7)


def event(**data: object) -> SimpleNamespace:
    return SimpleNamespace(_data=data)


def unpacked(array: dict) -> np.ndarray:
    return np.frombuffer(base64.b64decode(array["data"]), array["dtype"]).reshape(array["shape"])


def weights_of(run: dict, kind: str) -> np.ndarray:
    return unpacked(run["patterns"][kind]) / 65535


# Two outputs side by side


def edit_distance(one: list[str], other: list[str]) -> int:
    """By the textbook's recursion, row by row."""
    row = list(range(len(other) + 1))
    for i, token in enumerate(one, 1):
        above, row = row, [i]
        for j, against in enumerate(other, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (token != against)))
    return row[-1]


@given(tokens, tokens)
def test_an_alignment_holds_every_token_once_in_order_with_as_few_differences_as_can_be(before, after):
    pairs = aligned(before, after)
    assert [i for i, _ in pairs if i is not None] == list(range(len(before)))
    assert [j for _, j in pairs if j is not None] == list(range(len(after)))
    assert (None, None) not in pairs
    assert sum(None in pair or before[pair[0]] != after[pair[1]] for pair in pairs) == edit_distance(before, after)


def test_a_token_left_out_moves_nothing_else():
    assert aligned("abcd", "acd") == [(0, 0), (1, None), (2, 1), (3, 2)]
    assert aligned("ab", "xab") == [(None, 0), (0, 1), (1, 2)]


# What each head matters


@given(st.data())
def test_the_two_heads_named_are_the_sharpest_and_the_one_that_matters_most(data):
    numbers = st.floats(-5, 5, allow_nan=False, width=32)
    shapes = {"encoder_self": (1, 2), "cross": (2, 2)}
    change, strongest = (
        {kind: np.array(data.draw(st.lists(numbers, min_size=n * m, max_size=n * m))).reshape(n, m)
         for kind, (n, m) in shapes.items()} for _ in range(2)
    )
    said = disagreement(change, strongest)
    every = [abs(value) for kind in shapes for value in change[kind].flat]
    assert abs(said["matters"]["change"]) == max(every)
    assert said["matters"]["rank"] == 1
    assert said["sharpest"]["strongest"] == max(strongest[kind].max() for kind in shapes)
    sharpest = said["sharpest"]
    assert change[sharpest["kind"]][sharpest["layer"], sharpest["head"]] == sharpest["change"]
    assert sharpest["rank"] == 1 + sum(value > abs(sharpest["change"]) for value in every)
    assert said["n"] == 6


def test_the_map_that_is_sent_equals_a_recomputation():
    payload = json.loads(list(measured(SESSION, "en"))[-1])
    expected = head_importance(CHECKPOINT, SESSION.trace)
    assert payload["log_prob"] == pytest.approx(SESSION.trace.log_prob, abs=1e-4)
    for kind in ATTENTION_KINDS:
        sent = {name: unpacked(payload["heads"][kind][name]) for name in MEASURES}
        for name in MEASURES:
            wanted = expected.log_prob_change if name == "change" else getattr(expected, name)
            np.testing.assert_allclose(sent[name], wanted[kind], atol=1e-5)
        weights = weights_of(json.loads(payload["run"]), kind)
        np.testing.assert_allclose(sent["attention"], weights.mean(axis=2), atol=1e-4)
        np.testing.assert_allclose(sent["written"], sent["value_weighted"].sum(axis=-1), rtol=1e-4)
    assert [tuple(part.values()) for part in payload["sublayers"]][:3] == [
        ("encoder", 0, "self_attn"), ("encoder", 0, "feed_forward"), ("encoder", 1, "self_attn")]
    assert len(payload["sublayers"]) == 10


def test_a_measurement_that_takes_long_says_how_far_it_is(monkeypatch):
    real = lab_surgery.head_importance

    def slow(checkpoint, trace, *, progress):
        progress(12, 24)
        time.sleep(0.3)
        return real(checkpoint, trace)

    monkeypatch.setattr(lab_surgery, "SILENT_SECONDS", 0.05)
    monkeypatch.setattr(lab_surgery, "head_importance", slow)
    answers = [json.loads(answer) for answer in measured(SESSION, "en")]
    assert {"part": "progress", "done": 12, "total": 24} in answers[:-1]
    assert answers[-1]["part"] == "heads"


def test_a_map_with_a_number_that_is_none_or_of_another_size_is_refused():
    measures = {name: {"cross": np.zeros((1, 2, 3)[:n_axes])} for name, n_axes in MEASURES.items()}
    heads_payload(run="{}", log_prob=0.0, measures=measures, sublayers=[])
    for name, value in (("written", np.full((1, 2), np.nan)), ("attention", np.zeros((1, 3, 3)))):
        with pytest.raises(ValueError, match=name):
            heads_payload(run="{}", log_prob=0.0, measures={**measures, name: {"cross": value}}, sublayers=[])


# Decoding again under cuts

heads = st.fixed_dictionaries(
    {"kind": st.sampled_from(list(ATTENTION_KINDS)), "layer": st.integers(0, 1), "head": st.integers(0, 3)})
head_acts = st.one_of(
    st.builds(lambda head, act: {**head, "act": act}, heads, st.sampled_from(["off", "uniform"])),
    st.builds(lambda head, factor: {**head, "act": "scale", "factor": factor}, heads, st.floats(-2, 3)),
    st.builds(lambda head, key, weight: {**head, "act": "pin", "query": 2, "key": key, "weight": weight},
              heads, st.integers(0, 2), st.floats(0, 1)),
)
parts = st.builds(lambda layer, kind: {"stack": "decoder", "layer": layer, "kind": kind},
                  st.integers(0, 1), st.sampled_from(["self_attn", "cross_attn", "feed_forward"]))


def fed(conditions) -> np.ndarray:
    """Log-probability of each token of the usual output, from one pass over it in float64."""
    logits = record_values(CHECKPOINT, SESSION.trace, {"hook_logits"}, conditions=conditions)["hook_logits"]
    log_probs = logits - np.logaddexp.reduce(logits.astype(float), axis=-1, keepdims=True)
    vocabulary = CHECKPOINT.tgt_tokenizer.vocabulary
    return np.array([log_probs[t, vocabulary.index(step.token)] for t, step in enumerate(SESSION.trace.steps)])


@settings(max_examples=12, deadline=None)
@given(st.lists(st.one_of(head_acts, parts), min_size=1, max_size=3,
                unique_by=lambda cut: tuple(cut.get(name) for name in ("stack", "kind", "layer", "head"))))
def test_what_comes_of_any_cuts_equals_a_recomputation(sent):
    answer = json.loads(cut_and_decoded(SESSION, "en", event(cuts=sent, asked=7)))
    cuts = [SubLayerCut(**each) if "stack" in each else HeadCut(**each) for each in sent]
    conditions = surgery(cuts, CONFIG)
    again = trace_text(CHECKPOINT, TEXT, conditions=conditions)
    run = json.loads(answer["run"])
    assert [step["token"]["label"] for step in run["steps"]] == [step.token for step in again.steps]
    assert answer["log_prob"] == pytest.approx(again.log_prob, abs=1e-5)
    assert answer["usual"] == [step.log_prob for step in SESSION.trace.steps]
    np.testing.assert_allclose(answer["forced"], fed(conditions), atol=2e-4)
    for kind in ATTENTION_KINDS:
        np.testing.assert_allclose(weights_of(run, kind), again.patterns[kind], atol=1e-5)
    before, after = ([step.token for step in trace.steps] for trace in (SESSION.trace, again))
    assert answer["n_different"] == edit_distance(before, after)
    assert answer["asked"] == 7


def test_cuts_leave_the_shared_model_and_the_session_as_they_were():
    before = {name: value.clone() for name, value in CHECKPOINT.model.state_dict().items()}
    cut_and_decoded(SESSION, "en", event(cuts=[{"stack": "encoder", "layer": 0, "kind": "self_attn"}]))
    assert all(bool((value == before[name]).all()) for name, value in CHECKPOINT.model.state_dict().items())
    assert trace_text(CHECKPOINT, TEXT).log_prob == SESSION.trace.log_prob


OFF = {"kind": "cross", "layer": 0, "head": 0, "act": "off"}
PIN = {**OFF, "act": "pin", "query": 0, "key": 0, "weight": 0.5}


@pytest.mark.parametrize("cuts", [
    None, "off", {}, [3], [None], [{}], [OFF, OFF], [{**OFF, "more": 1}], [{**OFF, "layer": 2}], [{**OFF, "head": "0"}],
    [{**OFF, "kind": ["cross"]}], [{**OFF, "act": {}}], [{**OFF, "act": "scale", "factor": float("inf")}],
    [{**OFF, "act": "scale", "factor": 11}], [{**PIN, "key": 5}], [{**PIN, "key": -1}], [{**PIN, "query": 64}],
    [{**PIN, "weight": 1.01}], [{**PIN, "weight": float("nan")}], [{**PIN, "key": True}], [{**PIN, "query": 1.0}],
    [{**PIN, "kind": "decoder_self", "key": 1}], [{"stack": "encoder", "layer": 0, "kind": "cross_attn"}],
    [{"stack": "decoder", "layer": 0.0, "kind": "self_attn"}], [OFF] * (MOST_CUTS + 1),
])
def test_cuts_that_do_not_fit_are_refused_with_a_sentence_in_both_languages(cuts):
    for language in ("en", "zh"):
        answer = json.loads(cut_and_decoded(SESSION, language, event(cuts=cuts, asked=3)))
        assert answer["part"] == "problem"
        assert answer["asked"] == 3
        assert 10 < len(answer["sentence"]) < 500
        assert "{" not in answer["sentence"].replace("got {", "").replace("得到的是 {", "")


def test_a_bench_takes_the_run_on_display_where_decoding_again_gives_it_and_makes_it_anew_elsewhere():
    assert bench_of(SESSION).before is SESSION.trace
    beam = Search("beam", beam_width=3)
    shown = replace(SESSION, trace=trace_text(CHECKPOINT, TEXT, search=beam), search=replace(beam, method="greedy"))
    bench = bench_of(shown)
    assert bench.search == beam
    assert bench.before.search == "beam"
    assert bench.before is not shown.trace
    assert bench.made_for == shown.trace.id


def test_tokens_that_were_put_in_stay_in_under_cuts():
    prefix = [CHECKPOINT.tgt_tokenizer.vocabulary.index(token) for token in ("9", "8")]
    bench = bench_of(replace(SESSION, trace=trace_text(CHECKPOINT, TEXT, prefix=prefix)))
    after = bench.again(surgery([HeadCut("cross", 0, 0)], CONFIG))
    assert [step.token for step in after.steps[:2]] == ["9", "8"]
    assert after.n_forced == 2


def test_for_a_run_that_no_model_here_made_an_example_is_cut_into():
    strange = trace_text(tiny_checkpoint(), TEXT)
    bench = bench_of(replace(SESSION, trace=strange, opened=True))
    assert bench.is_example
    assert bench.made_for == strange.id
    assert bench.before.task == "copy"


def test_tokens_and_log_probabilities_that_differ_in_number_are_refused():
    facts = {"run": "{}", "before": ["a"], "after": [], "usual": [0.0], "log_prob": 0.0}
    outcome_payload(**facts, forced=[0.0])
    with pytest.raises(ValueError, match="1 usual and 2 forced"):
        outcome_payload(**facts, forced=[0.0, 0.0])


# Decoding again under painted masks

USUAL = {name: rows_of(mask) for name, mask in usual_masks(bench_of(SESSION)).items()}


def test_the_usual_masks_are_sent_and_decoding_under_them_changes_nothing():
    sent = json.loads(usual(SESSION, "en"))["masks"]
    n = len(SESSION.trace.steps)
    assert sent["decoder"] == ["1" * (i + 1) + "0" * (n - i - 1) for i in range(n)]
    assert sent["encoder"] == ["1" * 5] * 5
    assert sent["cross"] == ["1" * 5] * n
    answer = json.loads(painted_and_decoded(SESSION, "en", event(**sent, asked=1)))
    assert answer["n_different"] == 0
    assert answer["log_prob"] == pytest.approx(SESSION.trace.log_prob, abs=1e-4)


@settings(max_examples=10, deadline=None)
@given(st.data())
def test_what_comes_of_any_painted_masks_equals_a_recomputation_and_hidden_cells_get_exactly_nothing(data):
    def painted(rows: list[str]) -> list[str]:
        return ["".join(data.draw(st.sampled_from("01")) for _ in row) for row in rows]

    sent = {name: painted(rows) for name, rows in USUAL.items()}
    answer = json.loads(painted_and_decoded(SESSION, "en", event(**sent, asked=1)))
    masks = {name: np.array([[cell == "1" for cell in row] for row in rows]) for name, rows in sent.items()}
    again = trace_text(CHECKPOINT, TEXT, conditions=paint(PaintedMasks(**masks)))
    run = json.loads(answer["run"])
    assert [step["token"]["label"] for step in run["steps"]] == [step.token for step in again.steps]
    assert answer["log_prob"] == pytest.approx(again.log_prob, abs=1e-5)
    for kind, name in (("encoder_self", "encoder"), ("decoder_self", "decoder"), ("cross", "cross")):
        weights = weights_of(run, kind)
        n, m = (min(a, b) for a, b in zip(weights.shape[2:], masks[name].shape, strict=True))
        assert not weights[:, :, :n, :m][..., ~masks[name][:n, :m]].any()


def test_hiding_everything_decodes_to_finite_numbers():
    nothing = {name: ["0" * len(row) for row in rows] for name, rows in USUAL.items()}
    answer = json.loads(painted_and_decoded(SESSION, "en", event(**nothing, asked=1)))
    assert np.isfinite([answer["log_prob"], *answer["forced"]]).all()
    run = json.loads(answer["run"])
    n = len(USUAL["decoder"])
    for kind in ATTENTION_KINDS:
        assert not weights_of(run, kind)[:, :, :n, : None if kind == "encoder_self" else n].any()


@pytest.mark.parametrize("changed", [
    {"encoder": None}, {"encoder": "11"}, {"encoder": []}, {"encoder": [""]}, {"encoder": ["1"] * 4},
    {"encoder": [1] * 5}, {"encoder": ["11111"] * 4 + ["1111"]}, {"encoder": ["11112"] * 5},
    {"decoder": ["1" * 65] * 65},
    {"decoder": ["11"] * 3}, {"cross": ["1111"] * 5}, {"cross": ["11111"] * 4}, {"cross": {"0": "1"}},
    {"encoder": ["1"], "decoder": ["1"], "cross": ["1"]},
])
def test_masks_that_do_not_fit_are_refused_with_a_sentence(changed):
    with pytest.raises(InputError, match="The painted mask"):
        masks_of(event(**{**USUAL, **changed}), bench_of(SESSION))
    answer = json.loads(painted_and_decoded(SESSION, "zh", event(**{**USUAL, **changed}, asked=-1)))
    assert answer["part"] == "problem"
    assert answer["asked"] == 0


def test_cuts_are_read_from_nothing_but_their_own_fields():
    assert cuts_of([OFF, {"stack": "decoder", "layer": 1, "kind": "cross_attn"}], bench_of(SESSION)) == [
        HeadCut("cross", 0, 0), SubLayerCut("decoder", 1, "cross_attn")]
    assert cuts_of([], bench_of(SESSION)) == []
