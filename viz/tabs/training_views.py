"""A training, of a visitor or of a shipped checkpoint, as the Train tab's views take it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from transformer.checkpoints import CHECKPOINTS_FOLDER, Checkpoint, shipped_checkpoint, shipped_names
from transformer.evaluation import write_all
from transformer.history import Evaluation, History, Sample, StepRecord
from transformer.tasks import Task
from transformer.tasks import task as task_named
from transformer.training import Trainer
from transformer.training_config import TrainingConfig
from viz.chart import Chart
from viz.payload import token_chips
from viz.tabs.components import ClientView
from viz.tabs.language import say
from viz.tabs.training_worker import Snapshot, Training, probe_of, snapshot_of
from viz.training import curves_payload, marked_tokens, sample_payload, timeline_payload, training_chart

HISTORY_FILE = "history.json"  # beside a shipped checkpoint, when its training was kept
LIVE_CURVES = ("loss", "token_accuracy", "learning_rate")


class TrainingCurves(ClientView):
    """Loss, what is right, learning rate and sample decodes of a training, as they happen.

    Event: ``gap`` when points were missed and all are needed again.
    """

    script = "training_curves"
    script_parts = ("training_panel",)


class TrainingTimeline(ClientView):
    """Every head's map at every evaluation, to scrub through. Event: ``gap`` as in ``TrainingCurves``."""

    script = "training_timeline"


@dataclass(frozen=True)
class Seen:
    """How much of a training a view was sent already: the first index of each list that is still to be sent."""

    steps: int = 0
    evaluations: int = 0
    snapshots: int = 0

    @classmethod
    def all_of(cls, training: Training) -> Seen:
        """Everything there is now."""
        history = training.history
        return cls(len(history.steps), len(history.evaluations), len(training.snapshots))


def curves_of(training: Training, since: Seen, until: Seen) -> str:
    """What ``TrainingCurves`` needs to get from ``since`` to ``until``."""
    job, outcome = training.job, training.outcome
    # The time a visitor has waited: with all that the page records, unlike the trainer's own seconds.
    evaluations = [
        replace(entry, seconds=after)
        for entry, after in zip(
            training.history.evaluations[since.evaluations : until.evaluations],
            training.evaluated_after[since.evaluations : until.evaluations],
            strict=True,
        )
    ]
    if outcome is not None:
        state = {"code": outcome.code, "values": outcome.values}
    else:
        place = training.place
        state = {"code": "waiting" if place else "running", "values": {"place": place}}
    return _curves(
        training.id, "fitting" if job.fixed_batch else "training", task_named(job.task),
        training.history.steps[since.steps : until.steps], since.steps, evaluations, since.evaluations,
        total=job.training_config.steps, seconds=round(training.seconds, 2), state=state, device=job.device.upper(),
        limit=job.seconds,
    )


def timeline_of(training: Training, since: Seen, until: Seen) -> str:
    """What ``TrainingTimeline`` needs to get from ``since`` to ``until``."""
    return _timeline(
        training.id, "fitting" if training.job.fixed_batch else "training", task_named(training.job.task),
        training.probe, training.snapshots[since.snapshots : until.snapshots], since.snapshots,
        over=training.is_over,
    )


@cache
def shipped_history(name: str) -> History | None:
    """How a shipped checkpoint was trained: every step if its history was kept, else what its meta tells."""
    if name not in shipped_names():
        return None
    file = CHECKPOINTS_FOLDER / name / HISTORY_FILE
    if file.is_file():
        return History.from_dict(json.loads(file.read_text(encoding="utf-8")))
    meta = shipped_checkpoint(name).meta
    n = (meta.get("validation") or {}).get("n")
    evaluations = [
        Evaluation(step, None, None, exact_match, n, (), None)
        for step, exact_match in meta.get("exact_match_by_step", ())
    ]
    return History([], evaluations) if evaluations else None


def _shipped_samples(checkpoint: Checkpoint) -> tuple[Sample, ...]:
    """Unseen sequences from short to long, as the shipped model writes them."""
    of_task = task_named(checkpoint.task)
    pairs = sorted(of_task.pairs("valid", 40, 0), key=lambda pair: len(pair[0].split()))[7::8]
    return tuple(
        Sample(result.source, result.expected, result.written)
        for result in write_all(checkpoint.model, of_task, pairs)
    )


@cache
def shipped_curves(name: str) -> str:
    """What ``TrainingCurves`` shows before anything was trained here: the training of a shipped checkpoint."""
    history = shipped_history(name)
    if history is None:
        return ""
    checkpoint = shipped_checkpoint(name)
    meta, evaluations = checkpoint.meta, history.evaluations
    if not evaluations[-1].samples:
        evaluations = [*evaluations[:-1], replace(evaluations[-1], samples=_shipped_samples(checkpoint))]
    return _curves(
        f"shipped-{name}", "shipped", task_named(name), history.steps, 0, evaluations, 0,
        total=history.evaluations[-1].step, seconds=meta.get("training_seconds"),
        state={"code": "shipped", "values": {"task": name}}, device=str(meta.get("device", "cpu")).upper(), limit=None,
    )


