"""The benches that break and prove: what is sent to the browser equals what the network computes."""

from __future__ import annotations

import base64
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import tiny_checkpoint
from transformer.fault_runs import faulty_run, next_distributions, total_variation
from transformer.faults import FAULTS, faulty
from transformer.proofs import prove
from transformer.search import Search
from transformer.tracing import record_values, trace_text
from viz.faults import counted, deviation_share, faults_payload, proof_row, proofs_payload, readable, within_one
from viz.tabs.lab_faults import GROUPS, catalogue, fault_payload, names_of, payload_of_faults
from viz.tabs.lab_proofs import payloads_of_proofs
from viz.tabs.language import STRINGS
from viz.tabs.session import Session

TEXT = "3 1 7 3"
DETERMINISTIC = [name for name in FAULTS if name != "dropout_left_on"]


@pytest.fixture(scope="module")
def checkpoint():
    return tiny_checkpoint(seed=3)


@pytest.fixture(scope="module")
def session(checkpoint) -> Session:
    return Session("own", trace_text(checkpoint, TEXT), own=checkpoint)


def step_by_step(checkpoint, trace, conditions) -> np.ndarray:
    """[T, V]: the last row of a pass over each beginning of what was fed, without a cache."""
    model = checkpoint.model
    fed = (conditions.first_id, *trace.tgt_in_ids[1:])
    src = torch.tensor([trace.src_ids])
    rows = []
    with torch.inference_mode(), conditions.changing(model):
        for n in range(1, len(fed) + 1):
            tgt_in = torch.tensor([fed[:n]])
            masks = conditions.masks(src, tgt_in, model.config.pad_id)
            rows.append(model(src, tgt_in, masks)[0, -1].double().softmax(dim=-1))
    return torch.stack(rows).numpy()


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_the_distance_is_half_the_sum_of_all_differences_of_probabilities(checkpoint, name):
    run = faulty_run(checkpoint, TEXT, [name])
    sound, broken = (step_by_step(checkpoint, run.healthy, conditions) for conditions in (faulty([]), faulty([name])))
    expected = [sum(abs(p - q) for p, q in zip(*rows, strict=True)) / 2 for rows in zip(sound, broken, strict=True)]
    np.testing.assert_allclose(run.distances, expected, atol=1e-6)
    assert run.n_padding == (4 if FAULTS[name].needs_padding else 0)
    assert len(run.faulty.steps) <= run.most_steps <= max(2 * len(run.healthy.steps), len(run.healthy.steps) + 8)


def test_most_faults_move_probability_and_those_of_the_loop_alone_move_none(checkpoint):
    moved = {name: faulty_run(checkpoint, TEXT, [name]).distances.max() for name in DETERMINISTIC}
    assert moved["no_stop"] == moved["large_negative_for_infinity"] == 0
    silent = ("no_stop", "large_negative_for_infinity")
    assert all(distance > 1e-6 for name, distance in moved.items() if name not in silent), moved


@settings(max_examples=6, deadline=None)
@given(
    faults=st.lists(st.sampled_from(DETERMINISTIC), max_size=3, unique=True),
    text=st.lists(st.integers(0, 11), min_size=1, max_size=6).map(lambda numbers: " ".join(map(str, numbers))),
    data=st.data(),
)
def test_both_runs_of_the_payload_are_what_the_network_computes_for_any_faults_and_text(faults, text, data):
    parts = [FAULTS[name].part for name in faults if FAULTS[name].part]
    if len(parts) != len(set(parts)):
        faults = faults[:1]
    checkpoint = tiny_checkpoint(seed=3)
    sent = json.loads(payload_of_faults(Session("own", trace_text(checkpoint, text), own=checkpoint), tuple(faults)))
    run = faulty_run(checkpoint, text, faults)
    assert set(sent["chosen"]) == set(faults)
    assert sent["distance"] == pytest.approx(run.distances.mean(), abs=1e-9)
    for side, trace in (("before", run.healthy), ("after", run.faulty)):
        shown = json.loads(sent[side])
        assert [step["token"]["label"] for step in shown["steps"]] == [step.token for step in trace.steps]
        for step, own in zip(shown["steps"], trace.steps, strict=True):
            assert [tuple(candidate) for candidate in step["candidates"]] == list(own.candidates[:5])
        kind = data.draw(st.sampled_from(["encoder_self", "decoder_self", "cross"]))
        pattern = shown["patterns"][kind]
        parts = np.frombuffer(base64.b64decode(pattern["data"]), "<u2").reshape(pattern["shape"])
        place = tuple(data.draw(st.integers(0, n - 1)) for n in pattern["shape"])
        weight = parts[place] / 65535 * shown["largest"][kind]
        assert weight == pytest.approx(float(trace.patterns[kind][place]), abs=1e-5)
    n_same = sum(
        i is not None and j is not None and run.healthy.steps[i].token == run.faulty.steps[j].token
        for i, j in sent["pairs"]
    )
    assert sent["n_different"] == len(sent["pairs"]) - n_same


