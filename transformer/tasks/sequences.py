"""What copy and reverse share: sequences of 32 symbols, drawn at random, and a rule for what is to be written.

Shape legend: B batch, S source length, T target length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from transformer.config import TransformerConfig
from transformer.tasks.base import Batch, Pair, Preset, Task, check_split, make_batch, split_of
from transformer.tokenizers import SPECIAL_TOKENS, SymbolTokenizer
from transformer.training_config import TrainingConfig

TOKENIZER = SymbolTokenizer(str(number) for number in range(32))
MIN_LENGTH, MAX_LENGTH = 1, 20
MOST_FEW = 4
MODEL_MAX_LEN = 64  # positions; more than the lengths trained for, so that the page can show what happens beyond
DATA = (
    "synthetic, so there is no licence: sequences drawn by a seeded generator, about half from all 32 symbols and half "
    "from 1 to 4 of them"
)
DRAWS_BEFORE_GIVING_UP = 2_000  # a short length has few sequences: after so many misses in a row all are known


@dataclass(frozen=True)
class SequenceTask(Task):
    """Write a sequence of symbols as ``rule`` says, e.g. backwards."""

    rule: Callable[[tuple], tuple]  # of ids or of symbols

    def pairs(self, split: str, n: int, seed: int, max_length: int | None = None) -> list[Pair]:
        """See ``Task.pairs``. Lengths come in turn (1, 2, 3 ...); one that has no more sequences drops out."""
        check_split(split)
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
        check_split(split)
        rows: list[tuple[int, ...]] = []
        while len(rows) < size:
            lengths = torch.randint(MIN_LENGTH, max_length + 1, (size,), generator=generator).tolist()
            drawn = self._draw(generator, size, max_length)
            cut = (tuple(ids[:length]) for ids, length in zip(drawn, lengths, strict=True))
            rows += [ids for ids in cut if self._is_in(split, ids)]
        rows = rows[:size]
        return make_batch(rows, [self.rule(ids) for ids in rows], self.src_tokenizer, self.tgt_tokenizer)

    def reference(self, text: str) -> str:
        """See ``Task.reference``: the rule knows the target of every text."""
        return self.tgt_tokenizer.join(self.rule(tuple(self.src_tokenizer.split(text))))

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
        """``n`` rows of ``length`` ids of symbols, special tokens excluded.

        About every other row is made of only 1 to 4 symbols. In rows of all 32 the same symbol seldom comes
        twice, so a network may look for content where it should look for a position; in these it may not.
        """
        first, end = len(SPECIAL_TOKENS), len(self.src_tokenizer)
        of_all = torch.randint(first, end, (n, length), generator=generator)
        few = torch.randint(first, end, (n, MOST_FEW), generator=generator)
        n_few = torch.randint(1, MOST_FEW + 1, (n, 1), generator=generator)
        of_few = few.gather(1, torch.randint(0, 12, (n, length), generator=generator) % n_few)  # 12: even for 1 to 4
        is_few = torch.rand(n, 1, generator=generator) < 0.5
        return torch.where(is_few, of_few, of_all).tolist()

    def _is_in(self, split: str, ids: tuple[int, ...]) -> bool:
        return split_of(" ".join(self.src_tokenizer.tokens(ids))) == split


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
        n_test=1_000,
        mini_preset=Preset(
            sequence_model(d_model=64, n_heads=4, d_ff=128),
            TrainingConfig(
                steps=800, batch_size=64, learning_rate=3e-3, warmup_steps=50, label_smoothing=0.1, max_length=8,
                evaluate_every=50, evaluation_size=200, target_exact_match=0.995,
            ),
        ),
        rule=rule,
    )
