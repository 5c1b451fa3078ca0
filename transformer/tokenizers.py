"""Text to token ids and back. What a vocabulary does not know stays visible as what was typed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

PAD, BOS, EOS, UNK = "<pad>", "<bos>", "<eos>", "<unk>"
SPECIAL_TOKENS = (PAD, BOS, EOS, UNK)


@dataclass(frozen=True)
class Encoded:
    """A tokenized text: ids, the token each id names, and the piece of the text each stands for.

    The piece differs from the token only where the token is ``<unk>``.
    """

    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    pieces: tuple[str, ...]


class SymbolTokenizer:
    """Pieces separated by white space, one token each: the tokenizer of copy and reverse.

    The four special tokens come first, so pad_id, bos_id, eos_id and unk_id are the same for every task.
    """

    kind = "symbols"
    pad_id, bos_id, eos_id, unk_id = range(4)

    def __init__(self, symbols: Iterable[str]) -> None:
        self.symbols = tuple(symbols)
        self.vocabulary = SPECIAL_TOKENS + self.symbols
        self._id_of = {token: token_id for token_id, token in enumerate(self.vocabulary)}
        if len(self._id_of) != len(self.vocabulary):
            raise ValueError("a vocabulary must not hold a token twice")

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> Encoded:
        """Tokens of ``text``. A typed special token, like any unknown piece, is ``<unk>``: text cannot forge one."""
        pieces = tuple(text.split())
        special = set(SPECIAL_TOKENS)
        ids = tuple(self.unk_id if piece in special else self._id_of.get(piece, self.unk_id) for piece in pieces)
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
        return " ".join(written)

    def to_dict(self) -> dict:
        return {"kind": self.kind, "symbols": list(self.symbols)}


TOKENIZERS = {tokenizer.kind: tokenizer for tokenizer in (SymbolTokenizer,)}


def tokenizer_from_dict(values: dict) -> SymbolTokenizer:
    """The tokenizer a dict of ``to_dict`` describes. Raises ValueError when it describes none."""
    kind = values.get("kind") if isinstance(values, dict) else None
    if not isinstance(kind, str) or kind not in TOKENIZERS:
        raise ValueError(f"unknown kind of tokenizer {kind!r}, expected one of {', '.join(TOKENIZERS)}")
    symbols = values.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) and symbol for symbol in symbols):
        raise ValueError("the vocabulary must be a list of non-empty texts")
    return TOKENIZERS[kind](symbols)
