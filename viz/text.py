"""Tokens as people can see them: nothing blank, nothing taken for markup, nothing merged."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Sequence

UNKNOWN = "<unk>"
_NAMED_GLYPHS = {" ": "␣", "\t": "⇥", "\n": "⏎", "\r": "␍", "\u00a0": "⍽", "\u3000": "□"}


def visible(text: str) -> str:
    """``text`` with every character that draws nothing replaced by a glyph that does.

    Spaces, tabs and line ends get their usual sign, other invisible ones their code point, e.g. ``⟨200B⟩``.
    A joiner inside an emoji and an accent on its letter are left alone: there they do show.
    """
    if not text:
        return "∅"
    shown = []
    for i, character in enumerate(text):
        category = unicodedata.category(character)
        joins_an_emoji = (
            character == "\u200d"
            and 0 < i < len(text) - 1
            and all(unicodedata.category(neighbour) in ("So", "Sk", "Mn") for neighbour in (text[i - 1], text[i + 1]))
        )
        if character in _NAMED_GLYPHS:
            shown.append(_NAMED_GLYPHS[character])
        elif joins_an_emoji:
            shown.append(character)
        elif category in ("Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp", "Zs"):
            shown.append(f"⟨{ord(character):04X}⟩")
        elif category == "Mn" and i == 0 and character != "\ufe0f":
            shown.append("◌" + character)
        else:
            shown.append(character)
    return "".join(shown)


def token_label(token: str, piece: str | None = None) -> str:
    """What stands for one token: the token itself, and for an unknown one also what was typed.

    A piece may differ from a known token too (``Tom`` is read as ``tom``); what the model reads is shown.
    """
    if piece is None or piece == token or token != UNKNOWN:
        return visible(token)
    return f"{visible(token)} {visible(piece)}"


def token_labels(tokens: Sequence[str], pieces: Sequence[str] | None = None) -> list[str]:
    """One label a token. Raises ValueError when the two lists differ in length."""
    if pieces is not None and len(pieces) != len(tokens):
        raise ValueError(f"expected one piece a token, got {len(pieces)} pieces and {len(tokens)} tokens")
    return [token_label(token, pieces[i] if pieces is not None else None) for i, token in enumerate(tokens)]


def escaped(text: str) -> str:
    """``text`` for HTML, also inside an attribute."""
    return html.escape(text, quote=True)


def plotly_text(text: str) -> str:
    """``text`` for Plotly's labels and hover texts, which read ``<b>`` and ``&amp;`` as markup but not ``&quot;``."""
    return html.escape(text, quote=False)
