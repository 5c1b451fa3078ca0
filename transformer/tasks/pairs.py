"""Sentence pairs from tab-separated text: a file on disk, or what was pasted into the page.

Two formats are read: a header line that names the columns, and a headless one, source and target first. Files to
train on name ``split``, ``en`` and a target (``zh``, ``de``) or are headless as manythings.org publishes them (English,
target, attribution). A visitor's own pairs may also be nothing but a source, a tab and a target, for any task.
"""

from __future__ import annotations

import codecs
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from transformer.errors import InputError
from transformer.tasks.base import SPLITS, Pair, split_of

FOLDER_VARIABLE = "GLASSFORMER_DATA"
MAX_LINE_LENGTH = 2_000  # characters; a longer line is no everyday sentence
MOST_OWN_PAIRS = 200
MOST_OWN_LINES = 1_000  # looked at in search of them
LONGEST_OWN_SIDE = 256  # characters
LARGEST_OWN_TEXT = 1_000_000  # bytes of a file, characters of what was pasted
MOST_CELLS = 3  # of a headless line: source, target, attribution


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
    lines = _lines(text)
    columns, has_header = _columns(lines[0], "en", target)
    if columns is None:
        raise InputError("pairs_columns", path=name, target=target)
    found: dict[str, list[Pair]] = {split: [] for split in SPLITS}
    n_skipped = 0
    for line in filter(str.strip, lines[has_header:]):
        cells = [cell.strip() for cell in line.split("\t")]
        if len(line) > MAX_LINE_LENGTH or len(cells) <= max(columns.values()):
            n_skipped += 1
            continue
        english, translation = cells[columns["source"]], cells[columns["target"]]
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


def _lines(text: str) -> list[str]:
    """Only a line feed ends a line: what Unicode calls line breaks may stand inside a sentence."""
    return [line.rstrip("\r") for line in text.removeprefix("\ufeff").split("\n")]


def _columns(first_line: str, source: str, target: str) -> tuple[dict[str, int] | None, bool]:
    """Where source, target and, where there is one, split stand, and whether the first line said so.

    None in place of the columns: the line is a header, but names other languages.
    """
    header = [cell.strip() for cell in first_line.split("\t")]
    if source not in header and "split" not in header:
        return {"source": 0, "target": 1}, False
    if not {source, target} <= set(header):
        return None, True
    columns = {"source": header.index(source), "target": header.index(target)}
    return ({**columns, "split": header.index("split")} if "split" in header else columns), True


@dataclass(frozen=True)
class OwnPairs:
    """A visitor's own pairs, and how many lines were left out for which reason."""

    pairs: tuple[Pair, ...]
    n_lines: int  # that were looked at and are not blank; a header is none
    n_columns: int  # skipped: no tab in it, or too many cells
    n_empty: int  # skipped: nothing on one side
    n_long: int  # skipped: more than LONGEST_OWN_SIDE characters on one side
    is_cut: bool  # more pairs or more text came than are taken

    @property
    def n_skipped(self) -> int:
        """How many lines were left out as no pairs."""
        return self.n_columns + self.n_empty + self.n_long


def parse_own_pairs(text: str, source: str = "source", target: str = "target") -> OwnPairs:
    """The pairs of a pasted text: at most MOST_OWN_PAIRS, from at most MOST_OWN_LINES lines; the rest is cut.

    A first line that names ``source`` and ``target`` ("en" and "zh"; the words "source" and "target" do for every
    task) says where they stand; of any other text they are the first two of two or three cells. Raises InputError
    when there is no text or no pair in it.
    """
    lines = [line for line in _lines(text[:LARGEST_OWN_TEXT]) if line.strip()]
    if not lines:
        raise InputError("own_pairs_empty")
    found = [_columns(lines[0], *names) for names in ((source, target), ("source", "target"))]
    columns, has_header = max(found, key=lambda answer: (answer[0] is not None and answer[1], answer[1]))
    if columns is None:
        raise InputError("own_pairs_header", source=source, target=target)
    is_cut = len(text) > LARGEST_OWN_TEXT or len(lines) > MOST_OWN_LINES + has_header
    fewest = max(columns["source"], columns["target"]) + 1
    most = len(lines[0].split("\t")) if has_header else MOST_CELLS
    pairs: list[Pair] = []
    n_lines = n_columns = n_empty = n_long = 0
    for line in lines[has_header : MOST_OWN_LINES + has_header]:
        if len(pairs) == MOST_OWN_PAIRS:
            is_cut = True
            break
        n_lines += 1
        cells = [cell.strip() for cell in line.split("\t")]
        if not fewest <= len(cells) <= most:
            n_columns += 1
            continue
        pair = cells[columns["source"]], cells[columns["target"]]
        if not all(pair):
            n_empty += 1
        elif max(map(len, pair)) > LONGEST_OWN_SIDE:
            n_long += 1
        else:
            pairs.append(pair)
    if not pairs:
        raise InputError("own_pairs_none", n=n_lines, columns=n_columns, empty=n_empty, long=n_long)
    return OwnPairs(tuple(pairs), n_lines, n_columns, n_empty, n_long, is_cut)


def read_own_text(path: Path | str, name: str) -> tuple[str, bool]:
    """The text of a visitor's file, called ``name`` in what is said of it, and whether some of it was left out.

    No more is read than can be taken, in whole lines. UTF-8, or UTF-16 with its mark of byte order, as spreadsheets
    save it. Raises InputError for anything else.
    """
    try:
        with Path(path).open("rb") as file:
            raw = file.read(LARGEST_OWN_TEXT + 1)
    except OSError:
        raise InputError("own_pairs_file", name=name) from None
    is_utf_16 = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if b"\0" in raw and not is_utf_16:
        raise InputError("own_pairs_binary", name=name)
    is_cut = len(raw) > LARGEST_OWN_TEXT
    if is_cut and not is_utf_16:
        raw = raw[: raw.rfind(b"\n") + 1] or raw  # a character may have been cut in two
    try:
        text = codecs.getincrementaldecoder("utf-16" if is_utf_16 else "utf-8-sig")().decode(raw, not is_cut)
    except UnicodeDecodeError:
        raise InputError("own_pairs_encoding", name=name) from None
    if "\0" in text:
        raise InputError("own_pairs_binary", name=name)
    lines = [line for line in text.split("\n") if line.strip()]
    # One line more than is looked at: who reads the text then sees that there was more.
    return "\n".join(lines[: MOST_OWN_LINES + 2]), is_cut or len(lines) > MOST_OWN_LINES + 2


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
