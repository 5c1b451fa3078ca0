"""Every word a visitor reads, in English and Chinese, and the switch between the two.

The words live in ``assets/strings/<language>/<section>.json``; a key is ``section.name``.
"""

from __future__ import annotations

import json
from pathlib import Path

import gradio as gr

from transformer.errors import InputError
from viz.tabs.action_log import note

ASSETS = Path(__file__).resolve().parents[2] / "assets"
LANGUAGES = {"en": "English", "zh": "中文"}


def _read_strings(language: str) -> dict[str, str]:
    strings = {}
    for file in sorted((ASSETS / "strings" / language).glob("*.json")):
        for name, text in json.loads(file.read_text(encoding="utf-8")).items():
            strings[f"{file.stem}.{name}"] = text
    return strings


STRINGS = {language: _read_strings(language) for language in LANGUAGES}


def say(language: str, key: str, /, **values: object) -> str:
    """The sentence of ``key`` in ``language`` with ``{name}`` filled in. Raises KeyError for an unknown key."""
    return STRINGS[language if language in LANGUAGES else "en"][key].format(**values)


def language_of_browser(preferred: str | None) -> str:
    """The language for whoever has chosen none yet: what an ``Accept-Language`` header names first, or English."""
    return "zh" if (preferred or "").strip().lower().startswith("zh") else "en"


def say_error(language: str, error: InputError) -> str:
    """What is wrong with an input, in ``language``."""
    note(outcome="refused", code=error.code)
    return say(language, f"errors.{error.code}", **error.values)


class Texts:
    """The components whose words change with the language, with the key of each word."""

    def __init__(self) -> None:
        self._keys: list[tuple[gr.blocks.Block, dict]] = []

    def add(self, component: gr.blocks.Block, **keys: object) -> gr.blocks.Block:
        """Keep ``component`` to be re-worded: ``add(gr.Button(), value="decode.run")``.

        A key is the name of a string; ``choices`` takes a list of (key, value) pairs. Returns the component,
        already worded in English.
        """
        self._keys.append((component, keys))
        words = self._words(keys, "en")
        for name, text in words.items():
            setattr(component, name, text)
        # Gradio checks a choice against those in here once the component has been updated.
        component.constructor_args.update(words)
        return component

    @property
    def components(self) -> list[gr.blocks.Block]:
        return [component for component, _ in self._keys]

    def updates(self, language: str) -> list[dict]:
        """One update a component, in the order of ``components``."""
        return [gr.update(**self._words(keys, language)) for _, keys in self._keys]

    @staticmethod
    def _words(keys: dict, language: str) -> dict:
        return {
            name: [(say(language, choice), value) for choice, value in key]
            if name == "choices"
            else say(language, key)
            for name, key in keys.items()
        }
