"""What a task is: where its pairs of texts come from, how they are tokenized, and how it is usually trained.

Shape legend: B batch, S source length, T target length.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from transformer.config import TransformerConfig
from transformer.errors import InputError
from transformer.metrics import Written, exact_match
from transformer.tokenizers import Tokenizer
from transformer.training_config import TrainingConfig

SPLITS = ("train", "valid", "test")
Pair = tuple[str, str]  # source text, target text


class Batch(NamedTuple):
    """Token ids of some pairs. Shorter rows end in padding.

    ``tgt_in`` is what the decoder reads and ``tgt_out`` what it has to write at the same positions: the target
    moved by one, so that each token is predicted from the true tokens before it (teacher forcing).
    """

    src: Tensor  # [B, S] the source, then <eos>
    tgt_in: Tensor  # [B, T] <bos>, then the target
    tgt_out: Tensor  # [B, T] the target, then <eos>

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on ``device``."""
        return Batch(*(ids.to(device) for ids in self))


@dataclass(frozen=True)
class Preset:
    """The sizes of a network, how it is trained, and the numbers its weights are stored as."""

    model: TransformerConfig
    training: TrainingConfig
    stored_as: torch.dtype = torch.float32


@dataclass(frozen=True)
class Task(ABC):
    """A task by its name. ``preset`` makes the shipped checkpoint, ``mini_preset`` is the page's training."""

    name: str
    metric: str  # the name of the number that judges it
    examples: tuple[str, ...]  # source texts for the page, the first is shown on arrival
    min_length: int  # symbols; lengths the shipped checkpoint is trained for
    max_length: int
    data: str  # where the pairs come from, and their licence
    src_tokenizer: Tokenizer
    tgt_tokenizer: Tokenizer
    preset: Preset
    n_test: int  # unseen pairs that the stated metric is measured on
    mini_preset: Preset | None  # None: too much to learn while someone watches

    @abstractmethod
    def pairs(self, split: str, n: int, seed: int, max_length: int | None = None) -> list[Pair]:
        """At most ``n`` different pairs of a split, every length up to ``max_length`` equally often if it can be.

        The same arguments always give the same pairs, and the first pairs do not depend on ``n``.
        ``max_length`` is the task's own unless given. Fewer than ``n`` come back when there are no more.
        """

    @abstractmethod
    def batch(self, generator: torch.Generator, size: int, max_length: int, split: str = "train") -> Batch:
        """``size`` pairs drawn at random from a split, as token ids."""

    def with_pairs(self, path: Path | None) -> Task:
        """The task with the pairs of a file, where it does not draw its own.

        Raises InputError when a file is given that it has no use for, or is wanted and not to be found.
        """
        if path is not None:
            raise InputError("pairs_unwanted", name=self.name)
        return self

    def with_fitted_vocabularies(self) -> Task:
        """The task ready for a new training: with the vocabularies of its training pairs, where they are not fixed."""
        return self

    def with_vocabularies(self, src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer) -> Task:
        """The task with the vocabularies of a checkpoint, in which a file's pairs are then encoded."""
        return replace(self, src_tokenizer=src_tokenizer, tgt_tokenizer=tgt_tokenizer)

    def scores(self, results: Sequence[Written]) -> dict[str, float]:
        """Every number that says how good the results are, ``metric`` among them."""
        return {"exact_match": exact_match(results)}

    def reference(self, text: str) -> str:
        """What should be written for ``text``, where the task knows it; otherwise an empty text."""
        return ""

    @property
    def n_skipped(self) -> int:
        """How many lines of a file of pairs could not be used."""
        return 0

    def test_split(self, trained_on: dict) -> str:
        """The split whose pairs a model has never seen; ``trained_on`` is the meta of its checkpoint."""
        return "test"

    def facts(self) -> dict:
        """What a checkpoint's meta says of the pairs it was trained on."""
        return {"data": self.data}

    def most_steps(self, batch: Batch) -> int:
        """How many tokens a model may write for a batch: two more than the longest target has.

        By then a row without ``<eos>`` is wrong anyway, where only exact matches count.
        """
        return batch.tgt_out.shape[1] + 2

    def encode(self, pairs: Sequence[Pair]) -> Batch:
        """The token ids of some pairs, as a batch on the CPU."""
        return make_batch(
            [self.src_tokenizer.encode(source).ids for source, _ in pairs],
            [self.tgt_tokenizer.encode(target).ids for _, target in pairs],
            self.src_tokenizer,
            self.tgt_tokenizer,
        )


def make_batch(
    src_rows: Sequence[Sequence[int]],
    tgt_rows: Sequence[Sequence[int]],
    src_tokenizer: Tokenizer,
    tgt_tokenizer: Tokenizer,
) -> Batch:
    """Add ``<bos>`` and ``<eos>`` to rows of ids and pad each side to its longest row."""
    bos_id, eos_id = tgt_tokenizer.bos_id, tgt_tokenizer.eos_id
    return Batch(
        src=_padded([(*row, src_tokenizer.eos_id) for row in src_rows], src_tokenizer.pad_id),
        tgt_in=_padded([(bos_id, *row) for row in tgt_rows], tgt_tokenizer.pad_id),
        tgt_out=_padded([(*row, eos_id) for row in tgt_rows], tgt_tokenizer.pad_id),
    )


def _padded(rows: Sequence[tuple[int, ...]], pad_id: int) -> Tensor:
    width = max(map(len, rows))
    return torch.from_numpy(np.array([row + (pad_id,) * (width - len(row)) for row in rows]))


def check_split(split: str) -> None:
    """Raise ValueError for anything but train, valid and test."""
    if split not in SPLITS:
        raise ValueError(f"there is no split {split!r}, expected one of {', '.join(SPLITS)}")


def split_of(text: str) -> str:
    """The split a source text belongs to, on every machine and for ever: 8 in 10 train, 1 valid, 1 test.

    It follows from a hash of the text alone, so no text can be in two splits, however it was drawn.
    """
    tenth = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") % 10
    return "test" if tenth == 0 else "valid" if tenth == 1 else "train"
