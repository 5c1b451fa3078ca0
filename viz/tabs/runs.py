"""From a visitor's text to a run on display, and the run as the browser takes it."""

from __future__ import annotations

from transformer.checkpoints import Checkpoint
from transformer.devices import checked_device
from transformer.tasks import TASKS
from transformer.tracing import Trace, trace_text
from viz.payload import token_chips, trace_payload
from viz.tabs.language import say
from viz.tabs.session import Session
from viz.tabs.zero_gpu import on_gpu

trace_on_gpu = on_gpu(trace_text)


def payload_of(trace: Trace) -> str:
    """The JSON text that ``TraceChannel`` hands to every view in the browser."""
    return trace_payload(
        trace_id=trace.id,
        source=token_chips(trace.src_tokens, trace.src_pieces),
        target_in=token_chips(trace.tgt_in_tokens),
        steps=[(step.token, step.log_prob, step.candidates) for step in trace.steps],
        patterns=trace.patterns,
        task=trace.task,
        finished=trace.finished,
        log_prob=trace.log_prob,
    )


def trained_length(checkpoint: Checkpoint) -> int | None:
    """The longest input, in symbols, that a model was trained on; None where its meta does not say."""
    return checkpoint.meta.get("trained_lengths", (None, None))[1]


def run_facts(language: str, session: Session) -> str:
    """What to know of the run on display: its time and place, whether it ended, whether the model knew such input."""
    trace = session.trace
    facts = [
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


def run_text(session: Session, text: str, device: str) -> Session:
    """The session with ``text`` decoded by its model on ``device``. Raises InputError for what cannot be read."""
    text = text if isinstance(text, str) else ""  # a program may send anything in its place
    trace = (trace_text if device == "cpu" else trace_on_gpu)(session.checkpoint, text, device=checked_device(device))
    return session.with_trace(trace)


def example_texts(task_name: str) -> list[str]:
    """The examples the page offers for a task."""
    return list(TASKS[task_name].examples) if task_name in TASKS else []
