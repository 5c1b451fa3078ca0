"""The picture of a reference beside free running: its data equal its input, and labels are shown to the letter."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from test_teacher_forcing import TEXT, writer
from transformer.tasks import TASKS
from transformer.teacher_forcing import ForcedStep, FreeStep, TeacherForcing, compare
from transformer.tracing import trace_text
from viz.payload import token_chips
from viz.reference import Comparison, comparison_payload, curves_chart, percent
from viz.tabs.language import say
from viz.tabs.reference import comparison_of, facts, known_reference, suggested_reference, verdict
from viz.tabs.session import Session


def words(key: str, **values: object) -> str:
    return say("en", f"reference.{key}", **values)


def comparison(**changes: object) -> Comparison:
    """Reference of 4 tokens, output of 3; they part at the second."""
    made = Comparison(
        reference=token_chips(["3", "3", "<b>&amp;", "<eos>"]),
        fed_reference=np.array([0.5, 0.12, 0.9, 1.0]),
        fed_own=np.array([0.5, 0.12, 0.0001, np.nan]),
        ranks=[1, 3, 1, 1],
        choices=[("3", 0.5), ("1", 0.55), ("<b>&amp;", 0.9), ("<eos>", 1.0)],
        written=token_chips(["3", "1", "<eos>"]),
        written_probability=np.array([0.5, 0.55, 0.99996]),
        parts_at=1,
    )
    return replace(made, **changes)


@pytest.mark.parametrize(
    ("share", "written"),
    [(0, "0 %"), (0.0001, "< 0.1 %"), (0.0123, "1.2 %"), (0.123, "12 %"), (0.555, "56 %"), (0.996, "99.6 %"),
     (0.9996, "> 99.9 %"), (1, "100 %")],
)
def test_a_probability_is_never_rounded_to_none_or_all(share, written):
    assert percent(share) == written


def test_a_column_has_everything_of_one_position_and_nothing_where_one_has_ended():
    payload = json.loads(comparison_payload(comparison(), verdict={"key": "x"}))
    columns = payload["columns"]
    assert (payload["parts_at"], payload["verdict"], len(columns)) == (1, {"key": "x"}, 4)
    assert [column["reference"]["label"] for column in columns] == ["3", "3", "<b>&amp;", "<eos>"]
    assert [column["written"] and column["written"]["label"] for column in columns] == ["3", "1", "<eos>", None]
    assert [column["fed_reference"]["share"] for column in columns] == [0.5, 0.12, 0.9, 1.0]
    assert [column["fed_own"] and column["fed_own"]["share"] for column in columns] == [0.5, 0.12, 0.0001, None]
    assert [column["own"] and column["own"]["text"] for column in columns] == ["50 %", "55 %", "> 99.9 %", None]
    assert [column["differs"] for column in columns] == [False, True, True, True]
    # What it would rather have is said only where its first choice is another.
    assert [column["choice"] for column in columns] == [None, {"label": "1", "text": "55 %"}, None, None]


def test_an_output_longer_than_the_reference_has_columns_of_its_own():
    longer = comparison(
        reference=token_chips(["3"]), fed_reference=np.array([0.5]), fed_own=np.array([0.5]), ranks=[1],
        choices=[("3", 0.5)], parts_at=None,
    )
    columns = json.loads(comparison_payload(longer))["columns"]
    assert [column["reference"] and column["reference"]["label"] for column in columns] == ["3", None, None]
    assert [row[1] for row in curves_chart(longer, words).table.rows] == ["3", None, None]


def test_the_curves_are_the_probabilities_in_percent_with_a_gap_past_the_end():
    forced, free = curves_chart(comparison(), words).figure.data
    assert list(forced.x) == list(free.x) == [1, 2, 3, 4]
    assert list(forced.y) == pytest.approx([50, 12, 90, 100])
    assert list(free.y[:3]) == pytest.approx([50, 12, 0.01])
    assert free.y[3] is None
    assert (forced.name, free.name) == ("fed the reference", "fed its own output")


def test_equal_and_number_like_tokens_keep_their_places_and_markup_is_shown_to_the_letter():
    figure = curves_chart(comparison(), words).figure
    assert list(figure.layout.xaxis.tickvals) == [1, 2, 3, 4]
    assert list(figure.layout.xaxis.ticktext) == ["3", "3", "&lt;b&gt;&amp;amp;", "&lt;eos&gt;"]
    assert figure.data[0].text[2] == "3 · &lt;b&gt;&amp;amp;: 90 %"


def test_the_place_where_they_part_is_marked_and_only_there():
    (line,) = curves_chart(comparison(), words).figure.layout.shapes
    assert (line.x0, line.x1) == (2, 2)
    same = curves_chart(comparison(parts_at=None), words)
    assert not same.figure.layout.shapes
    assert "Both curves are one" in same.summary


def test_the_summary_says_the_means_of_what_comes_after_the_place():
    summary = curves_chart(comparison(), words).summary
    assert "Up to token 2" in summary
    assert "90 % on average when the decoder is fed the reference, and < 0.1 %" in summary
    at_the_end = comparison(fed_own=np.array([0.5, 0.12, np.nan, np.nan]), written=token_chips(["3", "1"]),
                            written_probability=np.array([0.5, 0.55]))
    assert "Up to token 2, the last that both have" in curves_chart(at_the_end, words).summary


def test_the_table_has_a_row_a_position_with_every_number():
    table = curves_chart(comparison(), words).table
    assert len(table.columns) == 8
    assert table.rows[1] == [2, "3", "12 %", 3, "1 (55 %)", "12 %", "1", "55 %"]
    assert table.rows[3] == [4, "<eos>", "100 %", 1, "<eos> (100 %)", None, None, None]


@pytest.mark.parametrize(
    "changes",
    [{"fed_own": np.zeros(3)}, {"ranks": [1]}, {"written_probability": np.zeros(4)}, {"parts_at": 3}],
    ids=["fed_own", "ranks", "written", "place"],
)
def test_labels_and_numbers_that_do_not_match_are_refused(changes):
    with pytest.raises(ValueError, match=r"expected|both have"):
        comparison(**changes)


def test_what_is_drawn_is_what_was_computed():
    checkpoint = writer()
    found = compare(checkpoint, TEXT, "0 11 \u05e9 5")
    drawn = comparison_of(found)
    assert [chip["label"] for chip in drawn.reference] == ["0", "11", "<unk> \u05e9", "5", "<eos>"]
    assert [chip["unknown"] for chip in drawn.reference] == [False, False, True, False, False]
    np.testing.assert_allclose(drawn.fed_reference, [math.exp(step.log_prob) for step in found.forced])
    np.testing.assert_allclose(drawn.fed_own, [math.exp(step.reference_log_prob) for step in found.free[:5]])
    assert [chip["label"] for chip in drawn.written] == [step.token for step in found.free]
    assert drawn.parts_at == found.parts_at == 2


def test_the_sentence_names_both_tokens_and_both_probabilities_at_the_place():
    found = compare(writer(), TEXT, "0 11 4")
    said = verdict(found)
    assert (said["key"], said["values"]["n"]) == ("parts", 3)
    assert said["values"]["reference"]["label"] == "4"
    assert said["values"]["written"]["label"] == "5"
    assert said["values"]["percent"] == percent(math.exp(found.forced[2].log_prob))
    assert said["values"]["own"] == percent(math.exp(found.free[2].log_prob))
    assert verdict(compare(writer(), TEXT, "0 11 5 11 9 9"))["key"] == "agrees"


def test_the_facts_say_which_of_the_two_the_model_finds_more_probable():
    def of(forced: float, free: float, token: str = "1", finished: bool = True) -> list[str]:
        found = TeacherForcing(
            (ForcedStep(token, token, forced, 1, token, forced),), (FreeStep("2", free, forced),), 0, finished
        )
        return [fact["key"] for fact in facts(found, is_own=False)]

    assert of(-2.0, -1.0) == ["first_choices", "totals", "prefers_own"]
    assert of(-1.0, -2.0) == ["first_choices", "totals", "prefers_reference"]
    assert of(-1.0, -2.0, "<unk>", finished=False) == ["first_choices", "totals", "unknown", "capped"]


def test_every_fact_and_verdict_has_words_in_both_languages():
    for language in ("en", "zh"):
        for reference in ("0 11 4", "0 11 5 11 9 9", "x"):
            found = compare(writer(), TEXT, reference)
            for said in (verdict(found), *facts(found, is_own=True)):
                values = {name: value["label"] if isinstance(value, dict) else value
                          for name, value in said["values"].items()}
                assert "{" not in say(language, f"reference.{said['key']}", **values)


def test_the_box_offers_what_the_task_knows_or_else_what_the_model_wrote():
    checkpoint = writer()
    assert suggested_reference(checkpoint, trace_text(checkpoint, "3 1 7")) == "3 1 7"
    unknown = replace(trace_text(checkpoint, "3 1 7"), task="of somebody else")
    assert known_reference(unknown.task, unknown.text) == ""
    assert suggested_reference(checkpoint, unknown) == "0 11 5 11 9 9"
    silent = replace(unknown, steps=unknown.steps[-1:])  # nothing but <eos>
    assert suggested_reference(checkpoint, silent) == "0"


def test_what_is_offered_can_always_be_compared():
    for seed, eagerness in ((10, 0), (0, 0), (8, 0.2)):
        checkpoint = writer(seed, eagerness)
        trace = replace(trace_text(checkpoint, TEXT), task="of somebody else")
        assert compare(checkpoint, TEXT, suggested_reference(checkpoint, trace)).forced


def test_the_references_of_the_examples_stand_beside_their_text_in_a_session():
    checkpoint = writer()
    session = Session("copy", trace_text(checkpoint, TEXT))
    assert known_reference("reverse", session.trace.text) == TASKS["reverse"].reference(TEXT) == "7 1 3"
