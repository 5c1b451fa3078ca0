"""A text decoded soundly and under faults, and how far the two networks' answers are apart.

Shape legend: S source length, T target length, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from transformer.checkpoints import Checkpoint
from transformer.conditions import USUAL, Conditions, NextLogitsUnder, together
from transformer.faults import N_PADDING, Fault, chosen_faults
from transformer.search import GREEDY, Search
from transformer.tracing import Trace, encode_source, trace_text


@dataclass(frozen=True, eq=False)
class FaultyRun:
    """The same text twice. ``distances`` [T] are those of ``total_variation`` at each step of the sound run."""

    faults: tuple[Fault, ...]
    conditions: Conditions
    healthy: Trace
    faulty: Trace
    distances: np.ndarray
    n_padding: int  # pads behind the text, in both runs: without them a fault of the padding mask shows nothing
    most_steps: int  # where the faulty run is cut off when it does not end by itself


def most_steps_beside(n_healthy: int, max_len: int) -> int:
    """How many tokens a run under faults may write beside a sound one of ``n_healthy``: twice as many, or 8 more."""
    return min(max_len, max(2 * n_healthy, n_healthy + 8))


def faulty_run(
    checkpoint: Checkpoint, text: str, names: Sequence[str], *, search: Search = GREEDY, prefix: Sequence[int] = (),
    healthy: Trace | None = None,
) -> FaultyRun:
    """Decode ``text`` without and with the named faults, and compare what the two networks answer.

    ``prefix`` is written first in both. ``healthy`` is the sound run where it is at hand; it is made here where it is
    not, or where a fault needs padding behind the text. The model may have room for less of that than N_PADDING.
    Raises InputError for a text the model cannot read, and for faults there are not or that contradict each other.
    """
    faults = chosen_faults(names)
    conditions = together(*(fault.conditions for fault in faults))
    max_len = checkpoint.model.config.max_len
    given = {"search": search, "prefix": prefix, "n_padding": 0}
    if any(fault.needs_padding for fault in faults):
        given["n_padding"] = max(0, min(N_PADDING, max_len - len(encode_source(checkpoint, text)[0])))
    if healthy is None or given["n_padding"]:
        healthy = trace_text(checkpoint, text, **given)
    most_steps = most_steps_beside(len(healthy.steps), max_len)
    faulty = trace_text(checkpoint, text, max_steps=most_steps, conditions=conditions, **given)
    distances = total_variation(
        next_distributions(checkpoint, healthy, USUAL), next_distributions(checkpoint, healthy, conditions)
    )
    return FaultyRun(faults, conditions, healthy, faulty, distances, given["n_padding"], most_steps)


def next_distributions(checkpoint: Checkpoint, trace: Trace, conditions: Conditions) -> np.ndarray:
    """What the network holds probable at each step of ``trace`` when it is fed that run's tokens: float64 [T, V].

    It goes step by step as decoding does, so a mask that shows the future has no more to show than is written, and
    always through ``model.py``: a shorter way on one side alone would differ by its rounding.
    Under conditions that begin with another token, that one is fed first.
    """
    model = checkpoint.model_on("cpu")
    fed = (conditions.first_id, *trace.tgt_in_ids[1:])
    with torch.inference_mode(), conditions.changing(model):
        next_logits = NextLogitsUnder(conditions, model, torch.tensor([trace.src_ids]))
        logits = torch.cat([next_logits(torch.tensor([token_id])) for token_id in fed])  # [T, V]
    return logits.double().softmax(dim=-1).numpy()


def total_variation(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Half the sum of all differences of two distributions [T, V] -> [T].

    It is the probability that went from some tokens to others: 0 for the same answer, 1 for nothing in common.
    """
    return np.abs(first - second).sum(axis=-1) / 2
