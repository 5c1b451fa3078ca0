"""Trainings beside the page: they end when asked, keep what they learnt, wait in line, and never disturb each other."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from transformer.errors import InputError
from transformer.history import Evaluation, StepRecord
from transformer.tasks import task
from transformer.training import Trainer
from transformer.training_config import TrainingConfig
from viz.tabs import training_worker, zero_gpu
from viz.tabs.training_worker import Job, Outcome, Snapshot, Trainings, training_events

PATIENCE = 60.0  # seconds to wait for what happens in well under one on an idle machine
NEVER = threading.Event()


def job_of(*, seed: int = 0, seconds: float = 120.0, fixed_batch: bool = False, d_model: int = 8, **training) -> Job:
    """A training of a very small network on copying two symbols, long unless told otherwise.

    One layer a stack: with more, the hooks by which a stop is noticed change the order in which gradients add up,
    and with it the last bits of the weights, which these tests compare with a training that has no such hooks.
    """
    one_layer = {"n_encoder_layers": 1, "n_decoder_layers": 1}
    model = replace(task("copy").mini_preset.model, d_model=d_model, n_heads=2, d_ff=2 * d_model, **one_layer)
    asked = {"steps": 100_000, "batch_size": 4, "max_length": 2, "evaluate_every": 10, "evaluation_size": 8, **training}
    return Job("copy", model, TrainingConfig(seed=seed, **asked), seconds=seconds, fixed_batch=fixed_batch)


def until(condition, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


@pytest.fixture
def trainings():
    made = []

    def make(**limits) -> Trainings:
        made.append(Trainings(**{"at_once": 1, "seconds": 120, **limits}))
        return made[-1]

    yield make
    for registry in made:
        registry.close(PATIENCE)


def weights_of(model) -> dict[str, torch.Tensor]:
    return {key: value.clone() for key, value in model.state_dict().items()}


def assert_equal_weights(one: dict, other: dict) -> None:
    assert one.keys() == other.keys()
    for key, value in one.items():
        assert torch.equal(value, other[key]), key


def weights_after(job: Job, step: int) -> dict[str, torch.Tensor]:
    """The weights that a training which nobody looks at has after ``step`` steps."""
    trainer = Trainer(task(job.task), job.model_config, job.training_config)
    while trainer.step < step:
        trainer.train_step()
    return weights_of(trainer.model)


def test_stop_ends_a_training_within_two_seconds_and_keeps_the_weights_it_names(trainings):
    training = trainings().start("visitor", job_of())
    until(lambda: len(training.history.steps) > 35)
    asked = time.monotonic()
    training.stop()
    assert training.join(PATIENCE)
    assert time.monotonic() - asked < 2
    assert training.outcome.code == "stopped"
    assert training.outcome.values["step"] == len(training.history.steps)
    kept = training.outcome.values["kept"]
    assert training.outcome.checkpoint.meta["kept_step"] == kept
    best = max(training.history.evaluations, key=lambda entry: entry.merit("exact_match"))
    assert (kept, training.outcome.values["exact"]) == (best.step, best.exact_match)
    assert_equal_weights(weights_of(training.outcome.checkpoint.model), weights_after(training.job, kept))


def test_a_stopped_training_is_measured_once_more_so_that_the_last_steps_count(trainings):
    training = trainings().start("visitor", job_of(evaluate_every=100_000))
    until(lambda: len(training.history.steps) > 5)
    training.stop()
    until(lambda: training.is_over)
    n_steps = len(training.history.steps)
    assert [entry.step for entry in training.history.evaluations] == [0, n_steps]
    assert [snapshot.step for snapshot in training.snapshots] == [0, n_steps]


def test_stop_does_not_wait_for_a_long_step_or_evaluation_to_end(trainings):
    largest = replace(
        task("copy").mini_preset.model, d_model=128, d_ff=256, n_heads=8, n_encoder_layers=4, n_decoder_layers=4
    )
    job = replace(job_of(batch_size=128, max_length=20, evaluation_size=200), model_config=largest)
    training = trainings().start("visitor", job)
    until(lambda: training.probe is not None)  # it is in its first evaluation now
    asked = time.monotonic()
    training.stop()
    assert training.join(PATIENCE)
    assert time.monotonic() - asked < 2
    assert (training.outcome.code, training.outcome.values["kept"]) == ("stopped", 0)


def test_a_training_ends_at_its_deadline_and_keeps_what_it_learnt(monkeypatch):
    class Clock:
        now, sleep, perf_counter = 0.0, staticmethod(time.sleep), staticmethod(time.perf_counter)

        @classmethod
        def monotonic(cls) -> float:
            return cls.now

    monkeypatch.setattr(training_worker, "time", Clock)
    job, n_steps = job_of(seconds=120), 0
    for event in training_events(job, NEVER):
        n_steps += isinstance(event, StepRecord)
        Clock.now = (119.0 if n_steps < 7 else 121.0) if n_steps else 0.0
    assert (event.code, event.values["step"], n_steps) == ("deadline", 7, 7)
    assert_equal_weights(weights_of(event.checkpoint.model), weights_after(job, event.values["kept"]))


def test_the_time_limit_and_the_number_at_once_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("GLASSFORMER_TRAIN_SECONDS", "7")
    monkeypatch.setenv("GLASSFORMER_TRAININGS", "3")
    monkeypatch.setenv("GLASSFORMER_TRAIN_LINE", "5")
    registry = Trainings()
    assert (registry.seconds, registry.line.places, registry.line.longest) == (7.0, 3, 5)


def test_trainings_wait_in_line_are_told_their_place_and_begin_in_order(trainings):
    registry = trainings()
    first, second, third = (registry.start(name, job_of()) for name in ("one", "two", "three"))
    until(lambda: first.history.steps)
    assert [training.place for training in (first, second, third)] == [0, 1, 2]
    assert (second.history.steps, second.seconds, third.history.steps) == ([], 0.0, [])
    first.stop()
    until(lambda: second.history.steps)
    assert [training.place for training in (second, third)] == [0, 1]
    assert third.history.steps == []


def test_leaving_the_line_trains_nothing_and_makes_room(trainings):
    registry = trainings()
    first, second, third = (registry.start(name, job_of()) for name in ("one", "two", "three"))
    until(lambda: first.history.steps)
    second.stop()
    until(lambda: second.is_over)
    assert (second.outcome.code, second.outcome.checkpoint, second.history.steps) == ("stopped", None, [])
    assert third.place == 1


def test_a_line_that_is_full_is_said(trainings):
    registry = trainings(line_length=1)
    registry.start("one", job_of())
    registry.start("two", job_of())
    with pytest.raises(InputError) as caught:
        registry.start("three", job_of())
    assert (caught.value.code, caught.value.values) == ("training_line_full", {"n": 1})
    assert registry.of("three") is None


def test_a_visitor_has_one_training_at_a_time_and_may_train_again_after_it(trainings):
    registry = trainings()
    first = registry.start("visitor", job_of())
    with pytest.raises(InputError) as caught:
        registry.start("visitor", job_of())
    assert caught.value.code == "training_running"
    registry.stop("visitor")
    until(lambda: first.is_over)
    again = registry.start("visitor", job_of(steps=3))
    until(lambda: again.is_over)
    assert (registry.of("visitor"), again.outcome.code, again.id != first.id) == (again, "steps", True)


def test_two_trainings_side_by_side_come_out_as_if_each_had_been_alone(trainings):
    registry = trainings(at_once=2)
    jobs = [job_of(seed=seed, steps=30) for seed in (1, 2)]
    together = [registry.start(f"visitor {i}", job) for i, job in enumerate(jobs)]
    until(lambda: all(training.is_over for training in together))
    began_and_ended = [(training._began, training._ended) for training in together]
    assert max(began for began, _ in began_and_ended) < min(ended for _, ended in began_and_ended)
    for training, job in zip(together, jobs, strict=True):
        alone = list(training_events(job, NEVER))
        assert [entry.loss for entry in training.history.steps] == [e.loss for e in alone if isinstance(e, StepRecord)]
        assert_equal_weights(weights_of(training.outcome.checkpoint.model), weights_of(alone[-1].checkpoint.model))
    assert together[0].history.steps[0].loss != together[1].history.steps[0].loss


def test_a_training_neither_needs_nor_seeds_the_global_generators():
    job, losses, states = job_of(steps=12), [], []
    others = random.getstate(), np.random.get_state()[1].tolist()
    before = torch.get_rng_state()
    try:
        for seed in (1, 2):
            torch.manual_seed(seed)
            losses.append([event.loss for event in training_events(job, NEVER) if isinstance(event, StepRecord)])
            states.append(torch.get_rng_state())
    finally:
        torch.set_rng_state(before)
    assert losses[0] == losses[1]
    assert not torch.equal(*states)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == others


def test_a_worker_that_fails_is_reported_and_makes_room_for_the_next(trainings, monkeypatch, caplog):
    class Broken(Trainer):
        def train_step(self):
            if self.step == 3:
                raise RuntimeError("the disk is on fire")
            return super().train_step()

    registry = trainings()
    with monkeypatch.context() as patched:
        patched.setattr(training_worker, "Trainer", Broken)
        failed = registry.start("one", job_of())
        until(lambda: failed.is_over)
    assert (failed.outcome.code, failed.outcome.checkpoint) == ("failed", None)
    assert failed.outcome.values == {"reason": "RuntimeError: the disk is on fire", "step": 3}
    assert "the disk is on fire" in caplog.text
    following = registry.start("two", job_of(steps=2))
    until(lambda: following.is_over)
    assert following.outcome.code == "steps"


def test_a_training_that_diverges_says_so_and_keeps_the_best_weights():
    job = job_of(learning_rate=1000.0, warmup_steps=0)
    outcome = list(training_events(job, NEVER))[-1]
    assert outcome.code == "diverged"
    assert {"step", "loss", "rate", "kept"} <= outcome.values.keys()
    assert_equal_weights(weights_of(outcome.checkpoint.model), weights_after(job, outcome.values["kept"]))


def test_one_batch_is_learnt_until_its_loss_is_near_zero():
    job = job_of(fixed_batch=True, d_model=32, learning_rate=0.01, warmup_steps=10, evaluate_every=500)
    events = list(training_events(job, NEVER))
    assert events[-1].code == "fitted"
    assert [event.loss for event in events if isinstance(event, StepRecord)][-1] < 0.01
    assert events[-1].checkpoint.meta["fixed_batch"] is True


def test_every_evaluation_has_a_snapshot_of_every_head_on_the_same_probe():
    events = list(training_events(job_of(steps=20), NEVER))
    probe = events[0]
    evaluations = [event for event in events if isinstance(event, Evaluation)]
    snapshots = [event for event in events if isinstance(event, Snapshot)]
    assert [(e.step, e.exact_match) for e in evaluations] == [(s.step, s.exact_match) for s in snapshots]
    n_source, n_target = len(probe[0].split()) + 1, len(probe[1].split()) + 1
    for snapshot in snapshots:
        shapes = {kind: weights.shape for kind, weights in snapshot.patterns.items()}
        assert shapes == {
            "encoder_self": (1, 2, n_source, n_source),
            "decoder_self": (1, 2, n_target, n_target),
            "cross": (1, 2, n_target, n_source),
        }
        for weights in snapshot.patterns.values():
            np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    assert not np.array_equal(snapshots[0].patterns["cross"], snapshots[-1].patterns["cross"])


def test_watching_a_training_does_not_change_it():
    job = job_of(steps=25)
    watched = list(training_events(job, NEVER))[-1]
    assert_equal_weights(weights_of(watched.checkpoint.model), weights_after(job, watched.values["kept"]))


def test_a_visitor_who_leaves_ends_their_training_within_two_seconds(trainings):
    registry = trainings()
    training = registry.start("visitor", job_of())
    until(lambda: training.history.steps)
    left = time.monotonic()
    registry.forget("visitor")
    assert training.join(PATIENCE)
    assert time.monotonic() - left < 2
    assert registry.of("visitor") is None


def test_finished_trainings_of_visitors_who_stay_are_bounded(trainings, monkeypatch):
    monkeypatch.setattr(training_worker, "FINISHED_KEPT", 2)
    registry = trainings()
    for name in ("one", "two", "three", "four"):
        registry.start(name, job_of(steps=1)).join(PATIENCE)
    registry.start("five", job_of(steps=1))
    assert [registry.of(name) is not None for name in ("one", "two", "three", "four", "five")] == [
        False, False, True, True, True,
    ]


def test_a_process_that_ends_in_the_middle_of_a_training_ends_quietly():
    program = """
