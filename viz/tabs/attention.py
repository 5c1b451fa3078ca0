"""Attention: every head of the three attentions, the stages of its map, and the arithmetic of any one number.

Shape legend: H heads, T queries (rows), S keys (columns), K d_head.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import gradio as gr
import numpy as np

from transformer.checkpoints import Checkpoint
from transformer.errors import InputError
from transformer.tracing import ATTENTION_KINDS, Trace, address, record_values
from viz.arithmetic import STAGES, ShapeLine, Words, arithmetic_html, cell_arithmetic, shown
from viz.attention import HeadFacts, attention_chart, head_facts, map_room
from viz.tabs.attention_code import CODE_LINES
from viz.tabs.components import ClientView, PlotlyChart
from viz.tabs.language import say
from viz.tabs.session import Session
from viz.tabs.shared import QUIET, Shared, or_problem, sent
from viz.text import escaped, token_labels, visible

STAGE_HOOKS = {
    "raw": "hook_raw_scores",
    "scaled": "hook_scaled_scores",
    "masked": "hook_attn_scores",
    "softmax": "hook_pattern",
}
# "multiple": an event that Gradio defers ("always_last") comes without its data. The script waits for each answer.


class AttentionHeads(ClientView):
    """The three kinds, and all heads of one as small maps to choose from. Drawn in the browser, asks nobody."""

    script = "attention_heads"


class AttentionStages(ClientView):
    """The four stages of a map to choose from, each with the chosen cell's number.

    ``value`` is a JSON text {numbers: {stage: text}, d_head, model: whether its model is at hand}.
    """

    script = "attention_stages"


class AttentionArithmetic(ClientView):
    """Chooses a cell and shows its derivation.

    ``value`` is a JSON text {map: what the chart shows, html, said}. Event: ``choose`` (``gr.EventData`` with id,
    kind, layer, head, stage, query, key and map) when this tab is on show and the shared selection asks for more.
    """

    script = "attention_arithmetic"


@dataclass(frozen=True)
class Choice:
    """One head, one stage of its map and, where asked for, one cell. All count from 0."""

    kind: str
    layer: int
    head: int
    stage: str
    query: int = 0
    key: int = 0


@dataclass(frozen=True, eq=False)
class HeadValues:
    """What one head computed. Without the run's model there is only the last stage, from the trace."""

    stages: dict[str, np.ndarray]  # stage -> [T, S]
    mask: np.ndarray  # [T, S] True = may attend
    q: np.ndarray | None = None  # [T, K]
    k: np.ndarray | None = None  # [S, K]


def words_in(language: str) -> Words:
    """This tab's words in ``language``, by name."""
    return lambda name, **values: say(language, f"attention.{name}", **values)


def checked_choice(
    trace: Trace, *, kind: object, layer: object, head: object, stage: object, query: object = 0, key: object = 0
) -> Choice:
    """The choice when ``trace`` has it. Raises InputError, saying what was expected, when it does not."""
    if kind not in tuple(ATTENTION_KINDS):
        raise InputError("setting_choice", name="kind", choices=", ".join(ATTENTION_KINDS), value=str(kind)[:40])
    if stage not in STAGES:
        raise InputError("setting_choice", name="stage", choices=", ".join(STAGES), value=str(stage)[:40])
    numbers = {"layer": layer, "head": head, "query": query, "key": key}
    for (name, value), size in zip(numbers.items(), trace.patterns[kind].shape, strict=True):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < size:
            raise InputError("setting_whole", name=name, lowest=0, highest=size - 1, value=str(value)[:40])
    return Choice(kind, layer, head, stage, query, key)


def head_values(checkpoint: Checkpoint | None, trace: Trace, choice: Choice) -> HeadValues:
    """All stages of the chosen head, by one pass of ``checkpoint`` over the run's tokens; without it, the weights."""
    if checkpoint is None:
        weights = trace.patterns[choice.kind][choice.layer, choice.head]
        return HeadValues({"softmax": weights}, usual_mask(trace, choice.kind))
    hooks = {**STAGE_HOOKS, "q": "hook_q", "k": "hook_k"}
    names = {name: address(choice.kind, choice.layer, hook) for name, hook in hooks.items()}
    recorded = record_values(checkpoint, trace, set(names.values()))
    of_head = {name: recorded[address_][choice.head] for name, address_ in names.items()}
    q, k = of_head.pop("q"), of_head.pop("k")
    return HeadValues(of_head, ~np.isneginf(of_head["masked"]), q, k)


