"""How the steps of a training are done: what becomes of a batch, which loss, and the conditions the network is under.

The usual practice is the right one. ``training_faults.py`` has others, each wrong in one thing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from transformer.conditions import USUAL, Conditions
from transformer.evaluation import sequence_loss
from transformer.masks import Masks
from transformer.tasks.base import Batch

Loss = Callable[[Tensor, Tensor, int, float], Tensor]  # as ``sequence_loss``


@dataclass(frozen=True, eq=False)
class Practice:
    """``prepare`` makes of each batch what is learnt from; ``loss`` is what is minimised.

    The network learns and is evaluated under ``conditions``, as a program with that mistake in it would do both.
    """

    prepare: Callable[[Batch], Batch] = lambda batch: batch
    loss: Loss = sequence_loss
    conditions: Conditions = USUAL

    def masks(self, batch: Batch, pad_id: int) -> Masks | None:
        """The masks of a pass over ``batch``; None for the usual ones, which the network makes itself."""
        return None if self.conditions.usual_masks else self.conditions.masks(batch.src, batch.tgt_in, pad_id)


USUAL_PRACTICE = Practice()
