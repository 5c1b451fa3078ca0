"""Sentence pairs from a tab-separated file: reading it, splitting it, and drawing batches of one length or so.

Two formats are read: a header line with the columns ``split``, ``en`` and a target (``zh``, ``de``), and the
headless one that manythings.org publishes (English, target, attribution).

Shape legend: B batch, S source length, T target length.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from transformer.errors import InputError
from transformer.tasks.base import SPLITS, Pair, split_of

FOLDER_VARIABLE = "GLASSFORMER_DATA"
MAX_LINE_LENGTH = 2_000  # characters; a longer line is no everyday sentence


@dataclass(frozen=True)
class PairsFile:
    """What a file held: the pairs of each split, and how many lines were left out."""

    splits: dict[str, tuple[Pair, ...]]
    n_skipped: int  # lines with an empty side, or too long


def read_pairs(path: Path | str, target: str) -> PairsFile:
    """The pairs of a file, target language ``target`` ("zh", "de").

    A line with an empty side is skipped and counted. Without a ``split`` column the split follows from a hash of
    the English side. Raises InputError for a file that cannot be read or has other columns.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InputError("pairs_encoding", path=path) from None
    except OSError:
        raise InputError("pairs_missing", path=path) from None
    header = lines[0].split("\t") if lines else []
    if {"en", target} <= set(header):
        columns = {name: header.index(name) for name in ("split", "en", target) if name in header}
        rows = lines[1:]
    else:
        columns, rows = {"en": 0, target: 1}, lines
    found: dict[str, list[Pair]] = {split: [] for split in SPLITS}
    n_skipped = 0
    for line in rows:
        cells = line.split("\t")
        if len(line) > MAX_LINE_LENGTH or len(cells) <= max(columns.values()):
            n_skipped += 1
            continue
        english, translation = cells[columns["en"]].strip(), cells[columns[target]].strip()
        split = cells[columns["split"]].strip() if "split" in columns else split_of(english)
        if not english or not translation or split not in SPLITS:
            n_skipped += 1
        else:
            found[split].append((english, translation))
    if not any(found.values()):
        raise InputError("pairs_columns", path=path, target=target)
    return PairsFile({split: tuple(pairs) for split, pairs in found.items()}, n_skipped)


def find_pairs_file(name: str, given: Path | None = None) -> Path:
    """Where the pairs are: ``given``, or ``name`` in the folder GLASSFORMER_DATA. Raises InputError when nowhere."""
    if given is not None:
        return given
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder or not (Path(folder) / name).is_file():
        raise InputError("pairs_wanted", name=name, variable=FOLDER_VARIABLE)
    return Path(folder) / name
