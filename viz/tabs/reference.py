"""Teacher forcing beside free running, in the Decode tab: a reference is typed and drawn beside the output."""

from __future__ import annotations

import math
from functools import partial

import gradio as gr
import numpy as np

from transformer.checkpoints import Checkpoint
from transformer.devices import checked_device
from transformer.tasks import TASKS
from transformer.teacher_forcing import TeacherForcing, compare
from transformer.tracing import MAX_TEXT_LENGTH, Trace
from viz.payload import token_chips
from viz.reference import Comparison, comparison_payload, curves_chart, percent
from viz.tabs.cards import card_heading
from viz.tabs.components import ClientView, PlotlyChart
from viz.tabs.language import say
from viz.tabs.session import Session
from viz.tabs.shared import QUIET, Shared, or_problem
from viz.tabs.zero_gpu import on_gpu

compare_on_gpu = on_gpu(compare)


class ReferenceView(ClientView):
    """Two aligned rows of tokens with a bar a probability. Event ``refresh`` when it is on show and stale."""

    script = "reference"


def build_reference(shared: Shared) -> None:
    """Lay the section out and wire it: nothing is computed before it is on show."""
    add = shared.texts.add
    with gr.Column(elem_classes="gf-card gf-reference-card"):
        card_heading("reference", "compare")
        with gr.Row(elem_classes="gf-reference-input", equal_height=True):
            reference = add(
                gr.Textbox(lines=1, max_lines=3, max_length=MAX_TEXT_LENGTH * 10, scale=5, min_width=220,
                           elem_classes="gf-reference-text"),
                label="reference.reference",
                placeholder="reference.placeholder",
            )
            pressed = add(gr.Button(scale=0, min_width=120, elem_classes="gf-reference-compare"),
                          value="reference.compare")
        note = gr.HTML("", elem_classes="gf-reference-note")
        view = ReferenceView()
        chart = PlotlyChart()
    made_for = gr.State(None)  # the task and the text that the reference belongs to

    inputs = [shared.session, reference, made_for, shared.device, shared.language]
    outputs = [reference, made_for, view, chart, note]

    @or_problem(len(outputs))
    def refresh(session: Session, typed: str, belongs_to: object, device: str, language: str) -> tuple:
        """A new run brings the reference of its text along; the same text keeps what the visitor typed."""
        session = session.recomputable
        text = (session.trace.task, session.trace.text)
        is_new = belongs_to != text
        if is_new:
            typed = suggested_reference(session.matching_checkpoint, session.trace)
        return gr.update(value=typed) if is_new else gr.skip(), text, *drawn(session, typed, device, language), ""

    @or_problem(len(outputs))
    def show(session: Session, typed: str, belongs_to: object, device: str, language: str) -> tuple:
        session = session.recomputable
        text = (session.trace.task, session.trace.text)
        return gr.skip(), text, *drawn(session, typed, device, language), ""

    quiet = {**QUIET, "trigger_mode": "always_last"}
    view.refresh(refresh, inputs, outputs, **quiet)
    gr.on([pressed.click, reference.submit], show, inputs, outputs, **quiet)


def known_reference(task_name: str, text: str) -> str:
    """What a task knows to be the right target of a text; otherwise an empty text."""
    return TASKS[task_name].reference(text) if task_name in TASKS else ""


def suggested_reference(checkpoint: Checkpoint, trace: Trace) -> str:
    """What the task knows to be right for the text; where it knows nothing, what the model wrote, to be changed."""
    known = known_reference(trace.task, trace.text)
    if known:
        return known
    tokenizer, most = checkpoint.tgt_tokenizer, checkpoint.model.config.max_len - 1
    written = [step.token for step in trace.steps if step.token not in ("<eos>", "<pad>", "<bos>")][:most]
    own = tokenizer.join(written)[:MAX_TEXT_LENGTH]
    return own if tokenizer.split(own) else tokenizer.symbols[0]


def drawn(session: Session, reference: object, device: str, language: str) -> tuple[str, str]:
    """The values of ``ReferenceView`` and of the chart. Raises InputError for a reference that cannot be read."""
    reference = reference if isinstance(reference, str) else ""  # a program may send anything in its place
    checkpoint, trace = session.matching_checkpoint, session.trace
    device = checked_device(device)
    found = (compare if device == "cpu" else compare_on_gpu)(checkpoint, trace.text, reference, device=device)
    comparison = comparison_of(found)
    is_own = not known_reference(trace.task, trace.text) and found.parts_at is None
    payload = comparison_payload(comparison, verdict=verdict(found), facts=facts(found, is_own))
    return payload, curves_chart(comparison, partial(_words, language)).to_json(filename="teacher-forcing")


def comparison_of(found: TeacherForcing) -> Comparison:
    """The arrays and labels that the figures take."""
    fed_own = [
        np.nan if step.reference_log_prob is None else math.exp(step.reference_log_prob)
        for step in found.free[: len(found.forced)]
    ]
    return Comparison(
        reference=token_chips([step.token for step in found.forced], [step.piece for step in found.forced]),
        fed_reference=np.exp([step.log_prob for step in found.forced]),
        fed_own=np.array(fed_own + [np.nan] * (len(found.forced) - len(fed_own))),
        ranks=[step.rank for step in found.forced],
        choices=[
            (chip["label"], math.exp(step.choice_log_prob))
            for chip, step in zip(token_chips([step.choice for step in found.forced]), found.forced, strict=True)
        ],
        written=token_chips([step.token for step in found.free]),
        written_probability=np.exp([step.log_prob for step in found.free]),
        parts_at=found.parts_at,
    )


def verdict(found: TeacherForcing) -> dict:
    """Where the two part, as a key of the words and its values."""
    place = found.parts_at
    if place is None:
        return {"key": "agrees", "values": {}}
    true, own = found.forced[place], found.free[place]
    return {
        "key": "parts",
        "values": {
            "n": place + 1,
            "reference": token_chips([true.token], [true.piece])[0],
            "percent": percent(math.exp(own.reference_log_prob)),
            "written": token_chips([own.token])[0],
            "own": percent(math.exp(own.log_prob)),
        },
    }


def facts(found: TeacherForcing, is_own: bool) -> list[dict]:
    """What else the numbers say, as keys of the words and their values. ``is_own``: the reference is the output."""
    forced, free = found.forced_log_prob, found.free_log_prob
    said = [("suggested_own", {})] if is_own else []
    said.append(("first_choices", {"right": found.n_first_choices, "total": len(found.forced)}))
    if found.parts_at is not None:
        said.append(("totals", {"forced": _signed(forced), "free": _signed(free)}))
        if found.finished:
            said.append(("prefers_own" if free > forced else "prefers_reference", {}))
    n_unknown = sum(step.token == "<unk>" for step in found.forced)
    if n_unknown:
        said.append(("unknown", {"n": n_unknown}))
    if not found.finished:
        said.append(("capped", {"n": len(found.free)}))
    return [{"key": key, "values": values} for key, values in said]


def _signed(number: float) -> str:
    return f"{number:.2f}".replace("-", "−")


def _words(language: str, key: str, **values: object) -> str:
    return say(language, f"reference.{key}", **values)