@cache
def shipped_timeline(name: str) -> str:
    """The two ends of a shipped checkpoint's training: its network before the first step, and as it is shipped."""
    if name not in shipped_names():
        return ""
    checkpoint = shipped_checkpoint(name)
    try:
        training_config = TrainingConfig.from_dict(checkpoint.meta["training"])
        before = Trainer(task_named(name), checkpoint.model.config, training_config)
    except (KeyError, ValueError):  # trained by other means than ours: its first weights are not known
        return ""
    of_task, probe = task_named(name), probe_of(before.evaluation_pairs)
    before.model.eval()
    exact = dict(checkpoint.meta.get("exact_match_by_step", ()))
    snapshots = [
        _snapshot(before.model, of_task, probe, 0, exact.get(0)),
        _snapshot(checkpoint.model, of_task, probe, _kept_step(checkpoint), exact.get(_kept_step(checkpoint))),
    ]
    return _timeline(f"shipped-{name}", "shipped", of_task, probe, snapshots, 0, over=True)


def _kept_step(checkpoint: Checkpoint) -> int:
    return checkpoint.meta.get("best_step", checkpoint.meta.get("steps", 0))


def _snapshot(model: object, of_task: Task, probe: tuple, step: int, exact_match: float | None) -> Snapshot:
    at = Evaluation(step, None, None, exact_match, 0, (), None)
    return snapshot_of(model, of_task, probe, at, "cpu")


def chart_of(history: History | None, which: str, log: bool, language: str) -> Chart | None:
    """A curve of a finished training as a chart; None without a history."""
    if history is None or not history.evaluations:
        return None
    names = ("step", "loss", "token_accuracy", "learning_rate", "gradient_norm")
    steps = {name: [getattr(entry, name) for entry in history.steps] for name in names}
    words = partial(_chart_words, language)
    return training_chart(which, steps, [_evaluation(entry) for entry in history.evaluations], words, log=log)


def _chart_words(language: str, key: str, **values: object) -> str:
    return say(language, f"train.{key}", **values)


def _curves(
    run: str, kind: str, of_task: Task, steps: Sequence[StepRecord], first_step: int,
    evaluations: Sequence[Evaluation], first_evaluation: int, **facts: object,
) -> str:
    points = points_of(of_task, steps, first_step, evaluations, first_evaluation, LIVE_CURVES)
    return curves_payload(run=run, kind=kind, task=of_task.name, **points, **facts)


def points_of(
    of_task: Task, steps: Sequence[StepRecord], first_step: int, evaluations: Sequence[Evaluation],
    first_evaluation: int, curves: Sequence[str],
) -> dict[str, object]:
    """The arguments of ``curves_delta`` for new steps and evaluations, with the samples of the newest."""
    return {
        "first_step": first_step,
        "steps": {name: [getattr(entry, name) for entry in steps] for name in curves},
        "first_evaluation": first_evaluation,
        "evaluations": [_evaluation(entry) for entry in evaluations],
        "samples": [_sample(of_task, sample) for sample in evaluations[-1].samples] if evaluations else None,
        "samples_step": evaluations[-1].step if evaluations else None,
    }


def _evaluation(entry: Evaluation) -> dict:
    names = ("step", "seconds", "loss", "token_accuracy", "exact_match", "n")
    return {name: getattr(entry, name) for name in names}


def _sample(of_task: Task, sample: Sample) -> dict:
    target = of_task.tgt_tokenizer
    return sample_payload(
        of_task.src_tokenizer.encode(sample.source).pieces,
        target.encode(sample.expected).pieces,
        target.encode(sample.written).pieces,
    )


def _timeline(
    run: str, kind: str, of_task: Task, probe: tuple[str, str] | None, snapshots: Sequence[Snapshot],
    first_snapshot: int, **facts: object,
) -> str:
    source, target = of_task.src_tokenizer, of_task.tgt_tokenizer
    chips, expected = None, ()
    if probe is not None:
        asked, answer = source.encode(probe[0]), target.encode(probe[1])
        expected = answer.pieces
        chips = {
            "source": token_chips((*asked.tokens, source.vocabulary[source.eos_id])),
            "target_in": token_chips((target.vocabulary[target.bos_id], *answer.tokens)),
            "expected": token_chips(expected),
        }
    return timeline_payload(
        run=run,
        kind=kind,
        task=of_task.name,
        first_snapshot=first_snapshot,
        snapshots=[
            {
                "step": snapshot.step,
                "exact_match": snapshot.exact_match,
                "written": marked_tokens(expected, target.encode(snapshot.written).pieces),
                "patterns": snapshot.patterns,
            }
            for snapshot in snapshots
        ],
        probe=chips,
        **facts,
    )
