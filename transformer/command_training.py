"""``python -m transformer train``: a training with a log, a checkpoint every so often, and a way to go on after a stop.

In the folder ``--out`` it leaves ``model.safetensors`` and ``meta.json`` (the best model so far), ``history.json``
(what was measured), ``training.log`` (the same, to read) and the state that ``--resume`` needs.
"""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

from transformer.checkpoints import load_checkpoint, save_checkpoint
from transformer.devices import checked_device
from transformer.errors import CommandError, InputError
from transformer.evaluation import write_all
from transformer.reports import evaluation_report
from transformer.tasks import Task, task
from transformer.training import Evaluation, StepRecord, Trainer
from transformer.training_state import has_state, load_state, save_state

RUNS_FOLDER = Path("runs")
HISTORY_FILE, LOG_FILE = "history.json", "training.log"
SECONDS_BETWEEN_LINES = 5.0
TEST_SEED = 0  # the same pairs that `evaluate` takes
REASONS = {
    "steps": "all steps are done",
    "target": "the target was reached",
    "patience": "it no longer got better",
    "fitted": "the batch is learnt",
}


def train(arguments: argparse.Namespace) -> int:
    """Follow the command; the exit status is 0 also when a signal stopped it, for then its state is saved."""
    of_task = task(arguments.task).with_pairs(arguments.pairs)
    if not (of_task.pairs("train", 1, 0) and of_task.pairs("valid", 1, 0)):
        raise InputError("pairs_too_few", path=arguments.pairs or f"the file of {of_task.name}")
    of_task = of_task.with_fitted_vocabularies()
    device = checked_device(arguments.device)
    folder = arguments.out or RUNS_FOLDER / of_task.name
    trainer = (_resumed if arguments.resume else _new)(arguments, of_task, folder, device)
    folder.mkdir(parents=True, exist_ok=True)
    config = trainer.training_config
    command = f"python -m transformer train {of_task.name} --steps {config.steps} --seed {config.seed}"

    with open(folder / LOG_FILE, "a" if arguments.resume else "w", encoding="utf-8") as log, stop_signals() as stop:

        def say(line: str) -> None:
            for file in (sys.stderr, log):
                file.write(f"{line}\n")
                file.flush()

        say(_first_line(trainer, folder))
        was_stopped = _follow(trainer, folder, say, stop, command)
        if was_stopped:
            pairs = [] if arguments.pairs is None else ["--pairs", str(arguments.pairs)]
            again = shlex.join(
                ["python", "-m", "transformer", "train", of_task.name, *pairs, "--out", str(folder), "--resume"]
            )
            say(f"Stopped at step {trainer.step} of {config.steps} and saved; go on with: {again}")
            result = {"task": of_task.name, "out": str(folder), "steps": trainer.step, "finished": False}
        else:
            reason = REASONS[trainer.reason_to_stop()]
            metrics = _finish(trainer, folder, command)
            value, n = metrics[of_task.metric]["value"], metrics[of_task.metric]["n"]
            say(
                f"Done after {trainer.step} steps and {_duration(trainer.seconds)}: {reason}. The model of step "
                f"{trainer.history.best.step} has {of_task.metric} {value:.4g} on {n} unseen pairs; it is in {folder}."
            )
            result = {
                "task": of_task.name, "out": str(folder), "steps": trainer.step, "finished": True,
                "metric": of_task.metric, "value": value, "n": n, "seconds": round(trainer.seconds, 1),
            }
    if arguments.json:
        sys.stdout.write(json.dumps(result) + "\n")
    return 0


def _new(arguments: argparse.Namespace, of_task: Task, folder: Path, device: str) -> Trainer:
    if has_state(folder):
        unfinished = load_state(folder, of_task)
        if unfinished.reason_to_stop() is None:
            raise CommandError(
                f"{folder} holds a training of {unfinished.task.name} stopped at step {unfinished.step}: "
                "go on with --resume, or choose another --out."
            )
    changes = {name: getattr(arguments, name) for name in ("steps", "seed") if getattr(arguments, name) is not None}
    return Trainer(of_task, of_task.preset.model, replace(of_task.preset.training, **changes), device=device)


def _resumed(arguments: argparse.Namespace, of_task: Task, folder: Path, device: str) -> Trainer:
    trainer = load_state(folder, of_task, device, steps=arguments.steps)
    seed = trainer.training_config.seed
    if arguments.seed not in (None, seed):
        raise CommandError(f"The training in {folder} has seed {seed}, --seed {arguments.seed} cannot change it.")
    return trainer


