"""What copy and reverse share: sequences of 32 symbols, drawn at random, and a rule for what is to be written.

Shape legend: B batch, S source length, T target length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from transformer.config import TransformerConfig
from transformer.tasks.base import SPLITS, Batch, Pair, Preset, Task, make_batch, split_of
from transformer.tokenizers import SymbolTokenizer
from transformer.training_config import TrainingConfig

TOKENIZER = SymbolTokenizer(str(number) for number in range(32))
MIN_LENGTH, MAX_LENGTH = 1, 20
MODEL_MAX_LEN = 64  # positions; more than the lengths trained for, so that the page can show what happens beyond
DATA = "synthetic: symbols drawn at random by a seeded generator, so there is no licence"
DRAWS_BEFORE_GIVING_UP = 2_000  # a short length has few sequences: after so many misses in a row all are known


@dataclass(frozen=True)
class SequenceTask(Task):
    """Write a sequence of symbols as ``rule`` says, e.g. backwards."""

    rule: Callable[[tuple[int, ...]], tuple[int, ...]]

    def pairs(self, split: str, n: int, seed: int, max_length: int | None = None) -> list[Pair]:
        """See ``Task.pairs``. Lengths come in turn (1, 2, 3 ...); one that has no more sequences drops out."""
        _check_split(split)
        longest = max_length or self.max_length
        generator = torch.Generator().manual_seed(seed)
        sources = {length: self._different(generator, length, split) for length in range(MIN_LENGTH, longest + 1)}
        found: list[Pair] = []
        while sources and len(found) < n:
            for length in list(sources):
                ids = next(sources[length], None)
                if ids is None:
                    del sources[length]
                elif len(found) < n:
                    found.append((self.src_tokenizer.decode(ids), self.tgt_tokenizer.decode(self.rule(ids))))
        return found

    def batch(self, generator: torch.Generator, size: int, max_length: int, split: str = "train") -> Batch:
        """See ``Task.batch``. Every length from 1 to ``max_length`` is equally likely."""
        _check_split(split)
        rows: list[tuple[int, ...]] = []
        while len(rows) < size:
            lengths = torch.randint(MIN_LENGTH, max_length + 1, (size,), generator=generator).tolist()
            drawn = self._draw(generator, size, max_length)
            cut = (tuple(ids[:length]) for ids, length in zip(drawn, lengths, strict=True))
            rows += [ids for ids in cut if self._is_in(split, ids)]
        rows = rows[:size]
        return make_batch(rows, [self.rule(ids) for ids in rows], self.src_tokenizer, self.tgt_tokenizer)

    def _different(self, generator: torch.Generator, length: int, split: str) -> Iterator[tuple[int, ...]]:
        """Sequences of one length and split, none twice, until no new one turns up."""
        seen: set[tuple[int, ...]] = set()
        misses = 0
        while misses < DRAWS_BEFORE_GIVING_UP:
            for row in self._draw(generator, 32, length):
                ids = tuple(row)
                if ids in seen or not self._is_in(split, ids):
                    misses += 1
                else:
                    seen.add(ids)
                    misses = 0
                    yield ids

    def _draw(self, generator: torch.Generator, n: int, length: int) -> list[list[int]]:
        """``n`` rows of ``length`` ids of symbols, special tokens excluded."""
        first = len(self.src_tokenizer) - len(self.src_tokenizer.symbols)
        return torch.randint(first, len(self.src_tokenizer), (n, length), generator=generator).tolist()

    def _is_in(self, split: str, ids: tuple[int, ...]) -> bool:
        return split_of(" ".join(self.src_tokenizer.tokens(ids))) == split


def _check_split(split: str) -> None:
    if split not in SPLITS:
        raise ValueError(f"there is no split {split!r}, expected one of {', '.join(SPLITS)}")


def sequence_model(**sizes: object) -> TransformerConfig:
    """A network for sequences of symbols: both vocabularies and max_len are set, the rest is given."""
    return TransformerConfig(len(TOKENIZER), len(TOKENIZER), dropout=0.0, max_len=MODEL_MAX_LEN, **sizes)


def sequence_task(
    name: str, rule: Callable[[tuple[int, ...]], tuple[int, ...]], examples: tuple[str, ...], training: TrainingConfig
) -> SequenceTask:
    """A task over the shared vocabulary. ``training`` makes its shipped checkpoint."""
    return SequenceTask(
        name=name,
        metric="exact_match",
        examples=examples,
        min_length=MIN_LENGTH,
        max_length=MAX_LENGTH,
        data=DATA,
        src_tokenizer=TOKENIZER,
        tgt_tokenizer=TOKENIZER,
        preset=Preset(sequence_model(d_model=64, n_heads=4, d_ff=256), training),
        mini_preset=Preset(
            sequence_model(d_model=64, n_heads=4, d_ff=128, n_encoder_layers=1, n_decoder_layers=1),
            TrainingConfig(
                steps=1000, batch_size=64, learning_rate=3e-3, warmup_steps=100, max_length=10, evaluate_every=50,
                evaluation_size=200, target_exact_match=0.995,
            ),
        ),
        rule=rule,
    )
