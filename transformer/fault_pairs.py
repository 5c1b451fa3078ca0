"""At which sizes each training fault shows within half a minute, and what came of it: ``RECORDS``.

``python -m transformer.fault_pairs [NAME ...]`` trains the pairs (of all faults, or of those named) and writes the
record anew. The page shows it until a visitor trains a pair of their own, and ``docs/faults.md`` has its figures.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from transformer.history import History
from transformer.tasks import task
from transformer.tasks.sequences import sequence_model
from transformer.training import TrainingDiverged
from transformer.training_config import TrainingConfig
from transformer.training_faults import TRAINING_FAULTS, Setting, training_fault

RECORDS = Path(__file__).resolve().parent.parent / "assets" / "recorded" / "training_faults.json"
SIDES = ("healthy", "faulty")
TAIL = 20  # steps that the end of a curve is the mean of: one batch says little
MODEL = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_encoder_layers": 1, "n_decoder_layers": 1}
TRAINING = {
    "steps": 250, "batch_size": 64, "learning_rate": 3e-3, "warmup_steps": 50, "max_length": 6, "evaluate_every": 25,
    "evaluation_size": 100,
}


@dataclass(frozen=True)
class Sizes:
    """What is other than ``MODEL`` and ``TRAINING`` for a fault."""

    task: str = "copy"
    model: dict = field(default_factory=dict)
    training: dict = field(default_factory=dict)


# Small changes of these numbers may hide a fault, or the healthy side's success: they were found by trying.
SIZES = {
    **dict.fromkeys(TRAINING_FAULTS, Sizes()),
    "no_warmup": Sizes(training={"learning_rate": 1.7e-3}),  # of which the fault makes ten times as much
    "post_ln_deep": Sizes(
        model={"d_ff": 64},
        training={"steps": 150, "batch_size": 32, "max_length": 4, "learning_rate": 4e-3, "warmup_steps": 30},
    ),
    "no_score_scale": Sizes(model={"n_heads": 1}),  # the longer a head's vectors, the larger the factor
    "loss_counts_padding": Sizes(training={"max_length": 12}),  # the more lengths, the more padding
    "rate_too_high": Sizes(training={"steps": 150}),
}


@dataclass(frozen=True, eq=False)
class SideRecord:
    """One side of a pair that was trained to its end; ``diverged``: the step, loss and rate it failed at, or None."""

    history: History
    diverged: dict | None

    def ends(self) -> dict[str, float]:
        """Steps done; exact match at the end; tokens right and loss in training, as means over the last steps."""
        steps = self.history.steps
        latest = steps[-TAIL:]
        return {
            "steps": len(steps),
            "exact": self.history.evaluations[-1].exact_match,
            "tokens": sum(entry.token_accuracy for entry in latest) / len(latest),
            "loss": sum(entry.loss for entry in latest) / len(latest),
        }


def pair_settings(name: str, seed: int = 0) -> tuple[str, tuple[Setting, Setting]]:
    """The task, and the healthy and the faulty setting, with which the training fault of this name shows.

    Raises InputError when there is no such fault.
    """
    fault = training_fault(name)
    sizes = SIZES[name]
    model = sequence_model(**{**MODEL, **sizes.model})
    return sizes.task, fault.settings(model, TrainingConfig(**{**TRAINING, **sizes.training}, seed=seed))


def train_pair(name: str) -> dict[str, SideRecord]:
    """Both sides, one after the other, to their ends."""
    task_name, settings = pair_settings(name)
    found = {}
    for side, setting in zip(SIDES, settings, strict=True):
        trainer, diverged = setting.trainer(task(task_name)), None
        try:
            for _ in trainer.run():
                pass
        except TrainingDiverged as error:
            diverged = error.values
        found[side] = SideRecord(trainer.history, diverged)
    return found


@cache
def recorded_pairs() -> dict[str, dict[str, SideRecord]]:
    """What was recorded, by fault and side."""
    records = json.loads(RECORDS.read_text(encoding="utf-8"))
    return {
        name: {
            side: SideRecord(History.from_dict(values["history"]), values["diverged"]) for side, values in sides.items()
        }
        for name, sides in records.items()
    }


def _rounded(value: object) -> object:
    """Five significant digits of every number, as the page shows no more."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return {key: _rounded(each) for key, each in value.items()} if isinstance(value, dict) else value


def _record(side: SideRecord) -> dict:
    *earlier, last = side.history.evaluations
    history = replace(side.history, evaluations=[*(replace(entry, samples=()) for entry in earlier), last])
    return {"history": _rounded(history.to_dict()), "diverged": side.diverged}


def main(names: list[str]) -> int:
    """Train the pairs of these faults (none named: of all) and write them into the record."""
    records = json.loads(RECORDS.read_text(encoding="utf-8")) if RECORDS.exists() else {}
    for name in names or TRAINING_FAULTS:
        records[name] = {side: _record(record) for side, record in train_pair(name).items()}
    RECORDS.parent.mkdir(exist_ok=True)
    in_order = {name: records[name] for name in TRAINING_FAULTS if name in records}
    RECORDS.write_text(json.dumps(in_order, separators=(",", ":"), ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
