"""Cost: what the run on display costs by part, what that takes by the clock, and what other sizes would cost."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import gradio as gr
import torch

from transformer.cost import BOOKS, KINDS, PAPER_PARAMETERS, PAPER_SIZES, sizes_of, vocabulary_for
from transformer.devices import available_devices, checked_device, device_name
from transformer.errors import InputError
from transformer.measured_cost import decoding_times, growth, layer_times
from viz.cost import costs_payload, measured_payload
from viz.tabs.components import ClientView
from viz.tabs.language import say_error
from viz.tabs.session import Session
from viz.tabs.shared import QUIET, Shared, sent
from viz.tabs.zero_gpu import on_gpu
from viz.text import visible

MEASUREMENTS = ("decoding", "layer")
PARTS = ("cost_terms", "cost_chart", "cost_curves", "cost_parts")

decoding_times_on_gpu, layer_times_on_gpu = on_gpu(decoding_times), on_gpu(layer_times)


class CostRun(ClientView):
    """A headline, two curves and every part, for the run on display. ``value`` is ``payload_of_costs``.

    Event ``ask`` when it is on show and was made for another run.
    """

    script = "cost_run"
    script_parts = PARTS


class CostMeasured(ClientView):
    """What decoding and one layer take on this machine. ``value`` is ``payload_of_measurement``.

    Event ``measure`` {what, device, asked}: the button is pressed, and again for each further measurement.
    """

    script = "cost_measured"
    script_parts = ("cost_terms", "cost_chart")


class CostSimulation(ClientView):
    """Sliders over all sizes and what they would cost, computed in the browser. ``value`` is ``payload_of_costs``.

    Event ``ask`` when it is on show and was made for another run.
    """

    script = "cost_simulation"
    script_parts = PARTS


def payload_of_costs(session: Session) -> str:
    """Every formula, the sizes of the run on display (or of an example, where no model here made it), the paper's."""
    is_example, made_for = session.matching_checkpoint is None, session.trace.id
    session = session.recomputable
    checkpoint, trace = session.matching_checkpoint, session.trace
    return costs_payload(
        books={
            name: {
                part: [(term.factor.numerator, term.factor.denominator, term.letters) for term in terms]
                for part, terms in book.items()
            }
            for name, book in BOOKS.items()
        },
        kinds=KINDS,
        sizes=sizes_of(checkpoint.model.config, len(trace.src_ids), len(trace.steps)),
        presets=PAPER_SIZES,
        paper={
            name: {"stated": PAPER_PARAMETERS[name], "vocabulary": vocabulary_for(PAPER_PARAMETERS[name], sizes)}
            for name, sizes in PAPER_SIZES.items()
        },
        run=made_for,
        model=checkpoint.name,
        text=visible(trace.text),
        is_example=is_example,
    )


def payload_of_measurement(session: Session, what: object, device: object, asked: object, language: str) -> str:
    """One measurement on one device. ``asked`` is sent back, so that an answer to an earlier press is known as one.

    A measurement there is not is answered as the first one; a device there is not, with a sentence.
    """
    facts = {"asked": str(asked)[:20]}
    try:
        device = checked_device(str(device))
    except InputError as error:
        return json.dumps({**facts, "problem": say_error(language, error)}, ensure_ascii=False)
    facts |= {
        "run": session.trace.id,
        "device": device,
        "devices": {each: device_name(each) for each in available_devices()},
        "n_threads": torch.get_num_threads(),
        "taken_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    session = session.recomputable
    checkpoint, trace = session.matching_checkpoint, session.trace
    facts |= {"model": checkpoint.name, "text": visible(trace.text), "n_written": len(trace.steps)}
    if what == "layer":
        layer = (layer_times if device == "cpu" else layer_times_on_gpu)(checkpoint, device=device)
        columns = {
            "attention": layer.attention,
            "projections": layer.projections,
            "feed_forward": layer.feed_forward,
            "bytes": layer.bytes,
        }
        exponents = {name: growth(layer.lengths, column) for name, column in columns.items()}
        return measured_payload(
            what="layer", columns=columns, places=layer.lengths, exponents=exponents, waited=layer.waited, **facts
        )
    decoding = (decoding_times if device == "cpu" else decoding_times_on_gpu)(checkpoint, trace.src_ids, device=device)
    return measured_payload(
        what="decoding",
        columns={"cached": decoding.cached, "uncached": decoding.uncached},
        places=range(1, len(decoding.cached) + 1),
        n_same=decoding.n_same,
        n_repeats=decoding.n_repeats,
        waited=decoding.waited,
        **facts,
    )


def build_cost_tab(shared: Shared) -> None:
    """Lay the tab out; formulas are sent when it is on show, and nothing is measured before the button is pressed."""
    run = CostRun(elem_classes="gf-cost-box")
    measured = CostMeasured(elem_classes="gf-cost-box")
    simulation = CostSimulation(elem_classes="gf-cost-box")

    def measure(session: Session, language: str, event: gr.EventData) -> str:
        return payload_of_measurement(
            session, sent(event, "what"), sent(event, "device"), sent(event, "asked"), language
        )

    run.ask(payload_of_costs, shared.session, run, **QUIET)
    measured.measure(measure, [shared.session, shared.language], measured, **QUIET)
    simulation.ask(payload_of_costs, shared.session, simulation, **QUIET)
