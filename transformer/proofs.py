"""What must hold of the network, checked on the weights, the text and the conditions at hand.

Every proof runs the network in float64 (float32 on a device without it), so that a deviation is a mistake and not
rounding. It says what it did, the largest deviation it found, and how much it allows. The faults of ``faults.py``
name the proofs that they make fail; ``docs/faults.md`` has the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from transformer import proofs_of_parts as parts
from transformer import proofs_of_runs as runs
from transformer.checkpoints import Checkpoint
from transformer.conditions import Conditions
from transformer.faults import faulty
from transformer.proof_subject import Found, Subject, subject_of

PROOFS: dict[str, Callable[[Subject], Found]] = {
    function.__name__: function
    for function in (
        parts.rows_sum_to_1,
        parts.hidden_is_zero,
        parts.scores_are_scaled,
        parts.softmax_shift_changes_nothing,
        parts.heads_are_joined,
        parts.embeddings_are_scaled,
        parts.positions_are_right,
        parts.norms_are_standard,
        parts.residual_adds_up,
        runs.future_changes_nothing,
        runs.padding_changes_nothing,
        runs.batch_equals_singles,
        runs.cached_equals_uncached,
        runs.order_is_in_the_positions,
        runs.starts_with_bos,
        runs.stops_at_eos,
        runs.same_seed_same_result,
        parts.equals_torch_attention,
        runs.equals_reference,
        runs.cpu_equals_device,
    )
}
NEEDS_ANOTHER_DEVICE = "cpu_equals_device"


@dataclass(frozen=True)
class Proof:
    """What one proof found. ``max_deviation`` is relative where the compared values are larger than 1.

    ``done`` says in numbers what was done, for a sentence on the page.
    """

    name: str
    holds: bool
    max_deviation: float
    tolerance: float
    done: dict

    def to_dict(self) -> dict:
        """Ready for JSON, which has no word for a deviation that is no finite number: it becomes None."""
        found = self.max_deviation if math.isfinite(self.max_deviation) else None
        return {
            "name": self.name, "holds": self.holds, "max_deviation": found, "tolerance": self.tolerance,
            "done": self.done,
        }


def prove(
    checkpoint: Checkpoint, text: str, faults: Sequence[str] = (), device: str = "cpu",
    conditions: Conditions | None = None,
) -> Iterator[Proof]:
    """Every proof that this machine can make, one after the other, with the named faults switched on.

    ``conditions`` take the place of those of the faults. Raises InputError for a text the model cannot read, and for
    faults there are not or that contradict each other.
    """
    conditions = conditions or faulty(faults)
    checkpoint.model_on(device)  # its copy there is made outside of inference mode, for it is shared
    subject = subject_of(checkpoint, text, conditions, device)
    for name, function in PROOFS.items():
        if name == NEEDS_ANOTHER_DEVICE and device == "cpu":
            continue
        # No yield inside: a generator would leave its mode open in the context of whoever resumes it.
        with torch.inference_mode():
            max_deviation, tolerance, done = function(subject)
        yield Proof(name, max_deviation <= tolerance, max_deviation, tolerance, done)
