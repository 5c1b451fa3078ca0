"""Decode: the stage on which a target is written token by token, the tree of what else could be, and run files."""

from __future__ import annotations

from pathlib import Path

import gradio as gr

from transformer.errors import InputError
from transformer.tasks import TASKS
from transformer.trace_files import load_trace, trace_to_json
from transformer.tracing import Trace
from viz.tabs.branches import wire_branches
from viz.tabs.components import ClientView
from viz.tabs.header import model_choices
from viz.tabs.language import say
from viz.tabs.limits import keep_for_download
from viz.tabs.own_pairs import build_own_pairs
from viz.tabs.reference import build_reference
from viz.tabs.runs import example_texts, payload_of
from viz.tabs.session import Session
from viz.tabs.shared import INFER, PRIVATE, Shared, or_problem, status_line
from viz.tabs.tree import build_tree

# Presses the hidden download link once the server has put a file behind it.
DOWNLOAD_SCRIPT = """(file) => {
  if (!file) return;
  const link = document.createElement("a");
  Object.assign(link, { href: file.url, download: file.orig_name });
  link.click();
}"""


class Stage(ClientView):
    """The run on display, step by step: tokens, lines of attention, candidates, every head.

    Drawn from ``glassformer.trace`` and ``glassformer.selection`` alone; it needs no value. Events: ``force``
    (``gr.EventData`` with ``step`` and ``candidate``, a place among that step's, or ``text``, a token as typed) and
    ``back`` (with ``all``).
    """

    script = "stage"
    script_parts = ("stage_model", "change", "stage_flow", "stage_candidates", "stage_marks", "stage_maps")
    sends = ("force", "back")


def build_decode_tab(shared: Shared) -> None:
    """Lay the tab out."""
    stage = Stage(elem_classes="gf-stage-box")
    tree = build_tree(shared)
    wire_branches(shared, stage, tree)
    build_reference(shared)
    build_own_pairs(shared)
    add = shared.texts.add
    with gr.Row(elem_classes="gf-run-files", equal_height=True):
        gr.HTML(
            '<h3 data-text="decode.files"></h3><p data-text="decode.files_explain"></p>',
            js_on_load="glassformer.translate(element)",
            elem_classes="gf-run-files-words",
        )
        save = add(gr.Button(scale=0, min_width=170, elem_classes="gf-run-save"), value="decode.save")
        opened = add(
            gr.UploadButton(
                file_types=[".json"], type="filepath", scale=0, min_width=190, elem_classes="gf-run-open"
            ),
            label="decode.open",
        )
        file = gr.DownloadButton(visible="hidden")
    _wire_files(shared, save, opened, file)


def _wire_files(shared: Shared, save: gr.Button, opened: gr.UploadButton, file: gr.DownloadButton) -> None:
    """Save the run on display; open another."""

    @or_problem(2)
    def save_run(session: Session, language: str) -> tuple:
        content = trace_to_json(session.trace).encode()
        # The task of an opened run is somebody's text.
        task = session.trace.task if session.trace.task in TASKS else "run"
        path = keep_for_download(content, f"glassformer-{task}.json", file.GRADIO_CACHE)
        return path, status_line(say(language, "decode.saved", n=len(session.trace.steps)))

    save.click(save_run, [shared.session, shared.language], [file, shared.status], **PRIVATE).then(
        None, file, None, js=DOWNLOAD_SCRIPT
    )

    outputs = [shared.session, shared.channel, shared.model, shared.text, shared.examples, shared.status]

    @or_problem(len(outputs))
    def open_run(path: str | None, session: Session, language: str) -> tuple:
        session = session.with_opened_trace(read_run(path))
        trace = session.trace
        key = "decode.opened" if session.matching_checkpoint is not None else "decode.opened_no_model"
        sentence = say(language, key, model=trace.model, n=len(trace.steps))
        picked = gr.update(choices=model_choices(language, session), value=session.model_name)
        examples = gr.update(choices=example_texts(session.checkpoint.task), value=None)
        return session, payload_of(session), picked, trace.text, examples, status_line(sentence)

    opened.upload(
        open_run,
        [opened, shared.session, shared.language],
        outputs,
        show_progress_on=shared.status,
        api_visibility="private",
        **INFER,
    )


def read_run(path: str | None) -> Trace:
    """The trace of an uploaded file, which is deleted once read. Raises InputError when it is not one."""
    if not path:
        raise InputError("trace_invalid", reason="there is no file")
    try:
        return load_trace(path)
    except OSError:
        raise InputError("trace_invalid", reason="it cannot be read") from None
    finally:
        Path(path).unlink(missing_ok=True)
