"""Write a target one token at a time. The network is seen only as a function from last tokens to next logits.

``write`` is the loop; what it takes at each step is chosen by a ``Choice``: the most probable token (greedy), one
drawn at random (sampling), or a given one (forcing). Beam search, which follows several at once, is in
``beam_search.py``.

Shape legend: B batch, S source length, T target length, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from transformer.fast_step import FastStep
from transformer.masks import padding_mask
from transformer.model import Transformer


class NextLogits(Protocol):
    """Last token ids [B] -> logits of the next token [B, V]. It remembers what it was fed before."""

    def __call__(self, last_ids: Tensor) -> Tensor: ...


# Log-probabilities of the next token [B, V] and the ids written so far, one [B] a step -> the ids to write [B].
Choice = Callable[[Tensor, Sequence[Tensor]], Tensor]


class Candidate(NamedTuple):
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


class CachedNextLogits:
    """The network as ``NextLogits``: the source is encoded once, keys and values are kept between steps."""

    def __init__(self, model: Transformer, src: Tensor) -> None:
        self._model = model
        self._src_mask = padding_mask(src, model.config.pad_id)
        self._memory = model.encode(src, self._src_mask)  # [B, S, D]
        self._cache = model.new_cache()
        self._step = FastStep(model, self._memory, self._src_mask, self._cache)
        self._tgt_mask: Tensor | None = None  # [B, 1, 1, T] over what was fed so far; None while none of it is <pad>

    def __call__(self, last_ids: Tensor) -> Tensor:
        new_mask = padding_mask(last_ids[:, None], self._model.config.pad_id)
        if self._tgt_mask is None and bool(new_mask.all()):
            if self._step.is_equal():
                return self._step(last_ids)
        else:
            # An untrained network may write <pad>; as a key it is then hidden, as it is in a full forward pass.
            n_fed = self._cache[0][0].length
            before = new_mask.new_ones(len(last_ids), 1, 1, n_fed) if self._tgt_mask is None else self._tgt_mask
            self._tgt_mask = torch.cat([before, new_mask], dim=-1)
        return self._model.decode(last_ids[:, None], self._memory, self._tgt_mask, self._src_mask, self._cache)[:, -1]

    def select(self, rows: Tensor) -> None:
        """Go on with the given rows of the batch, in this order: all that is kept follows its beam."""
        self._memory, self._src_mask = self._memory[rows], self._src_mask[rows]
        if self._tgt_mask is not None:
            self._tgt_mask = self._tgt_mask[rows]
        self._step.select(rows)
        for pair in self._cache:
            for cache in pair:
                cache.select(rows)


def cached_next_logits(model: Transformer, src: Tensor) -> CachedNextLogits:
    """Encode ``src`` [B, S] once and return the function that decodes on from there, one token a call."""
    return CachedNextLogits(model, src)


def most_probable(log_probs: Tensor, written: Sequence[Tensor]) -> Tensor:
    """The choice of greedy search."""
    return log_probs.argmax(dim=-1)


def forced(token_ids: Sequence[int], then: Choice = most_probable) -> Choice:
    """Write ``token_ids`` first, whatever the model thinks of them, and go on by ``then``."""

    def choose(log_probs: Tensor, written: Sequence[Tensor]) -> Tensor:
        if len(written) < len(token_ids):
            return torch.full(log_probs.shape[:1], token_ids[len(written)], device=log_probs.device)
        return then(log_probs, written)

    return choose


def sampled(
    generator: torch.Generator,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    repetition_penalty: float = 1.0,
) -> Choice:
    """Draw each token at random from the model's distribution, reshaped.

    ``temperature`` divides the logits: toward 0 only the most probable token is left, and 0 means just that.
    ``top_k`` keeps the k most probable tokens (0: all). ``top_p`` keeps the fewest that together have at least
    this probability (Holtzman et al., 2020). ``repetition_penalty`` multiplies the (negative) log-probability of
    what was already written (after Keskar et al., 2019; 1: none). Raises ValueError for values out of range.
    """
    if not (0 <= temperature < math.inf and top_k >= 0 and 0 < top_p <= 1 and 1 <= repetition_penalty < math.inf):
        raise ValueError(
            "temperature and top_k must be at least 0, top_p above 0 and at most 1, repetition_penalty at least 1, "
            f"got {temperature}, {top_k}, {top_p} and {repetition_penalty}"
        )

    def choose(log_probs: Tensor, written: Sequence[Tensor]) -> Tensor:
        scores = log_probs
        if written and repetition_penalty != 1:
            seen = torch.stack(list(written), dim=1)  # [B, T]
            scores = scores.scatter(1, seen, scores.gather(1, seen) * repetition_penalty)
        if temperature == 0:
            return scores.argmax(dim=-1)
        ordered, order = (scores / temperature).sort(dim=-1, descending=True)  # [B, V]
        probabilities = ordered.softmax(dim=-1)
        before = probabilities.cumsum(dim=-1) - probabilities  # what the better ones have together
        rank = torch.arange(probabilities.shape[-1], device=probabilities.device)
        kept = (before < top_p) & (rank < (top_k or len(rank)))  # the best one always is
        place = torch.multinomial(probabilities.masked_fill(~kept, 0.0).cpu(), 1, generator=generator)  # [B, 1]
        return order.gather(1, place.to(order.device))[:, 0]

    return choose


def write(
    next_logits: NextLogits,
    choose: Choice,
    *,
    batch_size: int,
    bos_id: int,
    eos_id: int,
    max_steps: int,
    n_candidates: int = 0,
    device: torch.device | str = "cpu",
) -> list[Decoded]:
    """Take what ``choose`` says at every step until each row wrote ``eos_id`` or ``max_steps`` tokens.

    Rows that are done keep being fed, which costs nothing extra in a batch, and what they write then is dropped.
    Log-probabilities are the model's own, however the token was chosen. ``n_candidates`` candidates are kept a
    step (0: none). Raises ValueError when a limit is below 1.
    """
    if batch_size < 1 or max_steps < 1:
        raise ValueError(f"batch_size and max_steps must be at least 1, got {batch_size} and {max_steps}")
    last_ids = torch.full((batch_size,), bos_id, device=device)
    done = torch.zeros(batch_size, dtype=torch.bool, device=device)
    written: list[Tensor] = []
    written_log_probs: list[Tensor] = []
    for_candidates: list[Tensor] = []  # kept to the end: one operation for all steps
    for _ in range(max_steps):
        log_probs = next_logits(last_ids).float().log_softmax(dim=-1)  # [B, V]
        last_ids = choose(log_probs, written)  # [B]
        written.append(last_ids)
        written_log_probs.append(log_probs.gather(1, last_ids[:, None])[:, 0])
        if n_candidates:
            for_candidates.append(log_probs)
        done |= last_ids == eos_id
        if bool(done.all()):
            break
    ids = torch.stack(written, dim=1).tolist()  # [B, T]
    log_probs = torch.stack(written_log_probs, dim=1).tolist()
    if n_candidates:
        top = torch.stack(for_candidates, dim=1).topk(min(n_candidates, for_candidates[0].shape[-1]))  # [B, T, n]
        candidate_ids, probabilities = top.indices.tolist(), top.values.exp().tolist()
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


def greedy_decode(next_logits: NextLogits, **limits: object) -> list[Decoded]:
    """``write`` with the most probable token at every step; ``limits`` are those of ``write``."""
    return write(next_logits, most_probable, **limits)
