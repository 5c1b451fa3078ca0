"""From a visitor's text to a run on display, and the run as the browser takes it."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np

from transformer.beam_search import length_divisor
from transformer.checkpoints import Checkpoint
from transformer.devices import checked_device
from transformer.tasks import TASKS
from transformer.tracing import Trace, trace_text
from viz.payload import token_chips, trace_payload
from viz.tabs.action_log import note
from viz.tabs.language import say
from viz.tabs.session import Session
from viz.tabs.zero_gpu import on_gpu

trace_on_gpu = on_gpu(trace_text)


def payload_of(session: Session, step: int | None = None) -> str:
    """The JSON text that ``TraceChannel`` hands to every view in the browser: the run on display, how it came about.

    ``step`` is the step to show first; None: the last one.
    """
    trace = session.trace
    return run_payload(
        trace,
        task=trace.task,
        search=trace.search,
        n_forced=trace.n_forced,
        written=[each.token for each in trace.steps],
        change=_latest_change(session),
        is_fixed=session.matching_checkpoint is None,
        tree=tree_key(session),
        step=step,
    )


def run_payload(
    trace: Trace,
    *,
    patterns: dict[str, np.ndarray] | None = None,
    n_candidates: int | None = None,
    **facts: object,
) -> str:
    """The JSON text of any run, as ``glassformer.headPattern`` reads it; ``facts`` are further plain values.

    ``patterns`` are drawn in the place of the run's own; ``n_candidates`` a step are sent, None: all there are.
    """
    return trace_payload(
        trace_id=trace.id,
        source=token_chips(trace.src_tokens, trace.src_pieces),
        target_in=token_chips(trace.tgt_in_tokens),
        steps=[(step.token, step.log_prob, step.candidates[:n_candidates]) for step in trace.steps],
        patterns=trace.patterns if patterns is None else patterns,
        finished=trace.finished,
        log_prob=trace.log_prob,
        **facts,
    )


def _latest_change(session: Session) -> dict | None:
    """What was put into the run on display last, and how many changes there are to undo."""
    if not session.changes:
        return None
    change = session.changes[-1]
    place = change.step - 1
    now, before = session.trace.steps, change.before.steps
    return {
        "n": len(session.changes),
        "step": change.step,
        "put_in": change.put_in,
        "is_branch": change.is_branch,
        "token": token_chips([now[place].token])[0],
        "instead": token_chips([before[place].token])[0] if place < len(before) else None,
    }


def tree_key(session: Session) -> str | None:
    """What the search tree of the run on display depends on; None when no model here made the run."""
    checkpoint = session.matching_checkpoint
    if checkpoint is None:
        return None
    settings = {**asdict(session.search), "method": None}
    weights = checkpoint.meta.get("sha256") or id(checkpoint.model)
    return json.dumps([checkpoint.name, weights, session.trace.text, settings])


def trained_length(checkpoint: Checkpoint) -> int | None:
    """The longest input, in symbols, that a model was trained on; None where its meta does not say."""
    return checkpoint.meta.get("trained_lengths", (None, None))[1]


def run_facts(language: str, session: Session) -> str:
    """What to know of the run on display: its time and place, whether it ended, whether the model knew such input."""
    trace = session.trace
    facts = [
        search_fact(language, session),
        say(language, "runs.time", n=len(trace.steps), ms=f"{trace.milliseconds:.0f}", device=trace.device.upper()),
        say(language, "runs.finished" if trace.finished else "runs.no_eos", n=len(trace.steps)),
    ]
    n_unknown = trace.src_tokens.count("<unk>")
    if n_unknown:
        facts.append(say(language, "runs.unknown", n=n_unknown))
    checkpoint = session.matching_checkpoint
    limit = trained_length(checkpoint) if checkpoint is not None else None
    n_symbols = sum(token not in ("<eos>", "<pad>") for token in trace.src_tokens)
    if limit and n_symbols > limit:
        facts.append(say(language, "runs.longer_than_trained", limit=limit, n=n_symbols))
    return " ".join(facts)


def search_fact(language: str, session: Session) -> str:
    """Which search wrote the run on display, after which given tokens, and its total log-probability."""
    trace, search = session.trace, session.search
    values = {
        "log_prob": f"{trace.log_prob:.3f}".replace("-", "−"),
        "width": search.beam_width,
        "seed": search.seed,
        "temperature": f"{search.temperature:g}",
    }
    if session.opened:
        fact = say(language, "runs.opened", search=trace.search, **values)
    elif trace.search == "beam":
        score = trace.log_prob / length_divisor(len(trace.steps), search.length_penalty)
        fact = say(language, "runs.beam", score=f"{score:.3f}".replace("-", "−"), **values)
    else:
        fact = say(language, f"runs.{trace.search}", **values)
    return fact if not trace.n_forced else f"{say(language, 'runs.forced', n=trace.n_forced)} {fact}"


def run_text(session: Session, text: str, device: str) -> Session:
    """The session with ``text`` decoded by its model and its search. Raises InputError for what cannot be read."""
    text = text if isinstance(text, str) else ""  # a program may send anything in its place
    return session.with_trace(traced(session.checkpoint, text, device, search=session.search))


def traced(checkpoint: Checkpoint, text: str, device: str, **options: object) -> Trace:
    """``trace_text`` on ``device``, which is checked."""
    device = checked_device(device)
    note(device=device)
    return (trace_text if device == "cpu" else trace_on_gpu)(checkpoint, text, device=device, **options)


def example_texts(task_name: str) -> list[str]:
    """The examples the page offers for a task."""
    return list(TASKS[task_name].examples) if task_name in TASKS else []