def _follow(
    trainer: Trainer, folder: Path, say: Callable[[str], None], stop: Callable[[], bool], command: str
) -> bool:
    """Train to the end, or to a stop signal: True if it was one. Each evaluation is followed by a save."""
    last_line = time.monotonic()
    stored_as = trainer.task.preset.stored_as
    for event in trainer.run():
        if isinstance(event, Evaluation):
            say(_evaluation_line(event, trainer))
            if trainer.history.best is event:
                save_checkpoint(trainer.checkpoint(trainer.task.name, command=command), folder, stored_as)
            _save_progress(trainer, folder)
            last_line = time.monotonic()
        elif time.monotonic() - last_line > SECONDS_BETWEEN_LINES:
            say(_step_line(event, trainer))
            last_line = time.monotonic()
        if stop():
            _save_progress(trainer, folder)
            return True
    return False


def _save_progress(trainer: Trainer, folder: Path) -> None:
    save_state(trainer, folder)
    unfinished = folder / f"{HISTORY_FILE}.unfinished"
    unfinished.write_text(json.dumps(trainer.history.to_dict(), ensure_ascii=False) + "\n", encoding="utf-8")
    unfinished.replace(folder / HISTORY_FILE)


def _finish(trainer: Trainer, folder: Path, command: str) -> dict:
    """Put the best weights in place and measure them on the test sequences, which nothing has looked at so far."""
    _save_progress(trainer, folder)
    stored_as = trainer.task.preset.stored_as
    trainer.restore_best()
    # What is measured is what is saved: the weights as they come back from the file.
    save_checkpoint(trainer.checkpoint(trainer.task.name, command=command), folder, stored_as)
    saved = load_checkpoint(folder)
    started = time.perf_counter()
    pairs = trainer.task.pairs("test", trainer.task.n_test, TEST_SEED)
    results = write_all(saved.model_on(trainer.device), trainer.task, pairs, trainer.device)
    report = evaluation_report(trainer.task, results, trainer.device, time.perf_counter() - started)
    details = {"n": report["n"], "split": report["split"]}
    metrics = {name: {"value": value, **details} for name, value in report["scores"].items()}
    metrics["exact_match"]["by_length"] = report["by_length"]
    save_checkpoint(trainer.checkpoint(trainer.task.name, command=command, metrics=metrics), folder, stored_as)
    return metrics


@contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Within the block SIGTERM and SIGINT (Ctrl-C) only leave a note; the function given says whether one came."""
    received: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _first_line(trainer: Trainer, folder: Path) -> str:
    sizes, config = trainer.model_config, trainer.training_config
    verb = f"Going on at step {trainer.step}" if trainer.step else "Training"
    return (
        f"{verb}: {trainer.task.name}, {sizes.n_encoder_layers}+{sizes.n_decoder_layers} layers, "
        f"{sizes.n_heads} heads, d_model {sizes.d_model}, at most {config.steps} steps of {config.batch_size} "
        f"sequences of at most {config.max_length} tokens, seed {config.seed}, on {trainer.device}, into {folder}"
    )


def _evaluation_line(evaluation: Evaluation, trainer: Trainer) -> str:
    steps = trainer.training_config.steps
    sample = evaluation.samples[len(evaluation.samples) // 2]
    verdict = "right" if sample.written == sample.expected else f"expected {sample.expected!r}"
    return (
        f"step {evaluation.step:>5}/{steps}  unseen: exact match {evaluation.exact_match:7.2%}, tokens "
        f"{evaluation.token_accuracy:7.2%}, loss {evaluation.loss:.4f}{_time_left(trainer)}\n"
        f"    {sample.source!r} -> {sample.written!r} ({verdict})"
    )


def _step_line(record: StepRecord, trainer: Trainer) -> str:
    return (
        f"step {record.step:>5}/{trainer.training_config.steps}  loss {record.loss:.4f}, tokens "
        f"{record.token_accuracy:7.2%}, rate {record.learning_rate:.2e}, gradient {record.gradient_norm:.2f}"
        f"{_time_left(trainer)}"
    )


def _time_left(trainer: Trainer) -> str:
    if not trainer.step:
        return ""
    left = trainer.seconds / trainer.step * (trainer.training_config.steps - trainer.step)
    return f"  [{_duration(trainer.seconds)}, at most {_duration(left)} left]"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