import sys, time
sys.path[:0] = [".", "tests"]
from test_training_worker import job_of
from viz.tabs.training_worker import page_trainings
training = page_trainings().start("visitor", job_of())
while not training.history.steps:
    time.sleep(0.01)
sys.exit(0)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_training_can_be_handed_to_the_process_that_a_zero_gpu_space_forks():
    job = pickle.loads(pickle.dumps(job_of(steps=10)))
    for event in training_events(job, NEVER):
        copied = pickle.loads(pickle.dumps(event))
        assert type(copied) is type(event)
    assert isinstance(copied, Outcome)
    assert_equal_weights(weights_of(copied.checkpoint.model), weights_of(event.checkpoint.model))


def test_handlers_are_wrapped_for_zero_gpu_only_where_its_package_is(monkeypatch):
    def handler(n: int) -> int:
        return n + 1

    monkeypatch.setattr(zero_gpu, "HAS_SPACES", False)
    assert zero_gpu.on_gpu(handler) is handler
    assert isinstance(zero_gpu.stop_flag(), threading.Event)
    wrapped = []

    class Spaces:
        @staticmethod
        def GPU(function, duration):
            wrapped.append(duration)
            return lambda *args: function(*args)

    monkeypatch.setattr(zero_gpu, "HAS_SPACES", True)
    monkeypatch.setitem(sys.modules, "spaces", Spaces)
    assert (zero_gpu.on_gpu(handler, seconds=9)(1), wrapped) == (2, [9])


def test_a_stop_flag_for_two_processes_is_seen_in_both_and_leaves_nothing_behind():
    flag = zero_gpu.FileFlag()
    other = pickle.loads(pickle.dumps(flag))
    assert not other.is_set()
    flag.set()
    assert other.is_set()
    flag.clear()
    assert not other.is_set()
