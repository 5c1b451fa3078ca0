"""Break the training: a healthy and a faulty training from the same seed, their curves laid over each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from functools import cache

import gradio as gr

from transformer.errors import InputError
from transformer.fault_pairs import recorded_pairs
from transformer.history import History
from transformer.tasks import task as task_named
from transformer.training_faults import TRAINING_FAULTS
from viz.lab_training import as_json, mean_ratio, pair_payload, side_figures, verdict
from viz.tabs.components import ClientView
from viz.tabs.language import say_error
from viz.tabs.shared import PRIVATE, QUIET, Shared, sent
from viz.tabs.training_pair import PairJob, Side, TrainingPair, pair_job
from viz.tabs.training_views import Seen, points_of
from viz.training import curves_delta

POLL_SECONDS = 0.25
SECONDS = 90.0  # for both sides of a pair together: three times what the slowest takes on an idle machine
CURVES = ("loss", "token_accuracy")
# Followers wait without a thread of their own, and the line of trainings is bounded, so none waits for another.
FOLLOW = {
    "concurrency_id": "train", "concurrency_limit": None, "show_progress": "hidden", "trigger_mode": "multiple",
    "api_visibility": "private",
}


class TrainingPairView(ClientView):
    """The training faults, and the curves, samples and verdict of the pair of the chosen one.

    ``value`` is JSON: ``records`` {fault: pair}, ``pair`` (a delta of one that goes on), or ``problem`` (a sentence).
    Events: ``ask`` on first show; ``train`` {fault}; ``halt``; ``gap`` when points were missed.
    """

    script = "lab_training"
    script_parts = ("training_panel",)


def build_training_pairs(shared: Shared) -> None:
    """Lay the bench out; it trains nothing before it is told to."""
    trainings = shared.trainings
    view = TrainingPairView(elem_classes="gf-pair-box")

    def ask() -> str:
        return records_payload()

    async def train(request: gr.Request, language: str, event: gr.EventData) -> AsyncIterator[str]:
        try:
            job = pair_job(str(sent(event, "fault"))[:60], min(SECONDS, trainings.seconds))
            pair = trainings.start(request.session_hash, job, TrainingPair)
        except InputError as error:
            yield as_json(problem=say_error(language, error))
            return
        async for payload in followed(pair):
            yield payload

    def halt(request: gr.Request) -> None:
        trainings.stop(request.session_hash, TrainingPair)

    def all_again(request: gr.Request) -> str:
        pair = trainings.of(request.session_hash, TrainingPair)
        return gr.skip() if pair is None else as_json(pair=payload_of_pair(pair, {}, _seen(pair)))

    view.ask(ask, None, view, **QUIET)
    view.train(train, shared.language, view, **FOLLOW)
    view.halt(halt, None, None, **PRIVATE)
    view.gap(all_again, None, view, **PRIVATE)


async def followed(pair: TrainingPair) -> AsyncIterator[str]:
    """What is new of a pair, at most four times a second, until it is over."""
    seen: dict[str, Seen] = {}
    shown = None
    while True:
        is_over = pair.is_over  # asked before looking: once it is, nothing more is added
        until, place = _seen(pair), pair.place
        if is_over or (until, place) != shown:
            yield as_json(pair=payload_of_pair(pair, seen, until, is_over))
            seen, shown = until, (until, place)
        if is_over:
            return
        await asyncio.sleep(POLL_SECONDS)


def _seen(pair: TrainingPair) -> dict[str, Seen]:
    return {
        name: Seen(len(side.history.steps), len(side.history.evaluations)) for name, side in pair.sides.items()
    }


def payload_of_pair(
    pair: TrainingPair, since: Mapping[str, Seen], until: Mapping[str, Seen], is_over: bool = False
) -> dict:
    """What the view needs of a visitor's pair to get from ``since`` to ``until``."""
    outcome = pair.outcome
    if is_over and outcome is not None:
        state = {"code": outcome.code, "values": {name: outcome.values.get(name) for name in ("step", "reason")}}
    else:
        state = {"code": "waiting" if pair.place else "running", "values": {"place": pair.place}}
    return _payload(
        pair.id, "training", pair.job, pair.sides, since, until, state=state, seconds=round(pair.seconds, 1),
    )


@cache
def records_payload() -> str:
    """The pairs that were recorded, one a fault, in the order of the list."""
    recorded = recorded_pairs()
    pairs = {}
    for name in TRAINING_FAULTS:
        sides = {side: Side(record.history, record.diverged) for side, record in recorded[name].items()}
        until = {side: Seen(len(kept.history.steps), len(kept.history.evaluations)) for side, kept in sides.items()}
        seconds = sum(last_second(side.history) for side in sides.values())
        pairs[name] = _payload(
            f"recorded-{name}", "recorded", pair_job(name, SECONDS), sides, {}, until,
            state={"code": "recorded", "values": {}}, seconds=round(seconds, 1),
        )
    return as_json(records=pairs)


def last_second(history: History) -> float:
    """The training time of a history, in seconds."""
    return max((entry.seconds for entry in (*history.steps, *history.evaluations)), default=0.0)


def _payload(
    run: str, kind: str, job: PairJob, sides: Mapping[str, Side], since: Mapping[str, Seen], until: Mapping[str, Seen],
    **facts: object,
) -> dict:
    of_task = task_named(job.task)
    shown, figures = {}, {}
    for name, side in sides.items():
        start, end = since.get(name, Seen()), until[name]
        steps, evaluations = side.history.steps, side.history.evaluations
        points = points_of(
            of_task, steps[start.steps : end.steps], start.steps, evaluations[start.evaluations : end.evaluations],
            start.evaluations, CURVES,
        )
        figures[name] = side_figures(
            [entry.loss for entry in steps[: end.steps]],
            [entry.token_accuracy for entry in steps[: end.steps]],
            [{"step": entry.step, "exact_match": entry.exact_match, "n": entry.n}
             for entry in evaluations[: end.evaluations]],
            side.diverged,
        )
        shown[name] = curves_delta(**points, figures=figures[name])
    losses = ([entry.loss for entry in sides[name].history.steps[: until[name].steps]] for name in sides)
    samples = sides["faulty"].history.evaluations[-1].samples if until["faulty"].evaluations else ()
    return pair_payload(
        run=run, kind=kind, fault=job.fault, sides=shown, task=of_task.name, total=job.steps, limit=job.seconds,
        setting=setting_of(job),
        verdict=verdict(
            figures["healthy"], figures["faulty"], mean_ratio(*losses), sum(not sample.written for sample in samples),
            len(samples),
        ),
        **facts,
    )


def setting_of(job: PairJob) -> dict[str, object]:
    """What both sides are trained with, for the visitor to read."""
    model, training = job.sides["healthy"].model_config, job.sides["healthy"].training_config
    return {
        **{name: getattr(model, name) for name in ("d_model", "n_heads", "n_encoder_layers", "n_decoder_layers")},
        **{name: getattr(training, name) for name in ("batch_size", "learning_rate", "warmup_steps", "max_length")},
    }
