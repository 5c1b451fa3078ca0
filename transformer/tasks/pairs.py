"""Sentence pairs from tab-separated text: a file on disk, or what was pasted into the page.

Two formats are read: a header line with the columns ``split``, ``en`` and a target (``zh``, ``de``), and the
headless one that manythings.org publishes (English, target, attribution).
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from transformer.errors import InputError
from transformer.tasks.base import SPLITS, Pair, split_of

FOLDER_VARIABLE = "GLASSFORMER_DATA"
MAX_LINE_LENGTH = 2_000  # characters; a longer line is no everyday sentence


@dataclass(frozen=True)
class Pairs:
    """What a text held: the pairs of each split, and how many lines were left out.

    ``has_split_column`` is False where the splits follow from a hash; ``sha256`` tells one text from another.
    """

    splits: dict[str, tuple[Pair, ...]]
    n_skipped: int  # lines with an empty side, an unknown split, too few cells, or too long
    has_split_column: bool
    sha256: str

    @property
    def all(self) -> tuple[Pair, ...]:
        """The pairs of every split."""
        return tuple(pair for split in SPLITS for pair in self.splits[split])


def parse_pairs(text: str, target: str, name: str = "text") -> Pairs:
    """The pairs of a text, target language ``target`` ("zh", "de").

    A line with an empty side is skipped and counted. Without a ``split`` column the split follows from a hash of
    the English side. Raises InputError, calling the text ``name``, when it holds no pairs.
    """
    lines = [line.rstrip("\r") for line in text.removeprefix("\ufeff").split("\n")]
    header = [cell.strip() for cell in lines[0].split("\t")]
    has_header = "en" in header or "split" in header
    if has_header and not {"en", target} <= set(header):
        raise InputError("pairs_columns", path=name, target=target)
    columns = {"en": 0, target: 1}
    if has_header:
        columns = {column: header.index(column) for column in ("split", "en", target) if column in header}
    found: dict[str, list[Pair]] = {split: [] for split in SPLITS}
    n_skipped = 0
    for line in filter(str.strip, lines[has_header:]):
        cells = [cell.strip() for cell in line.split("\t")]
        if len(line) > MAX_LINE_LENGTH or len(cells) <= max(columns.values()):
            n_skipped += 1
            continue
        english, translation = cells[columns["en"]], cells[columns[target]]
        split = cells[columns["split"]] if "split" in columns else split_of(english)
        if english and translation and split in SPLITS:
            found[split].append((english, translation))
        else:
            n_skipped += 1
    if not any(found.values()):
        raise InputError("pairs_columns", path=name, target=target)
    return Pairs(
        {split: tuple(pairs) for split, pairs in found.items()},
        n_skipped,
        "split" in columns,
        hashlib.sha256(text.encode()).hexdigest(),
    )


def read_pairs(path: Path | str, target: str) -> Pairs:
    """The pairs of a file, see ``parse_pairs``. Raises InputError also for a file that cannot be read."""
    try:
        # Not by text mode: it would also end lines at a lone carriage return, and the hash is of what is there.
        text = Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("pairs_encoding", path=path) from None
    except OSError:
        raise InputError("pairs_missing", path=path) from None
    return parse_pairs(text, target, str(path))


def find_pairs_file(name: str, given: Path | None = None) -> Path:
    """Where the pairs are: ``given``, or ``name`` in the folder GLASSFORMER_DATA. Raises InputError when nowhere."""
    if given is not None:
        return given
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder or not (Path(folder) / name).is_file():
        raise InputError("pairs_wanted", name=name, variable=FOLDER_VARIABLE)
    return Path(folder) / name
