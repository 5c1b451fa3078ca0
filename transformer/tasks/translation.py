"""Everyday English into Chinese characters or German words, learnt from a file of sentence pairs.

The sentences are not part of the project. A task becomes usable for evaluation by ``with_pairs``, which
reads a file, and for training by ``with_fitted_vocabularies``; to decode, the vocabularies of a checkpoint are enough.

Shape legend: B batch, S source length, T target length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from transformer.errors import InputError
from transformer.metrics import Written, translation_scores
from transformer.tasks.base import Batch, Pair, Task, check_split, make_batch
from transformer.tasks.pairs import FOLDER_VARIABLE, Pairs, find_pairs_file, read_pairs
from transformer.tokenizers import LowerCaseWordTokenizer, Tokenizer, fitted

IdPair = tuple[tuple[int, ...], tuple[int, ...]]
MAX_LENGTH = 24  # tokens of a side; longer pairs are left out of training
WINDOW = 8  # a batch is taken from so many batches' worth of pairs, sorted by length
BARE_SHARE = 0.15  # of the training pairs come without their final mark, since people often type without it
LESSON_COPIES = 10
CLOSING_MARKS = ".!?。！？"
LICENCE = "Sentences from tatoeba.org (CC BY 2.0 FR) by way of manythings.org/anki, modified"


@dataclass(frozen=True)
class TranslationTask(Task):
    """Translate from English. ``lesson`` are pairs every beginner meets: trained on beside those of the file.

    ``references`` are further translations that the page offers for comparison; nothing is trained on them.
    """

    target: str  # the column of the file: "zh" or "de"
    file_name: str
    tgt_tokenizer_class: type[Tokenizer]
    fewest: int  # a target token seen less often than this in training is <unk>
    sacrebleu_tokenizer: str
    lesson: tuple[Pair, ...]
    references: tuple[Pair, ...] = ()
    file: Pairs | None = None
    _rows: dict = field(init=False, default_factory=dict, repr=False, compare=False)

    def with_pairs(self, path: Path | None) -> TranslationTask:
        """See ``Task.with_pairs``: those of a file, or of the one in the folder GLASSFORMER_DATA."""
        return replace(self, file=read_pairs(find_pairs_file(self.file_name, path), self.target))

    def with_fitted_vocabularies(self) -> TranslationTask:
        """See ``Task.with_fitted_vocabularies``: every English word, and what is written often enough."""
        train = (*self._of_split("train"), *self.lesson)
        src_tokenizer = fitted(LowerCaseWordTokenizer, (english for english, _ in train))
        tgt_tokenizer = fitted(self.tgt_tokenizer_class, (text for _, text in train), self.fewest)
        sizes = {"src_vocab_size": len(src_tokenizer), "tgt_vocab_size": len(tgt_tokenizer)}
        return replace(
            self,
            src_tokenizer=src_tokenizer,
            tgt_tokenizer=tgt_tokenizer,
            preset=replace(self.preset, model=replace(self.preset.model, **sizes)),
        )

    def pairs(self, split: str, n: int, seed: int, max_length: int | None = None) -> list[Pair]:
        """See ``Task.pairs``: ``n`` pairs of a split in the order of the file, evenly spread over it.

        The split ``all`` is every pair of the file.
        """
        pairs = self._of_split(split)
        places = torch.linspace(0, len(pairs) - 1, min(n, len(pairs))).round().long().unique().tolist()
        return [pairs[place] for place in places]

    def batch(self, generator: torch.Generator, size: int, max_length: int, split: str = "train") -> Batch:
        """See ``Task.batch``. The pairs of a batch are of about one length, so that little of it is padding."""
        rows = self._encoded(split, max_length)
        drawn = torch.randint(len(rows), (WINDOW * size,), generator=generator).tolist()
        is_bare = (torch.rand(WINDOW * size, generator=generator) < BARE_SHARE).tolist()
        window = sorted(
            (rows[place][bare] for place, bare in zip(drawn, is_bare, strict=True)),
            key=lambda pair: (len(pair[1]), len(pair[0])),
        )
        start = int(torch.randint(WINDOW, (1,), generator=generator)) * size
        src_rows, tgt_rows = zip(*window[start : start + size], strict=True)
        return make_batch(src_rows, tgt_rows, self.src_tokenizer, self.tgt_tokenizer)

    def most_steps(self, batch: Batch) -> int:
        """See ``Task.most_steps``: far more than a translation needs, and nothing that the targets could give away."""
        return 2 * batch.src.shape[1] + 10

    def scores(self, results: Sequence[Written]) -> dict[str, float]:
        """See ``Task.scores``: BLEU and chrF of sacrebleu (0 to 100), and the share of exact matches."""
        return {**translation_scores(results, self.sacrebleu_tokenizer), **super().scores(results)}

    def reference(self, text: str) -> str:
        """See ``Task.reference``: a translation for the examples and the lesson, in whatever case they are typed."""
        wanted = _bare(text.strip()).lower()
        known = {_bare(english).lower(): translation for english, translation in (*self.lesson, *self.references)}
        return known.get(wanted, "")

    def facts(self) -> dict:
        """See ``Task.facts``: also which file it was, and how much of it was used."""
        if self.file is None:
            return super().facts()
        counts = {split: len(pairs) for split, pairs in self.file.splits.items()}
        return {**super().facts(), "pairs": counts, "pairs_sha256": self.file.sha256}

    @property
    def n_skipped(self) -> int:
        """See ``Task.n_skipped``."""
        return 0 if self.file is None else self.file.n_skipped

    def test_split(self, trained_on: dict) -> str:
        """See ``Task.test_split``: a foreign file that names no splits is all unseen."""
        is_foreign = self.file is not None and trained_on.get("pairs_sha256") != self.file.sha256
        return "all" if is_foreign and not self.file.has_split_column else "test"

    def _of_split(self, split: str) -> tuple[Pair, ...]:
        if self.file is None:
            raise InputError("pairs_wanted", name=self.file_name, variable=FOLDER_VARIABLE)
        if split == "all":
            return self.file.all
        check_split(split)
        return self.file.splits[split]

    def _encoded(self, split: str, max_length: int) -> list[tuple[IdPair, IdPair]]:
        """Each pair as ids, as it stands and without its closing mark; the lesson stands among them ten times."""
        if (split, max_length) not in self._rows:
            pairs = (*self._of_split(split), *(self.lesson * LESSON_COPIES if split == "train" else ()))
            encoded = [(self._ids(pair), self._ids(tuple(map(_bare, pair)))) for pair in pairs]
            self._rows[split, max_length] = [
                (full, bare if all(bare) else full)
                for full, bare in encoded
                if max(map(len, full)) <= max_length
            ]
        return self._rows[split, max_length]

    def _ids(self, pair: Pair) -> IdPair:
        return self.src_tokenizer.encode(pair[0]).ids, self.tgt_tokenizer.encode(pair[1]).ids


def _bare(text: str) -> str:
    return text.rstrip(CLOSING_MARKS)


def translation_task(name: str, **facts: object) -> TranslationTask:
    """A task whose vocabularies are still empty: ``with_pairs`` fits them, or those of a checkpoint are used."""
    tgt_tokenizer_class = facts["tgt_tokenizer_class"]
    return TranslationTask(
        name=name,
        metric="bleu",
        min_length=1,
        max_length=MAX_LENGTH,
        data=LICENCE,
        src_tokenizer=LowerCaseWordTokenizer(()),
        tgt_tokenizer=tgt_tokenizer_class(()),
        n_test=100_000,  # the whole split
        mini_preset=None,
        **facts,
    )
