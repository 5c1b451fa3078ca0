"""What the Train tab is sent: every point once, maps that fit, charts of what was recorded, no bad setting."""

from __future__ import annotations

import base64
import json
import math
import threading
import time
from functools import partial

import numpy as np
import pytest

from builders import run_coroutine
from test_training_worker import PATIENCE, job_of, trainings  # noqa: F401 - a fixture
from transformer.errors import InputError
from transformer.history import Evaluation, History, StepRecord
from transformer.tasks import TRAINED_ON_THE_PAGE
from viz.tabs import train, training_views
from viz.tabs.language import STRINGS, say, say_error
from viz.tabs.training_settings import (
    MOST_EVALUATIONS,
    NAMES,
    RANGES,
    default_settings,
    steps_between_evaluations,
)
from viz.tabs.training_settings import (
    job_of as job_from_settings,
)
from viz.tabs.training_views import Seen, chart_of, curves_of, shipped_curves, shipped_timeline, timeline_of
from viz.training import curves_payload, marked_tokens, timeline_payload, training_chart

CURVES = ("loss", "token_accuracy", "learning_rate")


def shown_of(training, between=lambda: None) -> list[dict]:
    """All that the page is sent while it follows ``training``, by the names of its parts."""
    parts = {name: name for name in ("start", "fit", "stop", "note", "curves", "timeline", "own", "use", "download",
                                     "files")}

    async def follow() -> list[dict]:
        updates = []
        async for update in train._followed(training, parts):
            updates.append(update)
            between()
        return updates

    return run_coroutine(follow())


def decoded(packed: dict) -> np.ndarray:
    values = np.frombuffer(base64.b64decode(packed["data"]), dtype="<u2")
    return values.reshape(packed["shape"]) / 65535


def test_the_deltas_of_a_training_have_every_point_exactly_once_and_in_order(trainings, monkeypatch):  # noqa: F811
    monkeypatch.setattr(train, "POLL_SECONDS", 0.01)
    training = trainings().start("visitor", job_of(steps=40))
    updates = shown_of(training)
    deltas = [json.loads(update["curves"]) for update in updates if "curves" in update]
    assert len(deltas) > 2
    points, evaluations = {name: [] for name in CURVES}, []
    for delta in deltas:
        assert (delta["first_step"], delta["first_evaluation"]) == (len(points["loss"]), len(evaluations))
        for name in CURVES:
            points[name] += delta["steps"][name]
        evaluations += delta["evaluations"]
    for name in CURVES:
        np.testing.assert_allclose(points[name], [getattr(step, name) for step in training.history.steps], rtol=1e-4)
    assert [entry["step"] for entry in evaluations] == [0, 10, 20, 30, 40]
    snapshots = [snapshot for update in updates if "timeline" in update
                 for snapshot in json.loads(update["timeline"])["snapshots"]]
    assert [snapshot["step"] for snapshot in snapshots] == [0, 10, 20, 30, 40]
    assert [delta["state"]["code"] for delta in deltas][-1] == "steps"
    assert updates[-1]["own"] is training.outcome.checkpoint


def test_the_page_is_sent_at_most_five_updates_a_second(trainings):  # noqa: F811
    training = trainings().start("visitor", job_of(seconds=1.5))
    began = time.monotonic()
    updates = shown_of(training)
    assert len(updates) <= 2 + 5 * math.ceil(time.monotonic() - began)


def test_a_view_that_missed_points_can_have_all_again(trainings):  # noqa: F811
    training = trainings().start("visitor", job_of(steps=20))
    assert training.join(PATIENCE)
    whole = json.loads(curves_of(training, Seen(), Seen.all_of(training)))
    assert (whole["first_step"], len(whole["steps"]["loss"]), len(whole["evaluations"])) == (0, 20, 3)
    maps = json.loads(timeline_of(training, Seen(), Seen.all_of(training)))
    for snapshot, recorded in zip(maps["snapshots"], training.snapshots, strict=True):
        for kind, weights in recorded.patterns.items():
            np.testing.assert_allclose(decoded(snapshot["patterns"][kind]), weights, atol=1 / 65535)


def test_times_shown_are_what_the_visitor_waited_not_what_the_trainer_counts(trainings):  # noqa: F811
    training = trainings().start("visitor", job_of(steps=20))
    assert training.join(PATIENCE)
    sent = json.loads(curves_of(training, Seen(), Seen.all_of(training)))
    assert [entry["seconds"] for entry in sent["evaluations"]] == training.evaluated_after
    assert training.evaluated_after[-1] >= training.history.evaluations[-1].seconds


