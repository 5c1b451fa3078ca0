"""How the next token is chosen, as one small frozen value: greedy, beam or sample."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from transformer.beam_search import beam_search
from transformer.conditions import USUAL, Conditions
from transformer.decoding import Choice, Decoded, most_probable, sampled, write
from transformer.errors import InputError
from transformer.model import Transformer

SEARCHES = ("greedy", "beam", "sample")
WIDEST_BEAM = 16
LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True)
class Search:
    """A search and its settings; those of other searches are not looked at.

    ``beam_width`` and ``length_penalty`` belong to beam (see ``beam_search``); ``temperature``, ``top_k``, ``top_p``,
    ``repetition_penalty`` and ``seed`` to sample (see ``decoding.sampled``). Raises InputError for values out of range.
    """

    method: str = "greedy"
    beam_width: int = 4
    length_penalty: float = 0.0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in SEARCHES:
            raise InputError("search_unknown", name=self.method, known=", ".join(SEARCHES))
        for name, smallest, largest, is_whole in (
            ("beam_width", 1, WIDEST_BEAM, True),
            ("length_penalty", 0, 10, False),
            ("temperature", 0, 100, False),
            ("top_k", 0, 1_000_000, True),
            ("top_p", 1e-6, 1, False),
            ("repetition_penalty", 1, 100, False),
            ("seed", 0, LARGEST_SEED, True),
        ):
            value = getattr(self, name)
            is_number = isinstance(value, int if is_whole else (int, float)) and not isinstance(value, bool)
            if not is_number or not math.isfinite(value) or not smallest <= value <= largest:
                raise InputError("search_setting", name=name, smallest=smallest, largest=largest, value=value)

    def write(
        self, model: Transformer, src: Tensor, conditions: Conditions = USUAL, **limits: object
    ) -> list[Decoded]:
        """The best target of each source [B, S]; ``limits`` are those of ``decoding.write``, less its batch size."""
        next_logits = conditions.next_logits(model, src)
        if self.method != "beam":
            return write(next_logits, self.choice(), batch_size=len(src), **limits)
        found = beam_search(
            next_logits,
            n_sources=len(src),
            beam_width=self.beam_width,
            length_penalty=self.length_penalty,
            **limits,
        )
        return [result.hypotheses[0].decoded for result in found]

    def with_seed(self, seed: int) -> Search:
        """The same with another seed; beyond the last one they start again at 0."""
        return replace(self, seed=seed % (LARGEST_SEED + 1))

    def choice(self) -> Choice:
        """What ``decoding.write`` takes at each step; a beam search looks further ahead, see ``write``."""
        return self.sampler() if self.method == "sample" else most_probable

    def sampler(self) -> Choice:
        """The choice of sampling with these settings, whatever the method is."""
        return sampled(
            torch.Generator().manual_seed(self.seed),
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            repetition_penalty=self.repetition_penalty,
        )


GREEDY = Search()