def usual_mask(trace: Trace, kind: str) -> np.ndarray:
    """Who may attend to whom when nothing was changed [T, S]: never a padding key, in the decoder never the future."""
    n_queries, n_keys = trace.patterns[kind].shape[2:]
    real = np.array([token != "<pad>" for token in trace.key_tokens(kind)])
    mask = np.broadcast_to(real, (n_queries, n_keys)).copy()
    return mask & np.tri(n_queries, n_keys, dtype=bool) if kind == "decoder_self" else mask


def labels_of(trace: Trace, kind: str) -> tuple[list[str], list[str]]:
    """How the tokens that ask and the tokens that are asked are written."""
    source, target = token_labels(trace.src_tokens, trace.src_pieces), token_labels(trace.tgt_in_tokens)
    return source if kind == "encoder_self" else target, target if kind == "decoder_self" else source


def shape_lines(trace: Trace, choice: Choice) -> dict[str, ShapeLine]:
    """How shapes go through each stage, in the letters of the code and in this run's numbers."""
    _, n_heads, n_queries, n_keys = trace.patterns[choice.kind].shape
    d_head = trace.config["d_model"] // trace.config["n_heads"]
    rows, columns = {"encoder_self": "SS", "decoder_self": "TT", "cross": "TS"}[choice.kind]
    mask_row = rows if choice.kind == "decoder_self" else "1"
    numbers = {rows: n_queries, columns: n_keys, "B": 1, "H": n_heads, "K": d_head, "1": 1}

    def line(text: str) -> ShapeLine:
        axes = text.replace("[", "[ ").replace("]", " ]").replace(",", " ,").split(" ")
        filled = " ".join(str(numbers.get(axis, axis)) for axis in axes)
        return ShapeLine(text, filled.replace("[ ", "[").replace(" ]", "]").replace(" ,", ","))

    scores = f"[B, H, {rows}, {columns}]"
    return {
        "raw": line(f"[B, H, {rows}, K] @ [B, H, K, {columns}] → {scores}"),
        "scaled": line(f"{scores} → {scores}"),
        "masked": line(f"{scores} × [B, 1, {mask_row}, {columns}] → {scores}"),
        "softmax": line(f"{scores} → {scores}"),
    }


def percentage(share: float) -> str:
    """A share of 1 in percent with one decimal, which reaches 100 only where all of it is meant."""
    return "> 99.9" if 0.9995 <= share < 1 else f"{share * 100:.1f}"


def facts_sentence(facts: HeadFacts | None, kind: str, key_labels: list[str], words: Words) -> str:
    """What the numbers say of a head, in plain words."""
    if facts is None:
        return words("facts_nothing")
    side = "cross" if kind == "cross" else "self"
    if facts.habit == "offset":
        where = "same" if facts.offset == 0 else "right" if facts.offset > 0 else "left"
        target = words(f"target_{where}_{side}", n=abs(facts.offset))
        share = facts.offset_share
    elif facts.habit == "mirror":
        target, share = words("target_mirror", sum=facts.mirror), facts.mirror_share
    else:
        target, share = words("target_column", token=key_labels[facts.column], n=facts.column), facts.column_share
    habit = words("facts_spread") if facts.habit == "spread" else words(
        "facts_habit", percent=percentage(share), target=target
    )
    spread = words(
        "facts_keys",
        n=f"{facts.effective_keys:.1f}", of=f"{facts.visible_keys:.1f}", bits=f"{facts.entropy_bits:.2f}",
    )
    return f"{habit} {spread}"


def map_json(values: HeadValues, trace: Trace, choice: Choice, words: Words) -> str:
    """What the chart component draws of the chosen stage."""
    query_labels, key_labels = labels_of(trace, choice.kind)
    shown_values = values.stages[choice.stage]
    facts = facts_sentence(head_facts(values.stages["softmax"], values.mask), choice.kind, key_labels, words)
    finite = shown_values[np.isfinite(shown_values)]
    name = words("map_name", kind=words(f"kind_{choice.kind}"), layer=choice.layer + 1, head=choice.head + 1)
    reach = words("map_range", stage=words(f"stage_{choice.stage}"), low=shown(finite.min()), high=shown(finite.max()))
    chart = attention_chart(
        shown_values, values.mask, query_labels, key_labels,
        stage=choice.stage, words=words, summary=f"{name} {facts} {reach}",
    )
    cell = {"x": "key", "y": "query"}
    return chart.to_json(
        selects=cell,
        outlines={"x": "focusKey", "y": "focusQuery"},
        **map_room(chart),
        filename=f"attention-{choice.kind}-{choice.layer + 1}-{choice.head + 1}-{choice.stage}",
    )