def test_wrong_and_missing_tokens_are_marked_place_by_place():
    marked = marked_tokens(["3", "1", "7", "2"], ["3", "7", " "])
    assert marked == {
        "tokens": [{"label": "3", "right": True}, {"label": "7", "right": False}, {"label": "␣", "right": False}],
        "missing": 1,
    }
    assert marked_tokens(["3"], ["3", "3"])["tokens"][1]["right"] is False


def test_curves_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match=r"\[1, 2\]"):
        curves_payload(run="r", first_step=0, steps={"loss": [1.0], "rate": [1.0, 2.0]}, first_evaluation=0,
                       evaluations=[], samples=None)


def test_maps_that_do_not_fit_the_tokens_are_refused():
    probe = {"source": ["a", "b"], "target_in": ["c", "d", "e"]}
    snapshot = {"step": 0, "exact_match": 0.0, "written": [], "patterns": {"cross": np.zeros((1, 1, 2, 2))}}
    with pytest.raises(ValueError, match=r"\(2, 2\).*\(3, 2\)"):
        timeline_payload(run="r", first_snapshot=0, snapshots=[snapshot], probe=probe)


@pytest.fixture
def history() -> History:
    steps = [StepRecord(i, 4.0 / i, i / 10, i * 1e-3, 0.5, i * 0.1) for i in range(1, 11)]
    evaluations = [Evaluation(step, 3.0 - step / 5, step / 12, share, 50, (), 1.0) for step, share in
                   ((0, 0.0), (5, 0.96), (10, 1.0))]
    return History(steps, evaluations)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(("which", "name"), [("loss", "loss"), ("learning_rate", "learning_rate"),
                                             ("gradient_norm", "gradient_norm"), ("right", "token_accuracy")])
def test_the_data_of_a_chart_is_the_recorded_history(history, which, name, language):
    chart = chart_of(history, which, False, language)
    drawn = chart.figure.data[0]
    assert list(drawn.x) == list(range(1, 11))
    np.testing.assert_allclose(drawn.y, [getattr(step, name) for step in history.steps], rtol=1e-4)
    assert chart.summary
    assert len(chart.table.rows) == (3 if which == "right" else 10)


def test_the_chart_of_what_is_right_says_when_each_target_was_reached(history):
    chart = chart_of(history, "right", False, "en")
    assert "95% was reached at step 5." in chart.summary
    assert "99% was reached at step 10." in chart.summary
    assert list(chart.figure.data[2].y) == [0.0, 0.96, 1.0]


def test_a_logarithmic_chart_has_a_logarithmic_axis_and_shares_never_do(history):
    assert chart_of(history, "loss", True, "en").figure.layout.yaxis.type == "log"
    assert chart_of(history, "right", True, "en").figure.layout.yaxis.type == "linear"


def test_an_unknown_chart_is_refused(history):
    with pytest.raises(ValueError, match="magic"):
        training_chart("magic", {}, [], partial(say, "en"))


def test_what_was_not_kept_of_a_recorded_training_is_left_out_not_invented(monkeypatch):
    bare = History([], [Evaluation(0, None, None, 0.0, 10, (), None), Evaluation(50, None, None, 0.9, 10, (), None)])
    right, loss = chart_of(bare, "right", False, "en"), chart_of(bare, "loss", False, "en")
    assert [list(line.y) for line in right.figure.data] == [[], [], [0.0, 0.9]]
    assert [list(line.y) for line in loss.figure.data] == [[], []]
    assert loss.summary == say("en", "train.summary_nothing")


@pytest.mark.parametrize("name", TRAINED_ON_THE_PAGE)
def test_before_any_training_the_shipped_model_s_own_is_shown(name):
    curves, timeline = json.loads(shipped_curves(name)), json.loads(shipped_timeline(name))
    meta = training_views.shipped_checkpoint(name).meta
    assert (curves["kind"], timeline["kind"]) == ("shipped", "shipped")
    assert [[entry["step"], entry["exact_match"]] for entry in curves["evaluations"]] == [
        [step, pytest.approx(share, rel=1e-4)] for step, share in meta["exact_match_by_step"]
    ]
    assert len(curves["samples"]) == 5
    first, last = timeline["snapshots"][0], timeline["snapshots"][-1]
    assert (first["step"], first["exact_match"]) == (0, 0.0)
    expected = [token["label"] for token in timeline["probe"]["expected"]]
    assert [token["label"] for token in last["written"]["tokens"]] == expected
    assert first["patterns"]["cross"]["data"] != last["patterns"]["cross"]["data"]


