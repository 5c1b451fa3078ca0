"""Text to token ids and back. What a vocabulary does not know stays visible as what was typed.

One class a way of cutting text: by white space (``SymbolTokenizer``), into words and punctuation
(``WordTokenizer``), into characters (``CharacterTokenizer``). All else they share.
"""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

PAD, BOS, EOS, UNK = "<pad>", "<bos>", "<eos>", "<unk>"
SPECIAL_TOKENS = (PAD, BOS, EOS, UNK)


@dataclass(frozen=True)
class Encoded:
    """A tokenized text: ids, the token each id names, and the piece of the text each stands for.

    A piece differs from its token where the token is ``<unk>``, or where the tokenizer writes it another way
    (``Tom`` as ``tom``).
    """

    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    pieces: tuple[str, ...]


class Tokenizer(ABC):
    """A vocabulary and a way of cutting text into pieces, one token each.

    The four special tokens come first, so pad_id, bos_id, eos_id and unk_id are the same for every task.
    """

    kind: str
    pad_id, bos_id, eos_id, unk_id = range(4)

    def __init__(self, symbols: Iterable[str]) -> None:
        self.symbols = tuple(symbols)
        self.vocabulary = SPECIAL_TOKENS + self.symbols
        self._id_of = {token: token_id for token_id, token in enumerate(self.vocabulary)}
        if len(self._id_of) != len(self.vocabulary):
            raise ValueError("a vocabulary must not hold a token twice")

    @abstractmethod
    def split(self, text: str) -> list[str]:
        """The pieces of ``text``, in reading order, as typed."""

    @abstractmethod
    def join(self, tokens: Sequence[str]) -> str:
        """The text that tokens (no special ones but ``<unk>``) stand for."""

    def written(self, piece: str) -> str:
        """The token that stands for ``piece``, if the vocabulary has it."""
        return piece

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> Encoded:
        """Tokens of ``text``. A typed special token, like any unknown piece, is ``<unk>``: text cannot forge one."""
        pieces = tuple(self.split(text))
        tokens = tuple(self.written(piece) for piece in pieces)
        ids = tuple(
            self.unk_id if token in SPECIAL_TOKENS else self._id_of.get(token, self.unk_id) for token in tokens
        )
        return Encoded(ids, tuple(self.vocabulary[token_id] for token_id in ids), pieces)

    def tokens(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The token each id names, special ones included."""
        return tuple(self.vocabulary[token_id] for token_id in ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ``ids`` up to ``<eos>``; padding and ``<bos>`` are left out, ``<unk>`` is shown."""
        written = []
        for token_id in ids:
            if token_id == self.eos_id:
                break
            if token_id not in (self.pad_id, self.bos_id):
                written.append(self.vocabulary[token_id])
        return self.join(written)

    def to_dict(self) -> dict:
        """A plain dict, ready for JSON; ``tokenizer_from_dict`` reads it."""
        return {"kind": self.kind, "symbols": list(self.symbols)}


class SymbolTokenizer(Tokenizer):
    """Pieces separated by white space: the tokenizer of copy and reverse."""

    kind = "symbols"

    def split(self, text: str) -> list[str]:
        return text.split()

    def join(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)


class WordTokenizer(Tokenizer):
    """Words (the apostrophe of ``don't`` included), numbers like ``2:30``, and single punctuation marks."""

    kind = "words"
    _PIECE = re.compile(r"\d+(?:[.,:]\d+)+|\w+(?:['’]\w+)*['’]?|[^\w\s]")
    _CLOSING = frozenset(".,!?;:%)“”’…")  # “ closes in German, the one language whose words are joined here
    _OPENING = frozenset("(„$")

    def split(self, text: str) -> list[str]:
        return self._PIECE.findall(unicodedata.normalize("NFC", text))

    def join(self, tokens: Sequence[str]) -> str:
        """Words with a space between them; punctuation stands close to the word it belongs to."""
        text = ""
        for i, token in enumerate(tokens):
            is_close = i == 0 or token in self._CLOSING or tokens[i - 1] in self._OPENING
            text += token if is_close else f" {token}"
        return text


class LowerCaseWordTokenizer(WordTokenizer):
    """The same, with every letter in lower case and one kind of apostrophe."""

    kind = "lower-case words"

    def written(self, piece: str) -> str:
        return piece.lower().replace("’", "'")


class CharacterTokenizer(Tokenizer):
    """Single characters as a reader counts them (an accent or a joined emoji is no character of its own).

    White space separates and is dropped: Chinese is written without it.
    """

    kind = "characters"
    keeps_spaces = False

    def split(self, text: str) -> list[str]:
        pieces: list[str] = []
        joins = False
        for character in unicodedata.normalize("NFC", text):
            extends = unicodedata.category(character) in ("Mn", "Me", "Mc") or "\U0001f3fb" <= character <= "\U0001f3ff"
            if pieces and (joins or extends or character == "\u200d"):
                pieces[-1] += character
            elif character.isspace():
                if self.keeps_spaces and pieces and pieces[-1] != " ":
                    pieces.append(" ")
            else:
                pieces.append(character)
            joins = character == "\u200d"
        return pieces[:-1] if pieces and pieces[-1] == " " else pieces

    def join(self, tokens: Sequence[str]) -> str:
        return "".join(tokens)


class LowerCaseCharacterTokenizer(CharacterTokenizer):
    """The same in lower case, with each run of white space kept as one space between other characters."""

    kind = "lower-case characters and spaces"
    keeps_spaces = True

    def written(self, piece: str) -> str:
        return piece.lower()


TOKENIZERS = {
    tokenizer.kind: tokenizer
    for tokenizer in (
        SymbolTokenizer, WordTokenizer, LowerCaseWordTokenizer, CharacterTokenizer, LowerCaseCharacterTokenizer
    )
}


def fitted(tokenizer: type[Tokenizer], texts: Iterable[str], fewest: int = 1) -> Tokenizer:
    """A tokenizer whose vocabulary is every token seen at least ``fewest`` times in ``texts``, the commonest first."""
    blank = tokenizer(())
    counts = Counter(blank.written(piece) for text in texts for piece in blank.split(text))
    kept = [token for token, count in counts.items() if count >= fewest and token not in SPECIAL_TOKENS]
    return tokenizer(sorted(kept, key=lambda token: (-counts[token], token)))


def tokenizer_from_dict(values: dict) -> Tokenizer:
    """The tokenizer a dict of ``to_dict`` describes. Raises ValueError when it describes none."""
    kind = values.get("kind") if isinstance(values, dict) else None
    if not isinstance(kind, str) or kind not in TOKENIZERS:
        raise ValueError(f"unknown kind of tokenizer {kind!r}, expected one of {', '.join(TOKENIZERS)}")
    symbols = values.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) and symbol for symbol in symbols):
        raise ValueError("the vocabulary must be a list of non-empty texts")
    return TOKENIZERS[kind](symbols)