def hidden_reason(trace: Trace, choice: Choice) -> str:
    """Why the mask hides the chosen key from the chosen query."""
    if trace.key_tokens(choice.kind)[choice.key] == "<pad>":
        return "padding"
    return "future" if choice.kind == "decoder_self" and choice.key > choice.query else "other"


def row_note(trace: Trace, choice: Choice, query_label: str, words: Words) -> str:
    """What the decoder does in the chosen row: which token it read last and which one it writes from there."""
    if choice.kind == "encoder_self":
        return ""
    return words("row_writes", read=query_label, written=visible(trace.steps[choice.query].token))


def derivation(values: HeadValues, trace: Trace, choice: Choice, words: Words) -> tuple[dict[str, str], str, str]:
    """The chosen cell's number at each stage, its derivation as HTML, and the result in one sentence."""
    query_labels, key_labels = labels_of(trace, choice.kind)
    query_label, key_label = query_labels[choice.query], key_labels[choice.key]
    place = {"asks": query_label, "row": choice.query, "asked": key_label, "column": choice.key}
    if values.q is None or values.k is None:
        weight = shown(values.stages["softmax"][choice.query, choice.key])
        said = words("said", weight=weight, **place)
        sentences = (said, words("no_model", model=visible(trace.model)))
        return {"softmax": weight}, "".join(f"<p>{escaped(sentence)}</p>" for sentence in sentences), said
    cell = cell_arithmetic(values.q[choice.query], values.k, values.mask[choice.query], choice.key)
    html = arithmetic_html(
        cell,
        query=choice.query,
        query_label=query_label,
        key_labels=key_labels,
        hidden_because=hidden_reason(trace, choice),
        code=CODE_LINES,
        shapes=shape_lines(trace, choice),
        words=words,
        note=row_note(trace, choice, query_label, words),
    )
    numbers = {stage: shown(number) for stage, number in cell.stages.items()}
    return numbers, html, words("said", weight=shown(cell.weight), **place)


def build_attention_tab(shared: Shared) -> None:
    """Lay the tab out."""
    with gr.Row(elem_classes="gf-att"):
        with gr.Column(scale=0, min_width=300, elem_classes="gf-att-choose"):
            AttentionHeads()
        with gr.Column(scale=1, min_width=320, elem_classes="gf-att-see"):
            stages = AttentionStages()
            with gr.Row(elem_classes="gf-att-pair"):
                with gr.Column(min_width=320, elem_classes="gf-att-map"):
                    chart = PlotlyChart()
                with gr.Column(min_width=320, elem_classes="gf-att-sum"):
                    arithmetic = AttentionArithmetic()

    outputs = [chart, stages, arithmetic, shared.status]

    @or_problem(len(outputs))
    def show(session: Session, language: str, event: gr.EventData) -> tuple:
        trace = session.trace
        asked = {name: sent(event, name) for name in ("kind", "layer", "head", "stage", "query", "key")}
        if sent(event, "id") != trace.id:  # the browser shows another run by now and will ask again
            return tuple(gr.skip() for _ in outputs)
        choice = checked_choice(trace, **asked)
        checkpoint = session.matching_checkpoint
        if checkpoint is None:
            choice = Choice(choice.kind, choice.layer, choice.head, "softmax", choice.query, choice.key)
        words = words_in(language)
        values = head_values(checkpoint, trace, choice)
        numbers, html, said = derivation(values, trace, choice, words)
        map_name = "|".join(map(str, (trace.id, language, choice.kind, choice.layer, choice.head, choice.stage)))
        has_model = checkpoint is not None
        d_head = trace.config["d_model"] // trace.config["n_heads"]
        return (
            gr.skip() if sent(event, "map") == map_name else map_json(values, trace, choice, words),
            json.dumps({"numbers": numbers, "d_head": d_head, "model": has_model}),
            json.dumps({"map": map_name, "html": html, "said": said}, ensure_ascii=False),
            gr.skip(),
        )

    arithmetic.choose(show, [shared.session, shared.language], outputs, **QUIET)
