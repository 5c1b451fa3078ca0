"""Scores of a visitor's own pairs: pasted or uploaded, decoded many at once, judged, the worst and best in a table."""

from __future__ import annotations

import json
from pathlib import Path

import gradio as gr

from transformer.checkpoints import Checkpoint
from transformer.devices import checked_device
from transformer.errors import InputError
from transformer.scoring import PairScores, score_pairs
from transformer.tasks import TASKS
from transformer.tasks.pairs import (
    LARGEST_OWN_TEXT,
    LONGEST_OWN_SIDE,
    MOST_OWN_LINES,
    MOST_OWN_PAIRS,
    OwnPairs,
    parse_own_pairs,
    read_own_text,
)
from viz.tabs.components import ClientView
from viz.tabs.language import say
from viz.tabs.runs import payload_of, run_facts, run_text
from viz.tabs.session import Session
from viz.tabs.shared import INFER, PRIVATE, Shared, or_problem, sent, status_line
from viz.tabs.zero_gpu import on_gpu

SECONDS = 8.0  # of decoding; what is not reached by then is said
# A lane of its own: seconds of scoring must not keep those waiting who decode one text.
SCORE = {**INFER, "concurrency_id": "score"}
score_on_gpu = on_gpu(score_pairs)


class OwnPairsView(ClientView):
    """The scores, what was left out, and a sortable table. Event ``decode`` (``gr.EventData`` with ``source``)."""

    script = "own_pairs"


def build_own_pairs(shared: Shared) -> None:
    """Lay the section out, closed, and wire it."""
    add = shared.texts.add
    with add(gr.Accordion(open=False, elem_classes="gf-own-pairs"), label="own_pairs.title"):
        gr.HTML(
            '<p class="gf-own-pairs-explain" data-text="own_pairs.explain"></p>',
            js_on_load="glassformer.translate(element)",
        )
        text = add(
            gr.Textbox(lines=5, max_lines=10, max_length=LARGEST_OWN_TEXT + 1, elem_classes="gf-own-pairs-text"),
            label="own_pairs.text",
            placeholder="own_pairs.placeholder",
        )
        with gr.Row(elem_classes="gf-own-pairs-buttons"):
            score = add(gr.Button(scale=0, min_width=120, elem_classes="gf-own-pairs-score"), value="own_pairs.score")
            # Any file may be chosen: what cannot be used is answered in the visitor's language.
            opened = add(gr.UploadButton(type="filepath", scale=0, min_width=150), label="own_pairs.open")
            example = add(gr.Button(scale=0, min_width=150), value="own_pairs.example")
        note = gr.HTML("", elem_classes="gf-own-pairs-note")
        view = OwnPairsView()
    _wire(shared, text, score, opened, example, note, view)


def _wire(
    shared: Shared, text: gr.Textbox, score: gr.Button, opened: gr.UploadButton, example: gr.Button, note: gr.HTML,
    view: OwnPairsView,
) -> None:
    @or_problem(2)
    def score_text(pasted: object, session: Session, device: str, language: str) -> tuple:
        checkpoint = session.checkpoint
        pairs = own_pairs_of(checkpoint, pasted)
        device = checked_device(device)
        scores = (score_pairs if device == "cpu" else score_on_gpu)(
            checkpoint, pairs.pairs, device=device, seconds=SECONDS
        )
        if scores is None:
            raise InputError("own_pairs_unreadable", limit=checkpoint.model.config.max_len - 1, n=len(pairs.pairs))
        values = {"n": len(scores.results), "s": f"{scores.seconds:.1f}", "device": device.upper()}
        return scores_payload(pairs, scores, checkpoint), status_line(say(language, "own_pairs.scored", **values))

    score.click(
        score_text,
        [text, shared.session, shared.device, shared.language],
        [view, note],
        show_progress_on=note,
        api_visibility="private",
        **SCORE,
    )

    @or_problem(2)
    def open_file(path: str | None, session: Session, language: str) -> tuple:
        content, n, is_cut = read_file(path, session.checkpoint)
        key = "own_pairs.opened_cut" if is_cut else "own_pairs.opened"
        return content, status_line(say(language, key, name=Path(path).name, n=n, most=MOST_OWN_PAIRS))

    opened.upload(open_file, [opened, shared.session, shared.language], [text, note], **PRIVATE)

    @or_problem(2)
    def fill_in(session: Session, language: str) -> tuple:
        pairs = example_pairs(session.checkpoint)
        if not pairs:
            return gr.skip(), status_line(say(language, "own_pairs.no_example"))
        filled = "\n".join("\t".join(pair) for pair in pairs)
        return filled, status_line(say(language, "own_pairs.filled", n=len(pairs)))

    example.click(fill_in, [shared.session, shared.language], [text, note], **PRIVATE)

    shown = [shared.session, shared.channel, shared.text, shared.examples, shared.status]

    @or_problem(len(shown))
    def show(session: Session, device: str, language: str, event: gr.EventData) -> tuple:
        """The source of a row becomes the run on display."""
        session = run_text(session, sent(event, "source"), device)
        facts = status_line(run_facts(language, session))
        return session, payload_of(session), session.trace.text, gr.update(value=None), facts

    view.decode(
        show,
        [shared.session, shared.device, shared.language],
        shown,
        show_progress_on=shared.status,
        api_visibility="private",
        **INFER,
    )


