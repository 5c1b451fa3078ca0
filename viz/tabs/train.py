"""Train: choose a network, watch it learn, and take it along to all other tabs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import gradio as gr
from gradio.context import Context

from transformer.checkpoints import Checkpoint
from transformer.config import POSITIONAL_ENCODINGS
from transformer.errors import InputError
from transformer.tasks import TRAINED_ON_THE_PAGE
from viz.tabs.components import PlotlyChart
from viz.tabs.language import say, say_error
from viz.tabs.own_models import build_own_model, wire_own_model
from viz.tabs.shared import PRIVATE, Shared, status_line
from viz.tabs.training_settings import NAMES, NORMS, RANGES, default_settings, job_of
from viz.tabs.training_views import (
    Seen,
    TrainingCurves,
    TrainingTimeline,
    chart_of,
    curves_of,
    shipped_curves,
    shipped_history,
    shipped_timeline,
    timeline_of,
)
from viz.tabs.training_worker import Training, Trainings
from viz.training import CHARTS

POLL_SECONDS = 0.25
FIRST_TASK = next(iter(TRAINED_ON_THE_PAGE))
HEAD_CHOICES = (1, 2, 4, 6, 8)
# Followers wait without a thread of their own, and the line of trainings is bounded, so none waits for another.
FOLLOW = {"concurrency_id": "train", "concurrency_limit": None, "show_progress": "hidden"}


def build_train_tab(shared: Shared) -> None:
    """Lay the tab out."""
    trainings = shared.trainings
    with gr.Row(elem_classes="gf-train"):
        with gr.Column(elem_classes="gf-train-side", scale=0, min_width=320):
            gr.HTML(_heading("setup"), js_on_load="glassformer.translate(element)")
            with gr.Row(elem_classes="gf-train-buttons"):
                start = shared.texts.add(gr.Button(variant="primary", elem_classes="gf-train-go"), value="train.start")
                stop = shared.texts.add(
                    gr.Button(variant="stop", interactive=False, elem_classes="gf-train-stop"), value="train.stop"
                )
            note = gr.HTML("", elem_classes="gf-train-note")
            settings = _build_settings(shared)
            own = build_own_model(shared)
            with gr.Column(elem_classes="gf-train-check"):
                gr.HTML(_heading("fit", "h3"), js_on_load="glassformer.translate(element)")
                fit = shared.texts.add(gr.Button(elem_classes="gf-train-fit"), value="train.fit_start")
        with gr.Column(elem_classes="gf-train-main", min_width=320):
            curves = TrainingCurves(shipped_curves(FIRST_TASK))
            timeline = TrainingTimeline(shipped_timeline(FIRST_TASK))
            gr.HTML(_heading("charts"), js_on_load="glassformer.translate(element)")
            with gr.Row(elem_classes="gf-train-charts"):
                worded = [(say("en", f"train.chart_{name}"), name) for name in CHARTS]
                which = shared.texts.add(
                    gr.Radio(worded, value="right", elem_classes="gf-segmented", show_label=False, container=False),
                    choices=[(f"train.chart_{name}", name) for name in CHARTS], label="train.which",
                )
                log = shared.texts.add(gr.Checkbox(container=False, elem_classes="gf-train-log"), label="train.log")
            chart = PlotlyChart()
    own_model = gr.State(None)
    _wire_training(shared, trainings, settings, {
        "start": start, "fit": fit, "stop": stop, "note": note, "curves": curves, "timeline": timeline,
        "own": own_model, "use": own["use"], "download": own["download"], "files": own["files"],
    })
    _wire_charts(shared, trainings, which, log, chart, settings["task"], curves)
    _wire_task(trainings, settings, curves, timeline)
    wire_own_model(shared, own, own_model)


def _heading(name: str, level: str = "h2") -> str:
    return (
        f'<div class="gf-train-head"><{level} data-text="train.{name}_title"></{level}>'
        f'<p data-text="train.{name}_text"></p></div>'
    )


def _build_settings(shared: Shared) -> dict[str, gr.components.Component]:
    """The controls by the names of ``NAMES``: four for everyone, the rest folded away."""
    default, add = default_settings(FIRST_TASK), shared.texts.add

    def radio(name: str, choices: list[tuple[str, str]]) -> gr.Radio:
        # Gradio checks a choice against those it was made with, so they are given here, too.
        worded = [(say("en", key), value) for key, value in choices]
        made = gr.Radio(worded, value=default[name], elem_classes="gf-segmented")
        return add(made, choices=choices, label=f"train.{name}")

    def slider(name: str, step: int = 1) -> gr.Slider:
        lowest, highest = RANGES[name]
        return add(gr.Slider(lowest, highest, default[name], step=step), label=f"train.{name}")

    settings = {
        "task": radio("task", [(f"train.task_{name}", name) for name in TRAINED_ON_THE_PAGE]),
        "n_heads": add(
            gr.Radio([(str(n), n) for n in HEAD_CHOICES], value=default["n_heads"], elem_classes="gf-segmented"),
            label="train.n_heads",
        ),
        "positional_encoding": radio(
            "positional_encoding", [(f"train.positions_{name}", name) for name in POSITIONAL_ENCODINGS]
        ),
        "norm": radio("norm", [(f"train.norm_{name}", name) for name in NORMS]),
    }
    with add(gr.Accordion(open=False, elem_classes="gf-train-more"), label="train.more"):
        settings |= {
            "d_model": slider("d_model", 4),
            "n_encoder_layers": slider("n_encoder_layers"),
            "n_decoder_layers": slider("n_decoder_layers"),
            "learning_rate": add(
                gr.Number(default["learning_rate"], step=0.0005), label="train.learning_rate", info="train.rate_info"
            ),
            "warmup_steps": slider("warmup_steps", 10),
            "batch_size": slider("batch_size"),
            "steps": slider("steps", 10),
            "max_length": slider("max_length"),
            "seed": add(gr.Number(default["seed"], precision=0), label="train.seed", info="train.seed_info"),
        }
    return settings


def _wire_training(shared: Shared, trainings: Trainings, settings: dict, parts: dict) -> None:
    """Train, Stop, the check on one batch, and leaving the page."""
    outputs = list(parts.values())

    async def begin(request: gr.Request, fixed_batch: bool, values: tuple, device: str, language: str) -> AsyncIterator:
        try:
            asked = dict(zip(NAMES, values, strict=True))
            job = job_of(asked, device=device, fixed_batch=fixed_batch, seconds=trainings.seconds, language=language)
            training = trainings.start(request.session_hash, job)
        except InputError as error:
            yield {parts["note"]: status_line(say_error(language, error), "problem")}
            return
        try:
            async for shown in _followed(training, parts):
                yield shown
        finally:
            training.stop()  # it is over; or nobody follows it, because the connection broke

    async def train(request: gr.Request, *values: object) -> AsyncIterator:
        async for shown in begin(request, False, values[:-2], *values[-2:]):
            yield shown

    async def fit(request: gr.Request, *values: object) -> AsyncIterator:
        async for shown in begin(request, True, values[:-2], *values[-2:]):
            yield shown

    inputs = [*(settings[name] for name in NAMES), shared.device, shared.language]
    parts["start"].click(train, inputs, outputs, api_name="train", api_visibility="private", **FOLLOW)
    parts["fit"].click(fit, inputs, outputs, api_visibility="private", **FOLLOW)

    def stop(request: gr.Request) -> None:
        trainings.stop(request.session_hash)

    parts["stop"].click(stop, None, None, **PRIVATE)

    def leave(request: gr.Request) -> None:
        trainings.forget(request.session_hash)

    Context.root_block.unload(leave)

    def all_again(request: gr.Request) -> tuple:
        training = trainings.of(request.session_hash)
        if training is None:
            return gr.skip(), gr.skip()
        until = Seen.all_of(training)
        return curves_of(training, Seen(), until), timeline_of(training, Seen(), until)

    for view in (parts["curves"], parts["timeline"]):
        view.gap(all_again, None, [parts["curves"], parts["timeline"]], **PRIVATE)


async def _followed(training: Training, parts: dict) -> AsyncIterator[dict]:
    """What changes on the page while ``training`` goes on: only new points, at most four times a second."""
    idle, busy = gr.update(interactive=True), gr.update(interactive=False)
    yield {parts["note"]: "", parts["start"]: busy, parts["fit"]: busy, parts["stop"]: idle}
    seen, place = Seen(), None
    while True:
        is_over = training.is_over  # asked before looking: once it is, nothing more is added
        until = Seen.all_of(training)
        shown = {}
        if is_over or until != seen or training.place != place:
            place = training.place
            shown[parts["curves"]] = curves_of(training, replace(seen), until)
        if is_over or until.snapshots > seen.snapshots:
            shown[parts["timeline"]] = timeline_of(training, seen, until)
        if is_over:
            checkpoint: Checkpoint | None = training.outcome.checkpoint
            shown |= {parts["start"]: idle, parts["fit"]: idle, parts["stop"]: busy}
            if checkpoint is not None:
                shown |= {parts["own"]: checkpoint, parts["use"]: idle, parts["download"]: idle,
                          parts["files"]: gr.update(visible=False)}
            yield shown
            return
        if shown:
            yield shown
            seen = until
        await asyncio.sleep(POLL_SECONDS)


def _wire_charts(
    shared: Shared, trainings: Trainings, which: gr.Radio, log: gr.Checkbox, chart: PlotlyChart, task: gr.Radio,
    curves: TrainingCurves,
) -> None:
    """The finished run, or how the shipped model of the chosen task was trained, as a chart."""

    def draw(request: gr.Request, which: str, log: bool, task_name: str, language: str) -> str:
        training = trainings.of(request.session_hash)
        history = training.history if training is not None and training.is_over else None
        if history is None or not history.evaluations:
            history = shipped_history(task_name) if task_name in TRAINED_ON_THE_PAGE else None
        drawn = chart_of(history, which if which in CHARTS else "loss", bool(log), language)
        return "" if drawn is None else drawn.to_json(filename="glassformer-training")

    event = {"inputs": [which, log, task, shared.language], "outputs": chart, **PRIVATE}
    for listen in (chart.refresh, which.input, log.input, task.input, curves.finished):
        listen(draw, **event)


def _wire_task(trainings: Trainings, settings: dict, curves: TrainingCurves, timeline: TrainingTimeline) -> None:
    """Another task brings its own defaults where they were not touched, and its shipped model's training."""
    names = [name for name in NAMES if name != "task"]
    defaults = {name: default_settings(name) for name in TRAINED_ON_THE_PAGE}

    def choose(request: gr.Request, task_name: str, *values: object) -> tuple:
        if task_name not in TRAINED_ON_THE_PAGE:
            return tuple(gr.skip() for _ in range(2 + len(names)))
        untouched = [
            defaults[task_name][name] if value in {of_task[name] for of_task in defaults.values()} else gr.skip()
            for name, value in zip(names, values, strict=True)
        ]
        if trainings.of(request.session_hash) is not None:
            return gr.skip(), gr.skip(), *untouched
        return shipped_curves(task_name), shipped_timeline(task_name), *untouched

    controls = [settings[name] for name in names]
    settings["task"].input(choose, [settings["task"], *controls], [curves, timeline, *controls], **PRIVATE)
