"""Bugs that show only while a network learns, each beside a healthy training from the same seed.

A training fault turns a healthy ``Setting`` into a faulty one that differs in nothing else. Both are run by the
``Trainer``, which knows nothing of faults.

Shape legend: B batch, T target length, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer.conditions import Conditions
from transformer.config import TransformerConfig
from transformer.errors import InputError
from transformer.faults import faulty, sees_everything
from transformer.practice import USUAL_PRACTICE, Practice
from transformer.tasks.base import Batch, Task
from transformer.training import Trainer
from transformer.training_config import TrainingConfig

DEEP = 6  # layers of each stack, from which post-LN is hard to train (Xiong et al., 2020)
HIGH_RATE = 10.0  # times the usual peak: with warm-up it can still be learnt with
MUCH_TOO_HIGH_RATE = 1000.0


@dataclass(frozen=True, eq=False)
class Setting:
    """All that makes a training besides its task."""

    model: TransformerConfig
    training: TrainingConfig
    practice: Practice = USUAL_PRACTICE

    def trainer(self, task: Task, device: str = "cpu") -> Trainer:
        """A training of ``task`` that has not begun. Raises ValueError when the network does not fit the task."""
        return Trainer(task, self.model, self.training, device=device, practice=self.practice)


def _unchanged(setting: Setting) -> Setting:
    return setting


@dataclass(frozen=True, eq=False)
class TrainingFault:
    """One bug. ``healthy`` brings both sides to where it shows (deep enough, say), ``broken`` puts the bug in."""

    name: str
    broken: Callable[[Setting], Setting]
    healthy: Callable[[Setting], Setting] = _unchanged

    def settings(self, model: TransformerConfig, training: TrainingConfig) -> tuple[Setting, Setting]:
        """The healthy and the faulty setting; they share their seed."""
        healthy = self.healthy(Setting(model, training))
        return healthy, self.broken(healthy)

    def pair(self, task: Task, model: TransformerConfig, training: TrainingConfig) -> tuple[Trainer, Trainer]:
        """The healthy and the faulty training, not yet begun."""
        healthy, broken = self.settings(model, training)
        return healthy.trainer(task), broken.trainer(task)


# What the faults put in


def not_shifted(batch: Batch) -> Batch:
    """The decoder reads the very tokens it is to write, each at its own position: <bos>, the target, <eos> [B, T+1]."""
    whole = torch.cat([batch.tgt_in[:, :1], batch.tgt_out], dim=1)
    return batch._replace(tgt_in=whole, tgt_out=whole)


def loss_with_padding(logits: Tensor, tgt_out: Tensor, pad_id: int, label_smoothing: float = 0.0) -> Tensor:
    """Mean cross-entropy over all positions, those of padding too: ``logits`` [B, T, V], ``tgt_out`` [B, T] -> []."""
    return F.cross_entropy(logits.flatten(0, 1), tgt_out.flatten(), label_smoothing=label_smoothing)


def _practising(**changes: object) -> Callable[[Setting], Setting]:
    return lambda setting: replace(setting, practice=replace(setting.practice, **changes))


def _sized(**changes: object) -> Callable[[Setting], Setting]:
    return lambda setting: replace(setting, model=replace(setting.model, **changes))


def _times_rate(factor: float, **changes: object) -> Callable[[Setting], Setting]:
    def change(setting: Setting) -> Setting:
        rate = setting.training.learning_rate * factor
        return replace(setting, training=replace(setting.training, learning_rate=rate, **changes))

    return change


TRAINING_FAULTS: dict[str, TrainingFault] = {
    fault.name: fault
    for fault in (
        TrainingFault("target_not_shifted", _practising(prepare=not_shifted)),
        TrainingFault(
            "leaking_causal_mask", _practising(conditions=Conditions(causal=sees_everything, cached=False))
        ),
        TrainingFault("no_warmup", _times_rate(1.0, warmup_steps=0), healthy=_times_rate(HIGH_RATE)),
        TrainingFault(
            "post_ln_deep", _sized(norm_first=False),
            healthy=_sized(norm_first=True, n_encoder_layers=DEEP, n_decoder_layers=DEEP),
        ),
        TrainingFault("no_score_scale", _practising(conditions=faulty(["no_score_scale"]))),
        TrainingFault("no_positions", _sized(positional_encoding="none")),
        TrainingFault("loss_counts_padding", _practising(loss=loss_with_padding)),
        TrainingFault("rate_too_high", _times_rate(MUCH_TOO_HIGH_RATE, warmup_steps=0, clip_norm=0.0)),
    )
}


def training_fault(name: str) -> TrainingFault:
    """The training fault of this name. Raises InputError, naming those there are."""
    if name not in TRAINING_FAULTS:
        raise InputError("fault_unknown", name=name, known=", ".join(TRAINING_FAULTS))
    return TRAINING_FAULTS[name]


def practice_of(name: str, model: TransformerConfig, training: TrainingConfig) -> Practice:
    """The practice under which the training fault ``name`` trains; "" stands for no fault. Raises InputError."""
    return training_fault(name).broken(Setting(model, training)).practice if name else USUAL_PRACTICE