def made(**changes: object):
    settings = {**default_settings("copy"), **changes}
    return job_from_settings(settings, device="cpu", fixed_batch=False, seconds=60, language="en")


@pytest.mark.parametrize("name", TRAINED_ON_THE_PAGE)
def test_the_defaults_are_the_small_preset_of_the_task(name):
    settings = default_settings(name)
    assert set(settings) == set(NAMES)
    job = job_from_settings(settings, device="cpu", fixed_batch=False, seconds=60, language="en")
    preset = TRAINED_ON_THE_PAGE[name].mini_preset
    assert job.model_config == preset.model
    changed = {"evaluate_every": job.training_config.evaluate_every}
    assert job.training_config.to_dict() == {**preset.training.to_dict(), **changed}


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(("name", "value"), [
    *((name, limits[1] + 1) for name, limits in RANGES.items()),
    *((name, limits[0] - 1) for name, limits in RANGES.items()),
    ("steps", 1.5), ("steps", math.nan), ("steps", math.inf), ("steps", None), ("steps", "many"), ("steps", True),
    ("learning_rate", 0), ("learning_rate", -1.0), ("learning_rate", 1001), ("learning_rate", math.nan),
    ("learning_rate", None), ("task", "dates"), ("task", ["copy"]), ("norm", None), ("positional_encoding", "rotary"),
])
def test_every_setting_out_of_its_bounds_is_refused_with_a_sentence_that_names_it(name, value, language):
    with pytest.raises(InputError) as caught:
        job_from_settings({**default_settings("copy"), name: value}, device="cpu", fixed_batch=False, seconds=60,
                          language=language)
    sentence = say_error(language, caught.value)
    assert say(language, f"train.{name}") in sentence
    assert ("∅" if value is None else str(value)[:40]) in sentence


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_width_that_the_heads_cannot_share_is_refused_naming_both_numbers(language):
    with pytest.raises(InputError) as caught:
        made(d_model=64, n_heads=6)
    sentence = say_error(language, caught.value)
    for number in ("64", "6", "60", "66"):
        assert number in sentence


def test_heads_widths_and_stacks_of_any_allowed_size_make_a_network():
    job = made(d_model=48, n_heads=6, n_encoder_layers=1, n_decoder_layers=3, norm="post", positional_encoding="none")
    config = job.model_config
    assert (config.n_heads, config.n_encoder_layers, config.n_decoder_layers, config.norm_first) == (6, 1, 3, False)
    assert made(d_model=5, n_heads=1).model_config.d_model == 5


@pytest.mark.parametrize("steps", [1, 25, 26, 100, 999, 1000, 1001, 2000, 3000])
def test_no_training_has_more_evaluations_than_the_timeline_has_room_for(steps):
    every = steps_between_evaluations(steps)
    n_evaluations = 1 + math.ceil(steps / every) + 1  # before the first step, and once more at a stop
    assert n_evaluations <= MOST_EVALUATIONS


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(InputError) as caught:
        job_from_settings(default_settings("copy"), device="abacus", fixed_batch=False, seconds=60, language="en")
    assert caught.value.code == "device_unknown"


def test_every_way_a_training_can_end_has_its_sentence_in_both_languages():
    codes = ("shipped", "waiting", "running", "running_fitting", "steps", "steps_fitting", "target", "patience",
             "fitted", "stopped", "stopped_unmeasured", "stopped_waiting", "deadline", "deadline_unmeasured",
             "diverged", "failed")
    for language in STRINGS:
        for code in codes:
            assert STRINGS[language][f"train.state_{code}"]


def test_followers_of_other_visitors_are_not_held_up_by_one(trainings, monkeypatch):  # noqa: F811
    monkeypatch.setattr(train, "POLL_SECONDS", 0.01)
    registry = trainings(at_once=2)
    training = registry.start("one", job_of())
    follower = threading.Thread(target=shown_of, args=(training,), daemon=True)
    follower.start()
    other = registry.start("two", job_of(steps=5))
    assert shown_of(other)[-1]["own"] is other.outcome.checkpoint
    training.stop()
    follower.join(PATIENCE)
    assert not follower.is_alive()
