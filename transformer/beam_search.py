"""Beam search: follow the most probable hypotheses side by side, and keep the tree of what was considered.

Shape legend: N sources, W beams of each, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from transformer.decoding import CachedNextLogits, Decoded, DecodingStep


@dataclass(frozen=True)
class Hypothesis:
    """One way to write the target. ``score`` is what beams are ranked by: log-probability over length penalty."""

    decoded: Decoded
    score: float


@dataclass(frozen=True)
class TreeNode:
    """One considered token. ``parent`` is the index of the node before it (-1: the start of the target)."""

    parent: int
    token_id: int
    log_prob: float  # of this token, given those before it
    total_log_prob: float  # of the whole path to it
    is_kept: bool  # False: pruned at once, not among the best W at its step
    pruned_at: int = 0  # the step (from 1) at which the last line through it fell out of the best W; 0: it never did


@dataclass(frozen=True)
class BeamSearchResult:
    """The W hypotheses of one source, best first, and the tree of the 2 W best continuations of every step."""

    hypotheses: tuple[Hypothesis, ...]
    nodes: tuple[TreeNode, ...]


def length_divisor(length: int, length_penalty: float) -> float:
    """What a log-probability is divided by: ((5 + length) / 6) ** length_penalty (Wu et al., 2016, section 7).

    ``length`` counts written tokens, ``<eos>`` included. A penalty of 0 divides by 1: short outputs win more often.
    """
    return ((5 + length) / 6) ** length_penalty


def beam_search(
    next_logits: CachedNextLogits,
    *,
    n_sources: int,
    beam_width: int,
    bos_id: int,
    eos_id: int,
    max_steps: int,
    length_penalty: float = 0.0,
    device: torch.device | str = "cpu",
) -> list[BeamSearchResult]:
    """The best hypotheses of each source, ``beam_width`` of them at most.

    ``next_logits`` stands at N sources; it is told by ``select`` which rows go on. A beam that wrote ``eos_id`` keeps
    its place and is not expanded; the search ends when every place is taken by such a beam, or after ``max_steps``.
    Beam width 1 is greedy search. Raises ValueError when a limit is below 1.
    """
    if min(n_sources, beam_width, max_steps) < 1:
        raise ValueError(
            f"n_sources, beam_width and max_steps must be at least 1, got {n_sources}, {beam_width} and {max_steps}"
        )
    next_logits.select(torch.arange(n_sources, device=device).repeat_interleave(beam_width))  # rows N*W
    trees = [_Tree(beam_width) for _ in range(n_sources)]
    last_ids = torch.full((n_sources, beam_width), bos_id, device=device)  # [N, W]
    totals = torch.full((n_sources, beam_width), -torch.inf, device=device)  # [N, W]
    totals[:, 0] = 0.0  # all beams of a source start alike: one of them speaks for all
    lengths = torch.zeros(n_sources, beam_width, dtype=torch.long, device=device)
    done = torch.zeros(n_sources, beam_width, dtype=torch.bool, device=device)
    first_row = torch.arange(n_sources, device=device)[:, None] * beam_width  # [N, 1]
    for _ in range(max_steps):
        log_probs = next_logits(last_ids.flatten()).float().log_softmax(dim=-1).unflatten(0, (n_sources, beam_width))
        vocab_size = log_probs.shape[-1]
        # A finished beam has one continuation, itself: it costs nothing and adds nothing.
        stays = torch.full((vocab_size,), -torch.inf, device=device)
        stays[eos_id] = 0.0
        log_probs = torch.where(done[:, :, None], stays, log_probs)  # [N, W, V]
        new_lengths = lengths + (~done).long()
        new_totals = totals[:, :, None] + log_probs  # [N, W, V]
        scores = new_totals / (((5 + new_lengths) / 6) ** length_penalty)[:, :, None]  # [N, W, V], see length_divisor
        ranked = scores.flatten(1).topk(min(2 * beam_width, beam_width * vocab_size), dim=1)  # [N, 2W]
        beams, ids = ranked.indices // vocab_size, ranked.indices % vocab_size  # [N, 2W]
        for source, tree in enumerate(trees):
            tree.grow(beams[source], ids[source], log_probs[source], new_totals[source], done[source])
        beams, ids = beams[:, :beam_width], ids[:, :beam_width]
        totals = new_totals.flatten(1).gather(1, ranked.indices[:, :beam_width])
        lengths = new_lengths.gather(1, beams)
        done = done.gather(1, beams) | (ids == eos_id)
        last_ids = ids
        next_logits.select((first_row + beams).flatten())
        if bool((done | totals.isinf()).all()):
            break
    return [tree.result(length_penalty, eos_id) for tree in trees]


class _Tree:
    """The nodes of one source, and at which node each of its beams stands."""

    def __init__(self, beam_width: int) -> None:
        self.nodes: list[TreeNode] = []
        self.stands_at = [-1] * beam_width
        self.stood_at: list[list[int]] = []  # the same after each step

    def grow(self, beams: Tensor, ids: Tensor, log_probs: Tensor, totals: Tensor, done: Tensor) -> None:
        """Add one step: ranked ``beams`` and ``ids`` [2W], all ``log_probs`` and ``totals`` [W, V], ``done`` [W]."""
        width = len(self.stands_at)
        stands_at = []
        for place, (beam, token_id) in enumerate(zip(beams.tolist(), ids.tolist(), strict=True)):
            total = float(totals[beam, token_id])
            is_kept = place < width
            if bool(done[beam]):
                node = self.stands_at[beam]
            elif total == -torch.inf:
                node = -1
            else:
                node = len(self.nodes)
                log_prob = float(log_probs[beam, token_id])
                self.nodes.append(TreeNode(self.stands_at[beam], token_id, log_prob, total, is_kept))
            if is_kept:
                stands_at.append(node)
        self.stands_at = stands_at
        self.stood_at.append(stands_at)

    def result(self, length_penalty: float, eos_id: int) -> BeamSearchResult:
        hypotheses = []
        for end in self.stands_at:
            path = []
            node = end
            while node >= 0:
                path.append(self.nodes[node])
                node = self.nodes[node].parent
            if path:
                steps = tuple(DecodingStep(node.token_id, node.log_prob, ()) for node in reversed(path))
                decoded = Decoded(steps, steps[-1].token_id == eos_id)
                hypotheses.append(Hypothesis(decoded, decoded.log_prob / length_divisor(len(steps), length_penalty)))
        hypotheses.sort(key=lambda hypothesis: -hypothesis.score)
        return BeamSearchResult(tuple(hypotheses), self._pruned())

    def _pruned(self) -> tuple[TreeNode, ...]:
        """The nodes, each with the step at which it was pruned."""
        first_seen = []  # the step at which a node was considered: its depth
        for node in self.nodes:
            first_seen.append(1 if node.parent < 0 else first_seen[node.parent] + 1)
        alive_until = [step - 1 for step in first_seen]
        for step, places in enumerate(self.stood_at, start=1):
            for node in places:
                while node >= 0 and alive_until[node] < step:  # those before one already seen were seen with it
                    alive_until[node] = step
                    node = self.nodes[node].parent
        n_steps = len(self.stood_at)
        return tuple(
            replace(node, pruned_at=0 if alive == n_steps else alive + 1)
            for node, alive in zip(self.nodes, alive_until, strict=True)
        )
