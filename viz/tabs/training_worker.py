"""Trainings beside the page: one worker thread each, in line for a place, stopped within two seconds.

A worker goes through ``training_events`` and keeps what comes of it; the page looks at the ``Training`` four times
a second. A visitor is known by the hash of their browser tab's session.

Shape legend: L layers, H heads, S source length, T target length.
"""

from __future__ import annotations

import atexit
import contextvars
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch

from transformer.checkpoints import Checkpoint
from transformer.config import TransformerConfig
from transformer.errors import InputError
from transformer.evaluation import write_all
from transformer.history import Evaluation, History, StepRecord
from transformer.hooks import record
from transformer.model import Transformer
from transformer.tasks import Task
from transformer.tasks import task as task_named
from transformer.tasks.base import Pair
from transformer.tracing import ATTENTION_KINDS, address
from transformer.training import Trainer, TrainingDiverged
from transformer.training_config import TrainingConfig
from transformer.training_faults import practice_of
from viz.tabs.action_log import write
from viz.tabs.zero_gpu import on_gpu, stop_flag

LONGEST_PROBE = 8  # symbols; a map of more is too small to read
SLOW_EVALUATION = 0.5  # seconds; a stopped training is measured once more only if that is quicker
FINISHED_KEPT = 100  # trainings of visitors who have not closed their tab
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """One training as asked for. Plain values only, so that it can be handed to another process."""

    task: str
    model_config: TransformerConfig
    training_config: TrainingConfig
    device: str = "cpu"
    fixed_batch: bool = False
    seconds: float = 120.0  # a training that takes longer is ended, and what it learnt is kept
    fault: str = ""  # the training fault whose practice it follows; "": the usual practice
    keeps_maps: bool = True  # whether there is a snapshot of every evaluation


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What the model of one evaluation does with the probe: one sequence, the same during the whole training.

    ``patterns`` (kind -> [L, H, T, S]) are of a pass with the true target fed, so that the maps of different steps
    have the same rows and columns; ``written`` is what the model writes by itself.
    """

    step: int
    exact_match: float
    written: str
    patterns: dict[str, np.ndarray] = field(repr=False)


@dataclass(frozen=True, eq=False)
class Outcome:
    """How a training ended. ``code`` is ``steps``, ``target``, ``patience``, ``fitted``, ``stopped``, ``deadline``,
    ``diverged`` or ``failed``; ``values`` fill in its sentence; ``checkpoint`` is what was learnt, if anything."""

    code: str
    values: dict
    checkpoint: Checkpoint | None = None


class _InterruptedTraining(Exception):
    """Raised inside the network once the training is to end, so that no evaluation has to run to its end first."""


def training_events(job: Job, stop: object) -> Iterator[Pair | StepRecord | Evaluation | Snapshot | Outcome]:
    """Train, and yield the probe, then everything that happens as it happens, the ``Outcome`` last.

    ``stop.is_set()`` is asked at every layer, forwards and backwards. Draws no global random number.
    """
    of_task = task_named(job.task)
    trainer = Trainer(
        of_task, job.model_config, job.training_config, device=job.device, fixed_batch=job.fixed_batch,
        practice=practice_of(job.fault, job.model_config, job.training_config),
    )
    probe = probe_of(trainer.evaluation_pairs)
    yield probe
    deadline = time.monotonic() + job.seconds

    def must_end() -> str | None:
        return "stopped" if stop.is_set() else "deadline" if time.monotonic() > deadline else None

    def interrupt(*_: object) -> None:
        if must_end():
            raise _InterruptedTraining

    hooks = [
        register(interrupt)
        for layer in (*trainer.model.encoder.layers, *trainer.model.decoder.layers)
        for register in (layer.register_forward_pre_hook, layer.register_full_backward_pre_hook)
    ]
    try:
        for event in trainer.run():
            yield event
            if isinstance(event, Evaluation) and job.keeps_maps:
                yield snapshot_of(trainer.model, of_task, probe, event, job.device)
            interrupt()
            time.sleep(0.0005)  # lets the threads that answer visitors have their turn
        code, values = trainer.reason_to_stop(), {}
    except _InterruptedTraining:
        code, values = must_end(), {}
    except TrainingDiverged as error:
        code, values = "diverged", error.values
    finally:
        for hook in hooks:
            hook.remove()

    evaluations = trainer.history.evaluations
    if not evaluations:  # stopped before anything was learnt
        kept = 0
    elif code in ("stopped", "deadline") and trainer.step > evaluations[-1].step and not _evaluates_quickly(trainer):
        kept = trainer.step
    else:
        if code in ("stopped", "deadline") and trainer.step > evaluations[-1].step:
            evaluation = trainer.evaluate()
            yield evaluation
            if job.keeps_maps:
                yield snapshot_of(trainer.model, of_task, probe, evaluation, job.device)
        trainer.restore_best()
        kept = trainer.history.best.step
    checkpoint = trainer.checkpoint(f"{job.task} · {kept}", kept_step=kept)
    exact_match = {entry.step: entry.exact_match for entry in trainer.history.evaluations}.get(kept)
    values = {**values, "step": values.get("step", trainer.step), "kept": kept, "exact": exact_match}
    yield Outcome(code, values, checkpoint)


def _evaluates_quickly(trainer: Trainer) -> bool:
    last = trainer.history.evaluations[-1]
    before = [record.seconds for record in trainer.history.steps if record.step <= last.step]
    return last.seconds - (before[-1] if before else 0.0) < SLOW_EVALUATION


def probe_of(pairs: list[Pair]) -> Pair:
    """The longest pair that is short enough for small maps; among equals the one that repeats itself least."""
    short = [pair for pair in pairs if len(pair[0].split()) <= LONGEST_PROBE] or pairs[:1]
    return max(short, key=lambda pair: (len(pair[0].split()), len(set(pair[0].split()))))


def snapshot_of(model: Transformer, of_task: Task, probe: Pair, evaluation: Evaluation, device: str) -> Snapshot:
    """What ``model`` does with ``probe`` at the time of ``evaluation``."""
    (result,) = write_all(model, of_task, [probe], device)
    patterns = probe_patterns(model, of_task, probe, device)
    return Snapshot(evaluation.step, evaluation.exact_match, result.written, patterns)


@torch.inference_mode()
def probe_patterns(model: Transformer, of_task: Task, probe: Pair, device: str = "cpu") -> dict[str, np.ndarray]:
    """Every pattern of one pass over ``probe``, its true target fed: kind -> float32 [L, H, T, S]."""
    layers = {"encoder": model.config.n_encoder_layers, "decoder": model.config.n_decoder_layers}
    names = {
        kind: [address(kind, layer) for layer in range(layers[stack])] for kind, (stack, _) in ATTENTION_KINDS.items()
    }
    batch = of_task.encode([probe]).to(device)
    with record({name for of_kind in names.values() for name in of_kind}) as acts:
        model(batch.src, batch.tgt_in)
    return {kind: torch.cat([acts[name] for name in of_kind]).float().cpu().numpy() for kind, of_kind in names.items()}


class Line:
    """Lets so many trainings run at once, the others in the order they came. Raises InputError when it is too long."""

    def __init__(self, places: int, longest: int) -> None:
        self.places, self.longest = places, longest
        self._queue: list[Worker] = []
        self._changed = threading.Condition()

    def join(self, training: Worker) -> None:
        """Stand at the end of the line."""
        with self._changed:
            if len(self._queue) >= self.places + self.longest:
                raise InputError("training_line_full", n=self.longest)
            self._queue.append(training)

    @property
    def n_running(self) -> int:
        """Trainings that have their turn."""
        return min(len(self._queue), self.places)

    @property
    def n_waiting(self) -> int:
        """Trainings that wait for theirs."""
        return max(0, len(self._queue) - self.places)

    def place(self, training: Worker) -> int:
        """0: has its turn; 1: next; and so on."""
        with self._changed:
            return max(0, self._queue.index(training) - self.places + 1) if training in self._queue else 0

    def wait(self, training: Worker) -> bool:
        """Wait for a turn. False: the training was stopped before."""
        with self._changed:
            while self._queue.index(training) >= self.places:
                if training.stop_flag.is_set():
                    return False
                self._changed.wait(0.2)
        return not training.stop_flag.is_set()

    def leave(self, training: Worker) -> None:
        """Make room for the next."""
        with self._changed:
            if training in self._queue:
                self._queue.remove(training)
            self._changed.notify_all()


class Worker:
    """What a visitor set going and the thread that does it, once it has its turn in line. Subclasses say what."""

    def __init__(self, number: int, job: Job, line: Line) -> None:
        self.id, self.job = f"training-{number}", job
        self.outcome: Outcome | None = None
        self.stop_flag = stop_flag()
        self._line = line
        self._began: float | None = None
        self._ended: float | None = None
        line.join(self)
        # The worker keeps the context of the request: ZeroGPU finds in it on whose account the GPU is taken.
        work = contextvars.copy_context().run
        self._thread = threading.Thread(target=work, args=(self._work,), name=self.id, daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether the outcome is known and nothing more will be appended."""
        return self.outcome is not None

    @property
    def place(self) -> int:
        """Its place in line; 0 when it runs or is over."""
        return self._line.place(self)

    @property
    def seconds(self) -> float:
        """Time since it got its turn, all that the page records included."""
        return 0.0 if self._began is None else (self._ended or time.monotonic()) - self._began

    @property
    def n_steps(self) -> int:
        """Steps done so far."""
        raise NotImplementedError

    def stop(self) -> None:
        """Ask it to end; what it learnt is kept."""
        if not self.is_over:
            self.stop_flag.set()

    def join(self, timeout: float) -> bool:
        """Wait for the worker to end; False when it takes longer than ``timeout`` seconds."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _train(self) -> Outcome:
        """Train until it is over, keeping what happens."""
        raise NotImplementedError

    def _work(self) -> None:
        outcome, joined = Outcome("stopped", {"step": 0, "kept": None, "exact": None}), time.monotonic()
        try:
            if self._line.wait(self):
                self._began = time.monotonic()
                outcome = self._train()
        except BaseException as error:  # whatever went wrong, the visitor is told and the server goes on
            log.exception("a training failed")
            outcome = Outcome("failed", {"reason": f"{type(error).__name__}: {error}", "step": self.n_steps})
        finally:
            self._ended = time.monotonic()
            waited = (self._began or self._ended) - joined
            write("training", outcome=outcome.code, ms=1000 * self.seconds, wait_ms=1000 * waited,
                  device=self.job.device, task=self.job.task, steps=self.n_steps)
            self._line.leave(self)
            self.stop_flag.clear()
            self.outcome = outcome


class Training(Worker):
    """One training of one visitor. Its worker thread only ever appends, so the page may read it at any time."""

    def __init__(self, number: int, job: Job, line: Line) -> None:
        self.history, self.snapshots = History(), []
        self.evaluated_after: list[float] = []  # seconds since its turn began, one an evaluation
        self.probe: Pair | None = None
        super().__init__(number, job, line)

    @property
    def n_steps(self) -> int:
        """See ``Worker``."""
        return len(self.history.steps)

    def _train(self) -> Outcome:
        for event in on_gpu(training_events, seconds=int(self.job.seconds) + 10)(self.job, self.stop_flag):
            if isinstance(event, Outcome):
                outcome = event
            elif isinstance(event, StepRecord):
                self.history.steps.append(event)
            elif isinstance(event, Evaluation):
                self.evaluated_after.append(round(self.seconds, 2))  # first: it must be there for the view
                self.history.evaluations.append(event)
            elif isinstance(event, Snapshot):
                self.snapshots.append(event)
            else:
                self.probe = event
        return outcome


class Trainings:
    """The trainings of all visitors, one each. The limits come from ``GLASSFORMER_*`` variables; see the README."""

    def __init__(
        self, at_once: int | None = None, seconds: float | None = None, line_length: int | None = None
    ) -> None:
        environment = os.environ.get
        self.seconds = seconds or float(environment("GLASSFORMER_TRAIN_SECONDS") or 120)
        self.line = Line(
            at_once or int(environment("GLASSFORMER_TRAININGS") or 1),
            line_length if line_length is not None else int(environment("GLASSFORMER_TRAIN_LINE") or 20),
        )
        self._of_visitor: OrderedDict[tuple[str, type], Worker] = OrderedDict()
        self._lock = threading.Lock()
        self._count = 0

    def start(self, visitor: str, job: Job, kind: type[Worker] = Training) -> Worker:
        """Begin a training for ``visitor``, or put it in line.

        Raises InputError while another of theirs, of whatever kind, is not over, or when the line is full.
        """
        with self._lock:
            for (of, _), before in self._of_visitor.items():
                if of == visitor and not before.is_over:
                    raise InputError("training_running", step=before.n_steps)
            self._count += 1
            training = kind(self._count, job, self.line)
            self._of_visitor[visitor, kind] = training
            self._of_visitor.move_to_end((visitor, kind))
            finished = [key for key, kept in self._of_visitor.items() if kept.is_over]
            for key in finished[: max(0, len(finished) - FINISHED_KEPT)]:
                del self._of_visitor[key]
            return training

    def of(self, visitor: str, kind: type[Worker] = Training) -> Worker | None:
        """The last training of ``visitor`` of one kind."""
        return self._of_visitor.get((visitor, kind))

    def stop(self, visitor: str, kind: type[Worker] = Training) -> None:
        """End the training of ``visitor``, if there is one; what it learnt is kept."""
        training = self.of(visitor, kind)
        if training is not None:
            training.stop()

    def forget(self, visitor: str) -> None:
        """The visitor has left: end their training and drop all of it."""
        with self._lock:
            trainings = [self._of_visitor.pop(key) for key in list(self._of_visitor) if key[0] == visitor]
        for training in trainings:
            training.stop()

    def close(self, timeout: float = 3.0) -> None:
        """End all trainings and wait for their workers: the process is about to end."""
        with self._lock:
            trainings = list(self._of_visitor.values())
        for training in trainings:
            training.stop()
        end = time.monotonic() + timeout
        for training in trainings:
            training.join(max(0.0, end - time.monotonic()))


def page_trainings() -> Trainings:
    """The registry for a page, which ends its workers when the process does."""
    trainings = Trainings()
    atexit.register(trainings.close)
    return trainings