def test_the_sound_side_is_the_run_on_display_and_a_beam_is_broken_as_a_beam(checkpoint, session):
    sent = json.loads(payload_of_faults(session, ("no_positions",)))
    assert json.loads(sent["before"])["id"] == session.trace.id
    search = Search(method="beam", beam_width=3)
    beam = Session("own", trace_text(checkpoint, TEXT, search=search), own=checkpoint, search=search)
    sent = json.loads(payload_of_faults(beam, ("no_positions",)))
    expected = trace_text(checkpoint, TEXT, search=search, conditions=faulty(["no_positions"]))
    written = [step["token"]["label"] for step in json.loads(sent["after"])["steps"]]
    assert written == [step.token for step in expected.steps][: len(written)]


def test_padding_is_put_behind_both_texts_only_where_there_is_room(checkpoint):
    longest = " ".join(["5"] * (checkpoint.model.config.max_len - 3))  # with <eos> two places are left
    run = faulty_run(checkpoint, longest, ["no_padding_mask"])
    assert run.n_padding == 2
    assert run.healthy.src_ids == run.faulty.src_ids
    assert run.healthy.src_tokens[-2:] == ("<pad>", "<pad>")


def test_weights_above_1_come_back_as_they_were():
    patterns = {"cross": np.array([[[[1.25, 0.5]]]], dtype=np.float32), "encoder_self": np.ones((1, 1, 1, 1))}
    shown, largest = within_one(patterns)
    assert largest == {"cross": 1.25, "encoder_self": 1.0}
    assert shown["cross"].max() <= 1
    np.testing.assert_allclose(shown["cross"] * largest["cross"], patterns["cross"], rtol=1e-6)


def test_dropout_that_makes_a_weight_larger_than_1_can_be_shown(checkpoint):
    run = faulty_run(checkpoint, TEXT, ["dropout_left_on"])
    shown = json.loads(fault_payload(run.faulty))
    assert max(shown["largest"].values()) > 1


def test_distances_that_do_not_fit_the_tokens_or_are_none_are_refused():
    facts = {"groups": [], "chosen": [], "before": "{}", "after": "{}", "written_after": ["1"]}
    with pytest.raises(ValueError, match="2 tokens have 1 distances"):
        faults_payload(**facts, written_before=["1", "2"], distances=[0.1])
    for wrong in (1.5, -0.1, math.nan):
        with pytest.raises(ValueError, match="distances must lie in"):
            faults_payload(**facts, written_before=["1"], distances=[wrong])


def test_total_variation_is_0_for_the_same_answer_and_1_for_nothing_in_common():
    first, second = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]), np.array([[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]])
    assert total_variation(first, second).tolist() == [0.0, 1.0]


def test_the_sound_distributions_are_those_of_one_pass_over_the_whole_target(checkpoint, session):
    logits = record_values(checkpoint, session.trace, {"hook_logits"})["hook_logits"]
    expected = torch.from_numpy(logits).double().softmax(dim=-1).numpy()
    np.testing.assert_allclose(next_distributions(checkpoint, session.trace, faulty([])), expected, atol=1e-6)


