"""A visitor's own model: used in all tabs, downloaded as two files, opened again from them."""

from __future__ import annotations

from pathlib import Path

import gradio as gr

from transformer.checkpoints import META_FILE, WEIGHTS_FILE, Checkpoint, checkpoint_files, read_checkpoint
from transformer.errors import InputError
from viz.tabs.header import model_choices
from viz.tabs.language import say
from viz.tabs.limits import LARGEST_UPLOAD, keep_for_download
from viz.tabs.runs import example_texts, payload_of, run_facts, run_text
from viz.tabs.session import OWN, Session
from viz.tabs.shared import INFER, PRIVATE, Shared, or_problem, status_line

PICKLES = frozenset({".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle"})


def build_own_model(shared: Shared) -> dict[str, gr.components.Component]:
    """Lay out what can be done with a model of one's own; the components by name."""
    add = shared.texts.add
    with gr.Column(elem_classes="gf-own"):
        gr.HTML(
            '<div class="gf-train-head"><h3 data-text="train.own_title"></h3><p data-text="train.own_text"></p></div>',
            js_on_load="glassformer.translate(element)",
        )
        use = add(gr.Button(interactive=False, elem_classes="gf-own-use"), value="train.use")
        with gr.Row(elem_classes="gf-own-files"):
            download = add(gr.Button(interactive=False, min_width=120), value="train.download")
            opened = add(gr.UploadButton(file_count="multiple", type="filepath", min_width=120), label="train.open")
        files = add(
            gr.File(file_count="multiple", interactive=False, visible=False, height=110), label="train.files"
        )
        note = gr.HTML("", elem_classes="gf-train-note")
    return {"use": use, "download": download, "opened": opened, "files": files, "note": note}


def wire_own_model(shared: Shared, own: dict, model: gr.State) -> None:
    """Events of ``build_own_model``; ``model`` holds the visitor's checkpoint, or None."""
    shown = [shared.session, shared.channel, shared.model, shared.text, shared.examples, shared.status]

    @or_problem(7)
    def use(checkpoint: Checkpoint | None, session: Session, device: str, language: str) -> tuple:
        if not isinstance(checkpoint, Checkpoint):
            raise InputError("no_own_model")
        return *_in_use(checkpoint, session, device, language), status_line(say(language, "train.in_use"))

    own["use"].click(
        use,
        [model, shared.session, shared.device, shared.language],
        [*shown, own["note"]],
        api_visibility="private",
        show_progress_on=own["note"],
        **INFER,
    )

    @or_problem(2)
    def download(checkpoint: Checkpoint | None, language: str) -> tuple:
        if not isinstance(checkpoint, Checkpoint):
            raise InputError("no_own_model")
        paths = [
            keep_for_download(content, name, own["files"].GRADIO_CACHE)
            for name, content in checkpoint_files(checkpoint).items()
        ]
        return gr.update(value=paths, visible=True), status_line(say(language, "train.downloadable"))

    own["download"].click(download, [model, shared.language], [own["files"], own["note"]], **PRIVATE)

    @or_problem(10)
    def open_files(paths: list[str] | None, session: Session, device: str, language: str) -> tuple:
        checkpoint = opened_checkpoint(paths or [])
        ready = gr.update(interactive=True)
        return (
            *_in_use(checkpoint, session, device, language), checkpoint, ready, ready,
            status_line(say(language, "train.opened", task=checkpoint.task, n=f"{checkpoint.n_parameters:,}")),
        )

    own["opened"].upload(
        open_files,
        [own["opened"], shared.session, shared.device, shared.language],
        [*shown, model, own["use"], own["download"], own["note"]],
        api_visibility="private",
        show_progress_on=own["note"],
        **INFER,
    )


def _in_use(checkpoint: Checkpoint, session: Session, device: str, language: str) -> tuple:
    """The session with ``checkpoint`` in use and an example decoded by it, and what the page shows of that."""
    session = session.with_own(checkpoint)
    examples = example_texts(checkpoint.task)
    session = run_text(session, examples[0] if examples else session.trace.text, device)
    picked = gr.update(choices=model_choices(language, session), value=OWN)
    facts = status_line(run_facts(language, session))
    return (
        session, payload_of(session), picked, session.trace.text, gr.update(choices=examples, value=None), facts
    )


def opened_checkpoint(paths: list[str]) -> Checkpoint:
    """The checkpoint of two uploaded files. Raises InputError for anything else, before reading what is too large.

    A pickle is never opened: it may run any program while it is read.
    """
    files = [Path(path) for path in paths]
    for file in files:
        if file.suffix.lower() in PICKLES:
            raise InputError("upload_pickle", name=file.name)
    if len(files) != 2:
        raise InputError("upload_count", n=len(files))
    by_suffix = {file.suffix.lower(): file for file in files}
    if set(by_suffix) != {Path(WEIGHTS_FILE).suffix, Path(META_FILE).suffix}:
        raise InputError("upload_names", names=", ".join(file.name for file in files))
    size = sum(file.stat().st_size for file in files)
    if size > LARGEST_UPLOAD * 1_000_000:
        raise InputError("file_too_large", limit=LARGEST_UPLOAD, size=f"{size / 1_000_000:.1f}")
    return read_checkpoint(by_suffix[".safetensors"].read_bytes(), by_suffix[".json"].read_bytes())