def own_pairs_of(checkpoint: Checkpoint, pasted: object) -> OwnPairs:
    """The pairs in a pasted text; the columns may be named as the model's task names them. Raises InputError."""
    target = getattr(TASKS.get(checkpoint.task), "target", None)
    columns = () if target is None else ("en", target)
    return parse_own_pairs(pasted if isinstance(pasted, str) else "", *columns)


def read_file(path: str | None, checkpoint: Checkpoint) -> tuple[str, int, bool]:
    """The text of an uploaded file, which is deleted once read, how many pairs it has, and whether it was cut."""
    if not path:
        raise InputError("own_pairs_file", name="")
    try:
        content, is_cut = read_own_text(path, Path(path).name)
    finally:
        Path(path).unlink(missing_ok=True)
    pairs = own_pairs_of(checkpoint, content)
    return content, len(pairs.pairs), is_cut or pairs.is_cut


def example_pairs(checkpoint: Checkpoint) -> list[tuple[str, str]]:
    """The page's example texts with what their task knows to be right."""
    of_task = TASKS.get(checkpoint.task)
    if of_task is None:
        return []
    pairs = [(text, of_task.reference(text)) for text in of_task.examples]
    return [pair for pair in pairs if pair[1]]


def scores_payload(pairs: OwnPairs, scores: PairScores, checkpoint: Checkpoint) -> str:
    """The JSON text of ``OwnPairsView``: numbers, what was left out as keys of the words, and a row a pair."""
    said = []
    if pairs.n_skipped:
        said.append(("skipped", {"n": pairs.n_skipped, "columns": pairs.n_columns, "empty": pairs.n_empty,
                                 "long": pairs.n_long, "limit": LONGEST_OWN_SIDE}))
    if scores.n_unreadable:
        said.append(("unreadable", {"n": scores.n_unreadable, "limit": checkpoint.model.config.max_len - 1}))
    if scores.n_not_reached:
        said.append(("time_up", {"n": scores.n_not_reached, "s": f"{SECONDS:.0f}"}))
    if pairs.is_cut:
        said.append(("cut", {"pairs": MOST_OWN_PAIRS, "lines": f"{MOST_OWN_LINES:,}"}))
    return json.dumps(
        {
            "scores": {
                "bleu": f"{scores.bleu:.1f}",
                "chrf": f"{scores.chrf:.1f}",
                "exact": f"{scores.exact_match:.1%}".replace("%", " %"),
            },
            "bleu_unit": "characters" if scores.tokenizer == "zh" else "words",
            "facts": [{"key": key, "values": values} for key, values in said],
            "rows": [
                {"source": result.source, "reference": result.expected, "written": result.written,
                 "score": round(chrf, 1), "exact": result.is_exact}
                for result, chrf in zip(scores.results, scores.chrf_of_each, strict=True)
            ],
        },
        ensure_ascii=False,
    )
