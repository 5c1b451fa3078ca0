"""Write a target one token at a time. The network is seen only as a function from last tokens to next logits.

Shape legend: B batch, S source length, T target length, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from transformer.masks import padding_mask
from transformer.model import Transformer

NextLogits = Callable[[Tensor], Tensor]  # last token ids [B] -> logits of the next token [B, V]


@dataclass(frozen=True)
class Candidate:
    """A token that could come next, with the probability the model gives it (0 to 1)."""

    token_id: int
    probability: float


@dataclass(frozen=True)
class DecodingStep:
    """One written token: its id, its log-probability (natural), and the most probable candidates, best first."""

    token_id: int
    log_prob: float
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class Decoded:
    """One finished search. ``finished`` is False when the length cap came before ``<eos>``."""

    steps: tuple[DecodingStep, ...]
    finished: bool

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The written ids, ``<eos>`` included when it was written."""
        return tuple(step.token_id for step in self.steps)

    @property
    def log_prob(self) -> float:
        """Log-probability of the whole output: the sum over its steps."""
        return sum(step.log_prob for step in self.steps)


def cached_next_logits(model: Transformer, src: Tensor) -> NextLogits:
    """Encode ``src`` [B, S] once and return the function that decodes on from there, one token a call."""
    src_mask = padding_mask(src, model.config.pad_id)
    memory = model.encode(src, src_mask)
    cache = model.new_cache()

    def next_logits(last_ids: Tensor) -> Tensor:
        return model.decode(last_ids[:, None], memory, None, src_mask, cache)[:, -1]

    return next_logits


def greedy_decode(
    next_logits: NextLogits,
    *,
    batch_size: int,
    bos_id: int,
    eos_id: int,
    max_steps: int,
    n_candidates: int = 0,
    device: torch.device | str = "cpu",
) -> list[Decoded]:
    """Take the most probable token at every step until each row wrote ``eos_id`` or ``max_steps`` tokens.

    Rows that are done keep being fed, which costs nothing extra in a batch, and what they write then is dropped.
    ``n_candidates`` candidates are kept a step (0: none). Raises ValueError when a limit is below 1.
    """
    if batch_size < 1 or max_steps < 1:
        raise ValueError(f"batch_size and max_steps must be at least 1, got {batch_size} and {max_steps}")
    last_ids = torch.full((batch_size,), bos_id, device=device)
    done = torch.zeros(batch_size, dtype=torch.bool, device=device)
    written: list[tuple[Tensor, Tensor]] = []
    candidates: list[tuple[Tensor, Tensor]] = []
    for _ in range(max_steps):
        log_probs = next_logits(last_ids).float().log_softmax(dim=-1)  # [B, V]
        best_log_probs, last_ids = log_probs.max(dim=-1)  # [B]
        written.append((last_ids, best_log_probs))
        if n_candidates:
            top = log_probs.topk(min(n_candidates, log_probs.shape[-1]), dim=-1)
            candidates.append((top.indices, top.values.exp()))
        done |= last_ids == eos_id
        if bool(done.all()):
            break
    ids = torch.stack([step_ids for step_ids, _ in written], dim=1).tolist()  # [B, T]
    log_probs = torch.stack([step_log_probs for _, step_log_probs in written], dim=1).tolist()
    if n_candidates:
        candidate_ids = torch.stack([step_ids for step_ids, _ in candidates], dim=1).tolist()  # [B, T, n]
        probabilities = torch.stack([step_probs for _, step_probs in candidates], dim=1).tolist()
    decoded = []
    for row in range(batch_size):
        finished = eos_id in ids[row]
        length = ids[row].index(eos_id) + 1 if finished else len(ids[row])
        steps = tuple(
            DecodingStep(
                ids[row][t],
                log_probs[row][t],
                tuple(map(Candidate, candidate_ids[row][t], probabilities[row][t])) if n_candidates else (),
            )
            for t in range(length)
        )
        decoded.append(Decoded(steps, finished))
    return decoded