def test_every_fault_stands_in_the_list_once_and_has_its_words_in_both_languages():
    listed = [fault["name"] for _, faults in catalogue() for fault in faults]
    assert sorted(listed) == sorted(FAULTS)
    for words in STRINGS.values():
        assert all(f"lab_faults.group_{group}" in words for group in GROUPS)
        for name in FAULTS:
            keys = (f"lab.fault_{name}", f"lab.fault_{name}_why", f"lab.fault_{name}_bug", f"lab_faults.purpose_{name}")
            assert all(key in words for key in keys)


def test_what_is_no_list_of_names_is_no_fault_and_a_long_list_is_cut():
    for forged in (None, 3, "no_positions", {"a": 1}):
        assert names_of(forged) == ()
    assert len(names_of(["x"] * 10_000)) == 2 * len(FAULTS)
    assert names_of([["no_positions"], None]) == ("['no_positions']", "None")


@pytest.mark.parametrize("faults", [(), ("causal_mask_off_by_one", "no_residual")])
def test_the_proofs_shown_are_those_that_were_made(checkpoint, session, faults):
    payloads = [json.loads(each) for each in payloads_of_proofs(session, faults, "cpu", "question")]
    assert (payloads[0]["rows"], payloads[0]["verdict"]) == ([], "running")
    last = payloads[-1]
    made = list(prove(checkpoint, TEXT, faults))
    named = {proof for name in faults for proof in FAULTS[name].must_fail}
    assert [row["name"] for row in last["rows"]] == [proof.name for proof in made]
    assert [row["holds"] for row in last["rows"]] == [proof.holds for proof in made]
    assert [row["expected_to_fail"] for row in last["rows"]] == [proof.name in named for proof in made]
    for row, proof in zip(last["rows"], made, strict=True):
        assert row["tolerance"] == readable(proof.tolerance)
        assert [key for key, _ in row["done"]] == list(proof.done)
        assert row["milliseconds"] >= 0
        for words in STRINGS.values():
            assert all(f"lab_proofs.done_{key}" in words for key in proof.done)
    assert last["asked"] == "question"
    assert last["n_hold"] == sum(proof.holds for proof in made)
    failing = {proof.name for proof in made if not proof.holds}
    assert last["verdict"] == ("other" if failing != named else "as_named" if named else "sound")


def test_the_verdict_tells_named_failures_from_others():
    def row(holds: bool, expected: bool) -> dict:
        return proof_row("p", holds, 0.0 if holds else 1.0, 1e-9, {}, 1.0, expected)

    def verdict(*rows: dict, n_all: int = 1) -> str:
        return json.loads(proofs_payload(asked="", chosen=[], rows=rows, n_all=n_all))["verdict"]

    assert verdict(row(True, False)) == "sound"
    assert verdict(row(False, True)) == "as_named"
    assert verdict(row(False, False)) == verdict(row(True, True)) == "other"
    assert verdict(row(True, False), n_all=2) == "running"


@pytest.mark.parametrize(("number", "text"), [
    (0.0, "0"), (3.33e-16, "3.3 × 10⁻¹⁶"), (1e-9, "10⁻⁹"), (0.0421, "0.0421"), (0.5, "0.5"), (1.0, "1"),
    (12.34, "12.3"), (2.5e7, "2.5 × 10⁷"), (math.inf, "∞"), (-math.inf, "−∞"), (math.nan, "NaN"),
])
def test_a_deviation_is_written_as_it_is_read(number, text):
    assert readable(number) == text


def test_the_bar_of_a_deviation_goes_by_its_power_of_ten():
    assert deviation_share(0.0) == deviation_share(1e-18) == 0.0
    assert deviation_share(1.0) == deviation_share(1e9) == deviation_share(math.nan) == deviation_share(math.inf) == 1.0
    assert deviation_share(10**-8.5) == pytest.approx(0.5)
    assert [counted([3, 11000]), counted("2.13")] == ["3, 11\u202f000", "2.13"]
