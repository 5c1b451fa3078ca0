"""Positions: what tells the model where a token stands, step by step from single curves to rotations."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import gradio as gr
import numpy as np
import torch

from transformer.checkpoints import Checkpoint
from transformer.hooks import intervene
from transformer.tracing import Trace, record_values
from viz.payload import token_chips
from viz.positions import (
    curves_chart,
    default_dimensions,
    dimension_name,
    distance_chart,
    matrix_chart,
    norms_chart,
    rotation_payload,
    similarity_chart,
)
from viz.tabs.cards import card_heading
from viz.tabs.components import ClientView, PlotlyChart
from viz.tabs.language import say
from viz.tabs.session import Session
from viz.tabs.shared import QUIET, Shared
from viz.text import token_labels

SIDES = {"source": "src_embedding", "target": "tgt_embedding"}
MEASURES = ("cosine", "dot")
MOST_CURVES = 8
MOST_POSITIONS = 256  # what is drawn of a longer table; the page says so
LATEST = {**QUIET, "trigger_mode": "always_last"}  # of questions without data of their own the last is enough


class PositionsGuide(ClientView):
    """Says what kind of positions the model has. Event ``refresh`` when the tab is on show and stale."""

    script = "positions_guide"


class RotationView(ClientView):
    """One pair of dimensions as a clock, moved by sliders: a shift by k is a turn by k times the frequency."""

    script = "rotation"


class SwapView(ClientView):
    """How much the encoder notices when two tokens change places, with positions and without."""

    script = "position_swap"


def encoding_of(checkpoint: Checkpoint, side: str) -> np.ndarray:
    """What the model adds to its tokens, [P, D] float32, at most ``MOST_POSITIONS`` rows. ``side`` is one of SIDES."""
    embedding = getattr(checkpoint.model, SIDES[side])
    return embedding.positions.detach().numpy()[:MOST_POSITIONS]


def checked_side(side: object) -> str:
    """``side``, or the first there is for anything unknown (only a forged request has it)."""
    return side if isinstance(side, str) and side in SIDES else "source"


def checked_measure(measure: object) -> str:
    """``measure``, or the first there is for anything unknown."""
    return measure if isinstance(measure, str) and measure in MEASURES else MEASURES[0]


def checked_dimensions(dimensions: object, d_model: int) -> list[int]:
    """The whole numbers among ``dimensions`` that the model has, in order, each once, at most MOST_CURVES."""
    values = dimensions if isinstance(dimensions, (list, tuple)) else []
    known = {d for d in values if isinstance(d, int) and not isinstance(d, bool) and 0 <= d < d_model}
    return sorted(known)[:MOST_CURVES]


def toggled_pair(dimensions: list[int], clicked: int, d_model: int) -> list[int]:
    """``dimensions`` with the pair of ``clicked`` put in, or taken out when it is all there is no room or use for."""
    pair = {d for d in (clicked - clicked % 2, clicked - clicked % 2 + 1) if d < d_model}
    rest = [d for d in dimensions if d not in pair]
    if pair <= set(dimensions):
        return rest or dimensions
    return sorted([*rest[-(MOST_CURVES - len(pair)) :], *pair])


def swap_effect(checkpoint: Checkpoint, trace: Trace) -> dict:
    """Swap two source tokens and swap the encoder's outputs back: the largest change, with positions and without.

    A model that cannot see order would not notice. The tokens are the first and the next that differs from it.
    """
    first = 0
    second = next(i for i, token_id in enumerate(trace.src_ids) if token_id != trace.src_ids[0])
    order = list(range(len(trace.src_ids)))
    order[first], order[second] = second, first
    swapped = replace(trace, src_ids=tuple(trace.src_ids[i] for i in order))
    name = "encoder.hook_out"
    # Both sides lose their positions: the decoder's part changes nothing in the memory.
    none = {f"{side}.hook_pos_embed": torch.zeros_like for side in SIDES.values()}
    changes = {}
    for case, taken_away in (("with_positions", {}), ("without", none)):
        with intervene(taken_away):
            memory = record_values(checkpoint, trace, {name})[name]
            memory_swapped = record_values(checkpoint, swapped, {name})[name]
        changes[case] = float(np.abs(memory_swapped[order] - memory).max())
    chips = token_chips(trace.src_tokens, trace.src_pieces)
    return {"tokens": chips, "first": first, "second": second, **changes}


def guide_facts(checkpoint: Checkpoint) -> str:
    """The JSON text of ``PositionsGuide``."""
    config = checkpoint.model.config
    return json.dumps({"kind": config.positional_encoding, "d_model": config.d_model, "max_len": config.max_len,
                       "shown": min(config.max_len, MOST_POSITIONS)})


def _n_tokens(session: Session, side: str) -> int:
    return len(session.trace.src_ids if side == "source" else session.trace.tgt_in_ids)


def draw_curves(session: Session, side: object, dimensions: object, language: str) -> str:
    """The curves of the chosen dimensions."""
    session = session.recomputable
    side = checked_side(side)
    encoding = encoding_of(session.checkpoint, side)
    sinusoidal = session.checkpoint.model.config.positional_encoding == "sinusoidal"
    chosen = checked_dimensions(dimensions, encoding.shape[1]) or default_dimensions(encoding.shape[1], len(encoding))
    words = partial(_words, language)
    return curves_chart(encoding, chosen, _n_tokens(session, side), words, sinusoidal).to_json(filename="positions")


def draw_similarity(session: Session, side: object, measure: object, language: str) -> tuple[str, str]:
    """Similarity by distance, and of every two positions."""
    encoding = encoding_of(session.checkpoint, checked_side(side))
    words = partial(_words, language)
    return tuple(
        chart(encoding, checked_measure(measure), words).to_json(filename=name)
        for chart, name in ((distance_chart, "similarity-by-distance"), (similarity_chart, "similarity"))
    )


def draw_norms(session: Session, side: object, language: str) -> str:
    """Embedding and position of each token of the text at hand."""
    session = session.recomputable
    side, trace = checked_side(side), session.trace
    names = [f"{SIDES[side]}.hook_embed", f"{SIDES[side]}.hook_pos_embed"]
    values = record_values(session.checkpoint, trace, set(names))
    labels = token_labels(trace.src_tokens, trace.src_pieces) if side == "source" else token_labels(trace.tgt_in_tokens)
    chart = norms_chart(labels, *(values[name] for name in names), partial(_words, language))
    return chart.to_json(filename="embedding-and-position")


def draw_all(session: Session, side: object, dimensions: object, measure: object, language: str) -> tuple:
    """Everything on the tab, in the order of the outputs of ``build_positions_tab``."""
    session = session.recomputable
    side = checked_side(side)
    encoding = encoding_of(session.checkpoint, side)
    config = session.checkpoint.model.config
    words = partial(_words, language)
    sinusoidal = config.positional_encoding == "sinusoidal"
    chosen = checked_dimensions(dimensions, config.d_model)
    # Another width is another set of frequencies: begin again with three telling ones.
    if not chosen or len(chosen) != len(dimensions or []):
        chosen = default_dimensions(config.d_model, len(encoding))
    choices = [(dimension_name(words, d, config.d_model, sinusoidal), d) for d in range(config.d_model)]
    there = config.positional_encoding != "none"
    trace = session.trace
    chips = token_chips(trace.src_tokens, trace.src_pieces) if side == "source" else token_chips(trace.tgt_in_tokens)
    return (
        guide_facts(session.checkpoint),
        *[gr.update(visible=there)] * 3,
        gr.update(choices=choices, value=chosen),
        draw_curves(session, side, chosen, language),
        matrix_chart(encoding, words).to_json(filename="positions-matrix"),
        *draw_similarity(session, side, measure, language),
        rotation_payload(encoding, config.positional_encoding, tokens=chips),
        draw_norms(session, side, language),
        json.dumps(swap_effect(session.checkpoint, trace), ensure_ascii=False),
    )


def _words(language: str, key: str, **values: object) -> str:
    return say(language, f"positions.{key}", **values)


def build_positions_tab(shared: Shared) -> None:
    """Lay the tab out and wire it: one request fills it when it is looked at; small ones follow the choices."""
    texts = shared.texts
    with gr.Row(elem_classes="gf-positions-top", equal_height=False):
        guide = PositionsGuide(elem_classes="gf-positions-guide-box")
        side = texts.add(
            gr.Radio(choices=list(SIDES), value="source", elem_classes=["gf-segmented", "gf-positions-side"]),
            label="positions.side",
            choices=[("positions.side_source", "source"), ("positions.side_target", "target")],
        )
    with gr.Row(elem_classes="gf-cards", equal_height=True) as first_row:
        with gr.Column(elem_classes="gf-card", min_width=320):
            card_heading("positions", "curves", 1)
            dimensions = texts.add(
                gr.Dropdown(choices=[], multiselect=True, max_choices=MOST_CURVES, elem_classes="gf-dimensions"),
                label="positions.dimensions",
            )
            curves = PlotlyChart()
        with gr.Column(elem_classes="gf-card", min_width=320):
            card_heading("positions", "matrix", 2)
            matrix = PlotlyChart()
    with gr.Column(elem_classes="gf-card") as second_row:
        card_heading("positions", "similarity", 3)
        measure = texts.add(
            gr.Radio(choices=list(MEASURES), value="cosine", elem_classes=["gf-segmented", "gf-measure"]),
            label="positions.measure",
            choices=[("positions.measure_cosine", "cosine"), ("positions.measure_dot", "dot")],
        )
        with gr.Row(elem_classes="gf-cards", equal_height=False):
            with gr.Column(min_width=300):
                distance = PlotlyChart()
            with gr.Column(min_width=300):
                alike = PlotlyChart()
    with gr.Column(elem_classes="gf-card") as third_row:
        card_heading("positions", "rotation", 4)
        rotation = RotationView(elem_classes="gf-rotation-box")
    with gr.Row(elem_classes="gf-cards", equal_height=True):
        with gr.Column(elem_classes="gf-card", min_width=320):
            card_heading("positions", "norms", 5)
            norms = PlotlyChart()
        with gr.Column(elem_classes="gf-card", min_width=320):
            card_heading("positions", "swap", 6)
            swap = SwapView(elem_classes="gf-swap-box")

    outputs = [guide, first_row, second_row, third_row, dimensions, curves, matrix, distance, alike, rotation, norms,
               swap]
    everything = [shared.session, side, dimensions, measure, shared.language]
    guide.refresh(draw_all, everything, outputs, **LATEST)
    side.input(draw_all, everything, outputs, **LATEST)
    dimensions.input(draw_curves, [shared.session, side, dimensions, shared.language], curves, **LATEST)
    measure.input(draw_similarity, [shared.session, side, measure, shared.language], [distance, alike], **LATEST)

    def add_column(session: Session, side: object, chosen: object, language: str, event: gr.EventData) -> tuple:
        d_model = session.checkpoint.model.config.d_model
        clicked = checked_dimensions([getattr(event, "x", None)], d_model)
        if not clicked:
            return gr.skip(), gr.skip()
        chosen = toggled_pair(checked_dimensions(chosen, d_model), clicked[0], d_model)
        return gr.update(value=chosen), draw_curves(session, side, chosen, language)

    matrix.cell(add_column, [shared.session, side, dimensions, shared.language], [dimensions, curves], **QUIET)
