"""Looking at a page: what is visible, and what is wrong with it. A check returns sentences; none when all is well."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from playwright.sync_api import Page

from browser.visit import TAB_NAMES, open_tab
from viz.tabs.language import STRINGS

_SCRIPT = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
# Words that show a value was missing. Sentences of our own may speak of them, so those are taken out first.
_MISSING = re.compile(r"\b(undefined|NaN|null|None)\b|\[object |\{[a-z_]+\}")
_HAN = re.compile(r"[\u3400-\u9fff]")
_ENGLISH_SENTENCE = re.compile(r"[A-Za-z]{2,}(?:[ ,'-]+[a-z]{2,}){3,}")
_SECTIONS = sorted({key.split(".")[0] for key in STRINGS["en"]})
_KEY = re.compile(rf"\b(?:{'|'.join(_SECTIONS)})\.[a-z]\w*\b")

# Words in both languages at once, to be found by all; and Gradio's own, which are in the browser's language.
NOT_OF_THE_PAGE = frozenset({"Language · 语言", "中文", "English", "Done", "完成", "Clear", "清除"})


def _look(page: Page, name: str) -> list | None:
    return page.evaluate(f"({_SCRIPT}).{name}()")


def scroll_through(page: Page) -> None:
    """Look at the page from top to bottom and come back: views are drawn when they come into sight."""
    _look(page, "scrollThrough")


def walk(page: Page, settle: Callable[[Page], None]) -> Iterator[str]:
    """Open one tab after the other, look at it from top to bottom, and hand over its name."""
    for tab in TAB_NAMES:
        open_tab(page, tab)
        settle(page)
        scroll_through(page)
        settle(page)
        yield tab


def visible_texts(page: Page) -> list[tuple[str, str, bool]]:
    """Every visible text, label and tool tip as (text, where, whether it is code)."""
    return [tuple(seen) for seen in _look(page, "visibleTexts")]


def too_wide(page: Page) -> list[str]:
    """What makes the page scroll sideways."""
    return _look(page, "tooWide")


def badly_sized(page: Page) -> list[str]:
    """Canvases and plots on show that have no size, are wider than their place, or were never drawn."""
    return _look(page, "badlySized")


def leaks(texts: list[tuple[str, str, bool]]) -> list[str]:
    """Keys in the place of words, placeholders that were not filled in, and names of nothing."""
    wrong = []
    for text, where, is_code in texts:
        if is_code or text in _SENTENCES:
            continue
        found = _MISSING.search(text) or _KEY.search(text)
        if found:
            wrong.append(f"{found.group(0)!r} in {text[:120]!r} at {where}")
    return wrong


def in_the_wrong_language(texts: list[tuple[str, str, bool]], language: str, theirs: frozenset[str]) -> list[str]:
    """Texts of the other language. ``theirs`` are words that belong to neither: the visitor's own, names."""
    other = "en" if language == "zh" else "zh"
    wrong = []
    for text, where, is_code in texts:
        if is_code or text in theirs:
            continue
        strange = _HAN.search(text) if language == "en" else _ENGLISH_SENTENCE.search(text)
        if strange or text in _ONLY[other]:
            wrong.append(f"{text[:120]!r} at {where}")
    return wrong


_SENTENCES = frozenset(text for words in STRINGS.values() for text in words.values() if "{" not in text)
# Words that exist in one language only: "CPU" and "Q·K" are the same in both.
_ONLY = {
    language: frozenset(STRINGS[language].values()) - frozenset(STRINGS["zh" if language == "en" else "en"].values())
    for language in STRINGS
}
