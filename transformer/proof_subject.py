"""What the proofs are about: a model under conditions, the tokens they feed it, and how far two values are apart.

Shape legend: B batch, S source length, T target length, D d_model, V vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from transformer.checkpoints import Checkpoint
from transformer.conditions import Conditions
from transformer.faults import N_PADDING
from transformer.hooks import intervene, record
from transformer.masks import Masks
from transformer.model import Transformer
from transformer.tracing import encode_source, trace_text

SHORTEST_TARGET, LONGEST_TARGET = 6, 24  # tokens that the decoder is fed in a proof

# What a proof finds: its largest deviation, the tolerance, and what was done.
Found = tuple[float, float, dict]


@dataclass(frozen=True, eq=False)
class Subject:
    """What the proofs are about: a model under conditions, and the tokens they feed it.

    ``src_ids`` [S] is the text with its ``<eos>``, cut where the model has no room for padding behind it;
    ``tgt_in_ids`` [T] is ``<bos>`` and what the healthy model writes for the text, filled up to at least
    SHORTEST_TARGET tokens, so that there always is a future to change.
    """

    checkpoint: Checkpoint
    conditions: Conditions
    model: Transformer  # a copy of the checkpoint's, in the precision of the proofs
    device: str
    src_ids: tuple[int, ...]
    tgt_in_ids: tuple[int, ...]

    @property
    def pad_id(self) -> int:
        """The id of ``<pad>``."""
        return self.model.config.pad_id

    @property
    def rounding(self) -> float:
        """What float64 (or float32) may be off by over a whole pass."""
        return 1e-9 if next(self.model.parameters()).dtype == torch.float64 else 1e-3

    def ids(self, *rows: Sequence[int]) -> Tensor:
        """Rows of ids as a batch [B, T], the shorter ones padded."""
        width = max(map(len, rows))
        return torch.tensor([[*row, *[self.pad_id] * (width - len(row))] for row in rows], device=self.device)

    def masks(self, src: Tensor, tgt_in: Tensor) -> Masks:
        """The masks of these conditions."""
        return self.conditions.masks(src, tgt_in, self.pad_id)

    def logits(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """One pass over ``src`` [B, S] and ``tgt_in`` [B, T] under the conditions -> [B, T, V]."""
        with self.conditions.changing(self.model):
            return self.model(src, tgt_in, self.masks(src, tgt_in))

    def recorded(self, src: Tensor, tgt_in: Tensor) -> dict[str, Tensor]:
        """Every value of such a pass."""
        with self.conditions.changing(self.model), record() as acts:
            self.model(src, tgt_in, self.masks(src, tgt_in))
        return acts

    def memory(self, src: Tensor, changes: dict | None = None) -> Tensor:
        """The memory [B, S, D] of ``src`` [B, S]; ``changes`` act after those of the conditions."""
        with self.conditions.changing(self.model), intervene(changes or {}):
            return self.model.encode(src, self.masks(src, src[:, :0]).src_mask)

    def step_by_step(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """The same logits as ``logits``, written token by token with the cache, whether it is right or not."""
        with self.conditions.changing(self.model):
            next_logits = replace(self.conditions, cached=True).next_logits(self.model, src)
            return torch.stack([next_logits(tgt_in[:, t]) for t in range(tgt_in.shape[1])], dim=1)


def subject_of(checkpoint: Checkpoint, text: str, conditions: Conditions, device: str = "cpu") -> Subject:
    """What the proofs need of a checkpoint and a text. Raises InputError for a text the model cannot read."""
    config = checkpoint.model.config
    ids, _, _ = encode_source(checkpoint, text)
    room = max(1, config.max_len - N_PADDING)
    if len(ids) > room:
        ids = (*ids[: room - 1], ids[-1])
    longest = min(LONGEST_TARGET, config.max_len)
    tgt_in_ids = trace_text(checkpoint, text, max_steps=longest).tgt_in_ids
    others = range(config.tgt_vocab_size - 1, 3, -1)  # real tokens, from the end of the vocabulary
    missing = min(SHORTEST_TARGET, longest) - len(tgt_in_ids)
    tgt_in_ids += tuple(others[i % len(others)] if others else 3 for i in range(missing))
    dtype = torch.float32 if device == "mps" else torch.float64
    model = copy.deepcopy(checkpoint.model).to(device, dtype)
    return Subject(checkpoint, conditions, model, device, ids, tgt_in_ids)


def deviation(value: Tensor, expected: Tensor) -> float:
    """The largest difference, relative to the largest expected value where that is above 1; NaN where one is."""
    if not value.numel():
        return 0.0
    expected = expected.to(value)
    return float((value - expected).abs().max() / expected.abs().max().clamp(min=1))
