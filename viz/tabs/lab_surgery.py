"""Cut into it: what every head matters, and decoding again with heads and sub-layers changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait

import gradio as gr

from transformer.config import TransformerConfig
from transformer.errors import InputError
from transformer.importance import HeadImportance, head_importance
from transformer.sublayers import sublayers
from transformer.surgery import Cut, HeadCut, SubLayerCut, surgery
from viz.surgery import MEASURES, heads_payload
from viz.tabs.components import ClientView
from viz.tabs.lab_runs import Bench, asked_number, bench_of, bench_payload, outcome_of, problem
from viz.tabs.session import Session
from viz.tabs.shared import QUIET, Shared, sent

MOST_CUTS = 64
SILENT_SECONDS = 1.0  # a measurement that takes longer says how far it is
HEAD_FIELDS = {"kind", "layer", "head", "act", "factor", "query", "key", "weight"}
SUBLAYER_FIELDS = {"stack", "layer", "kind"}


class SurgeryView(ClientView):
    """The map of heads, the head in focus, switches for sub-layers, and the output before and after.

    Events: ``refresh`` (on show and made for another run) and ``cut`` (``gr.EventData`` with ``cuts`` and ``asked``,
    a number that comes back with the answer).
    """

    script = "lab_surgery"
    script_parts = ("lab_board", "lab_outcome", "lab_surgery_map")


def build_surgery(shared: Shared) -> None:
    """Lay the bench out; the map is measured when it is looked at."""
    view = SurgeryView(elem_classes="gf-bench-box")
    view.refresh(measured, [shared.session, shared.language], [view], **QUIET)
    view.cut(cut_and_decoded, [shared.session, shared.language], [view], **QUIET)


def measured(session: Session, language: str) -> Iterator[str]:
    """The map of heads as an answer for the view; before it, how far the measurement is when it takes long."""
    try:
        bench = bench_of(session)
        told = [(0, 0)]
        with ThreadPoolExecutor(1) as pool:
            work = pool.submit(
                head_importance, bench.checkpoint, bench.before, progress=lambda *now: told.append(now)
            )
            while not wait([work], timeout=SILENT_SECONDS).done:
                done, total = told[-1]
                yield json.dumps({"part": "progress", "done": done, "total": total})
        yield heads_of(bench, work.result())
    except InputError as error:
        yield problem(error, language, None)


def heads_of(bench: Bench, importance: HeadImportance) -> str:
    """The map of heads as a ``heads_payload``."""
    by_name = {"change": importance.log_prob_change} | {
        name: getattr(importance, name) for name in MEASURES if name != "change"
    }
    return heads_payload(
        run=bench_payload(bench.before),
        log_prob=importance.log_prob,
        measures=by_name,
        sublayers=[
            {"stack": stack, "layer": part.index, "kind": part.kind}
            for stack in ("encoder", "decoder")
            for part in sublayers(bench.checkpoint.model, stack)
        ],
        is_example=bench.is_example,
        made_for=bench.made_for,
    )


def cut_and_decoded(session: Session, language: str, event: gr.EventData) -> str:
    """Answer a ``cut`` event: the text decoded again under all cuts that were sent, or why they cannot be made."""
    asked = asked_number(event)
    try:
        bench = bench_of(session)
        cuts = cuts_of(sent(event, "cuts"), bench)
        return outcome_of(bench, surgery(cuts, bench.checkpoint.model.config), asked=asked)
    except InputError as error:
        return problem(error, language, asked)


def cuts_of(value: object, bench: Bench) -> list[Cut]:
    """The cuts that a browser sent, as values; ``surgery`` checks the numbers in them against the network.

    Raises InputError for anything that is no list of cuts, for too many, and for a cell that this text does not have.
    """
    if not isinstance(value, list) or len(value) > MOST_CUTS:
        n = len(value) if isinstance(value, list) else str(value)[:40]
        raise InputError("setting_whole", name="cuts", lowest=0, highest=MOST_CUTS, value=n)
    cuts: list[Cut] = []
    for each in value:
        fields = set(each) if isinstance(each, dict) else set()
        if fields == SUBLAYER_FIELDS:
            cuts.append(SubLayerCut(**each))
        elif {"kind", "layer", "head", "act"} <= fields <= HEAD_FIELDS:
            cuts.append(HeadCut(**each))
        else:
            names = ", ".join(sorted(HEAD_FIELDS | SUBLAYER_FIELDS))
            raise InputError("setting_choice", name="cut", choices=names, value=str(each)[:80])
    for cut in cuts:
        if isinstance(cut, HeadCut) and cut.act == "pin":
            _check_cell(cut, bench.checkpoint.model.config, len(bench.before.src_ids))
    return cuts


def _check_cell(cut: HeadCut, config: TransformerConfig, n_source: int) -> None:
    """Raise InputError for a cell outside the text; the target may grow up to the positions the model has."""
    n_queries = n_source if cut.kind == "encoder_self" else config.max_len
    n_keys = config.max_len if cut.kind == "decoder_self" else n_source
    for name, place, n in (("query", cut.query, n_queries), ("key", cut.key, n_keys)):
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < n:
            shown = place + 1 if isinstance(place, int) else str(place)[:40]
            raise InputError("setting_whole", name=name, lowest=1, highest=n, value=shown)
