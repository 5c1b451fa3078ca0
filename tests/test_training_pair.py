"""A healthy and a faulty training in one worker: in turn, in one line, stopped together, each as it would be alone."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import pytest

from test_training_worker import PATIENCE, job_of, until
from transformer import fault_pairs
from transformer.errors import InputError
from transformer.history import Evaluation, StepRecord
from transformer.tasks import task
from viz.tabs.lab_training import followed
from viz.tabs.training_pair import TrainingPair, pair_events, pair_job
from viz.tabs.training_worker import Training, Trainings

NEVER = threading.Event()


@pytest.fixture
def small(monkeypatch):
    """Pairs of very small networks, long unless told otherwise."""
    sizes = {"d_model": 8, "n_heads": 2, "d_ff": 8, "n_encoder_layers": 1, "n_decoder_layers": 1}
    monkeypatch.setattr(fault_pairs, "MODEL", sizes)
    short = {"batch_size": 4, "max_length": 2, "learning_rate": 3e-3, "evaluate_every": 10, "evaluation_size": 8}

    def make(steps: int = 100_000, fault: str = "leaking_causal_mask"):
        monkeypatch.setattr(fault_pairs, "TRAINING", {"steps": steps, **short})
        monkeypatch.setattr(fault_pairs, "SIZES", {fault: fault_pairs.Sizes()})
        return pair_job(fault, seconds=60)

    return make


@pytest.fixture
def trainings():
    made = Trainings(at_once=1, seconds=60)
    yield made
    made.close(PATIENCE)


def numbers(history) -> list[tuple]:
    steps = [(entry.step, entry.loss, entry.token_accuracy) for entry in history.steps]
    return steps + [(entry.step, entry.loss, entry.exact_match) for entry in history.evaluations]


@pytest.mark.parametrize("fault", ["leaking_causal_mask", "loss_counts_padding", "no_warmup"])
def test_each_side_learns_as_it_would_alone(small, trainings, fault):
    pair = trainings.start("visitor", small(12, fault), TrainingPair)
    assert pair.join(PATIENCE)
    assert pair.outcome.code == "steps"
    alone = {}
    for name, setting in zip(fault_pairs.SIDES, fault_pairs.pair_settings(fault)[1], strict=True):
        trainer = setting.trainer(task("copy"))
        list(trainer.run())
        alone[name] = numbers(trainer.history)
    assert {name: numbers(side.history) for name, side in pair.sides.items()} == alone
    assert alone["healthy"] != alone["faulty"]


def test_both_sides_take_turns_and_none_keeps_maps(small):
    events = list(pair_events(small(12), NEVER))
    steps = [name for name, event in events if isinstance(event, StepRecord)]
    assert steps == ["healthy", "faulty"] * 12
    assert {type(event) for _, event in events if isinstance(event, (StepRecord, Evaluation))} == {
        StepRecord, Evaluation,
    }
    assert not any(hasattr(event, "patterns") for _, event in events)


def test_a_side_that_diverges_says_at_which_step_and_the_other_goes_on(small, trainings):
    pair = trainings.start("visitor", small(20, "rate_too_high"), TrainingPair)
    assert pair.join(PATIENCE)
    healthy, faulty = pair.sides["healthy"], pair.sides["faulty"]
    assert (pair.outcome.code, healthy.diverged, len(healthy.history.steps)) == ("steps", None, 20)
    assert len(faulty.history.steps) == faulty.diverged["step"] - 1 < 20
    assert float(faulty.diverged["rate"]) == 3


def test_stop_ends_both_within_two_seconds_and_keeps_what_was_drawn(small, trainings):
    pair = trainings.start("visitor", small(), TrainingPair)
    until(lambda: pair.n_steps > 15)
    asked = time.monotonic()
    trainings.stop("visitor", TrainingPair)
    assert pair.join(PATIENCE)
    assert time.monotonic() - asked < 2
    assert pair.outcome.code == "stopped"
    assert abs(len(pair.sides["faulty"].history.steps) - pair.n_steps) <= 1
    assert pair.n_steps > 15


def test_a_visitor_has_one_training_at_a_time_of_whatever_kind_and_keeps_the_last_of_each(small, trainings):
    training = trainings.start("visitor", job_of(steps=3))
    training.join(PATIENCE)
    pair = trainings.start("visitor", small(), TrainingPair)
    with pytest.raises(InputError):
        trainings.start("visitor", job_of())
    waiting = trainings.start("other", job_of(steps=1))
    until(lambda: waiting.place == 1)
    assert trainings.of("visitor") is training
    assert trainings.of("visitor", TrainingPair) is pair
    trainings.stop("visitor")  # Stop in Train: nothing of the lab's
    assert not pair.stop_flag.is_set()
    trainings.forget("visitor")
    assert pair.join(PATIENCE)
    assert waiting.join(PATIENCE)
    assert trainings.of("visitor", Training) is trainings.of("visitor", TrainingPair) is None


def test_what_a_follower_is_sent_adds_up_to_the_whole_pair(small, trainings):
    pair = trainings.start("visitor", small(30), TrainingPair)

    async def all_of_it() -> list[dict]:
        return [json.loads(payload)["pair"] async for payload in followed(pair)]

    deltas = asyncio.run(all_of_it())
    for name, side in pair.sides.items():
        losses, evaluations = [], []
        for delta in deltas:
            of_side = delta["sides"][name]
            assert of_side["first_step"] == len(losses)
            losses += of_side["steps"]["loss"]
            evaluations += [entry["step"] for entry in of_side["evaluations"]]
        assert losses == [float(f"{entry.loss:.5g}") for entry in side.history.steps]
        assert evaluations == [0, 10, 20, 30]
    assert deltas[-1]["state"]["code"] == "steps"
    assert deltas[-1]["sides"]["healthy"]["figures"]["steps"] == 30


def test_a_fault_there_is_not_starts_nothing():
    with pytest.raises(InputError, match="no fault 'bad_luck'"):
        pair_job("bad_luck", 60)
