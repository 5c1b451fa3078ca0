"""How the target is searched for: greedy, beam or sample, with the settings of the choice. It concerns all tabs."""

from __future__ import annotations

import json
from dataclasses import asdict, fields

import gradio as gr

from transformer.errors import InputError
from transformer.search import Search
from viz.tabs.components import ClientView
from viz.tabs.language import say
from viz.tabs.runs import payload_of, run_facts, run_text
from viz.tabs.session import Session
from viz.tabs.shared import INFER, Shared, or_problem, sent, status_line

WIDEST_BEAM = 8  # the tree of a wider one is hard to read


class SearchSettings(ClientView):
    """The choice of search and its settings. ``value`` is a JSON text of ``Search``.

    Event: ``choose`` (``gr.EventData`` with ``search``, a dict of every setting).
    """

    script = "search_settings"


def settings_of(search: Search) -> str:
    """The JSON text that ``SearchSettings`` draws."""
    return json.dumps({**asdict(search), "widest_beam": WIDEST_BEAM})


def search_of(values: object) -> Search:
    """The search a browser asked for. Raises InputError for what is missing, unknown or out of range."""
    names = [field.name for field in fields(Search)]
    values = values if isinstance(values, dict) else {}
    search = Search(**{name: values.get(name) for name in names})
    if search.beam_width > WIDEST_BEAM:
        raise InputError(
            "search_setting", name="beam_width", smallest=1, largest=WIDEST_BEAM, value=search.beam_width
        )
    return search


def wire_search_settings(shared: Shared, settings: SearchSettings) -> None:
    """Decode again whenever another search is chosen."""
    outputs = [shared.session, shared.channel, shared.status]

    @or_problem(len(outputs))
    def use_search(session: Session, device: str, language: str, event: gr.EventData) -> tuple:
        session = session.with_search(search_of(sent(event, "search")))
        if session.matching_checkpoint is None:
            return session, payload_of(session), status_line(say(language, "search.from_now_on"))
        session = run_text(session.with_maker, session.trace.text, device)
        return session, payload_of(session), status_line(run_facts(language, session))

    settings.choose(
        use_search,
        [shared.session, shared.device, shared.language],
        outputs,
        show_progress_on=shared.status,
        api_visibility="private",
        trigger_mode="multiple",  # an event that Gradio puts off comes without its data
        **INFER,
    )
