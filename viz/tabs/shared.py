"""What every tab is handed: the visitor's session, the choices in the header, the line that answers, the words."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps

import gradio as gr

from transformer.errors import InputError
from viz.tabs.components import TraceChannel
from viz.tabs.language import Texts, say_error
from viz.tabs.training_worker import Trainings

# Events that compute share one queue lane; a training has its own (viz/tabs/train.py).
INFER = {"concurrency_id": "infer", "concurrency_limit": 1, "show_progress": "minimal"}
# Questions that views ask for themselves. None is put off: an event that Gradio puts off comes without its data.
QUIET = {**INFER, "show_progress": "hidden", "trigger_mode": "multiple", "api_visibility": "private"}
# Events that only move words about: no queue, no place in the public interface.
PRIVATE = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}


@dataclass(frozen=True)
class Shared:
    """Components that exist once and that any tab may read or write."""

    texts: Texts
    session: gr.State  # holds a Session
    device: gr.State  # "cpu", "cuda" or "mps"
    language: gr.Radio  # "en" or "zh"
    model: gr.Dropdown  # a shipped name, or session.OWN
    text: gr.Textbox  # what is decoded
    examples: gr.Radio  # texts to try
    status: gr.HTML  # one line: what happened, or what is wrong
    channel: TraceChannel  # hands the run on display to the views in the browser
    trainings: Trainings  # of all visitors


def status_line(sentence: str, kind: str = "note") -> str:
    """The status line's HTML. ``kind`` is ``note`` or ``problem``; the sentence is escaped."""
    role = "alert" if kind == "problem" else "status"
    return f'<p class="gf-status gf-status-{kind}" role="{role}">{html.escape(sentence)}</p>'


def or_problem(n_outputs: int) -> Callable:
    """Wrap a handler whose last of ``n_outputs`` outputs is a status line and whose last input is the language.

    When the input cannot be used, the status says so and everything else on the page stays as it is.
    """

    def wrap(handler: Callable) -> Callable:
        @wraps(handler)
        def guarded(*args: object) -> tuple:
            try:
                return handler(*args)
            except InputError as error:
                # Gradio hands an event's data over after the inputs, so the language is the last text.
                language = next((value for value in reversed(args) if isinstance(value, str)), "en")
                return (*[gr.skip()] * (n_outputs - 1), status_line(say_error(language, error), "problem"))

        return guarded

    return wrap


def sent(event: gr.EventData, name: str) -> object:
    """A value the browser sent along with an event; None when it did not. Anybody can send anything: check it."""
    data = event._data
    return data.get(name) if isinstance(data, dict) else None
