"""What the lab's benches compare: the run on display, and the same text decoded once more under other conditions."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import gradio as gr

from transformer.checkpoints import Checkpoint
from transformer.conditions import Conditions
from transformer.errors import InputError
from transformer.search import Search
from transformer.tracing import Trace, trace_text, written_ids
from viz.surgery import outcome_payload
from viz.tabs.language import say_error
from viz.tabs.runs import run_payload
from viz.tabs.session import Session
from viz.tabs.shared import sent

N_CANDIDATES = 3


@dataclass(frozen=True, eq=False)
class Bench:
    """A run that can be repeated: its model, itself, and what it was decoded with."""

    checkpoint: Checkpoint
    before: Trace
    search: Search
    prefix: tuple[int, ...]  # ids that were given and not chosen
    n_padding: int
    is_example: bool  # no model here made the run on display, so an example stands in its place
    made_for: str  # the id of the run on display, by which an answer that comes late is known

    def again(self, conditions: Conditions) -> Trace:
        """The same text, search and prefix under other conditions."""
        return self._decoded(self.search, self.prefix, conditions=conditions)

    def forced(self, conditions: Conditions) -> Trace:
        """The output of ``before`` fed token by token under other conditions, whatever the model thinks of it."""
        written = tuple(written_ids(self.checkpoint, self.before))
        return self._decoded(Search(), written, conditions=conditions, max_steps=len(written))

    def _decoded(self, search: Search, prefix: tuple[int, ...], **options: object) -> Trace:
        return trace_text(
            self.checkpoint, self.before.text, search=search, prefix=prefix, n_padding=self.n_padding, **options
        )


def bench_of(session: Session) -> Bench:
    """What the benches work on for this visitor.

    The run on display is taken as it is where decoding again gives just that. Where it may not (a beam or a sample
    made with settings that have been changed since), the settings now in use make it anew, so that before and after
    differ by what is done on the bench and by nothing else.
    """
    is_example, made_for = session.matching_checkpoint is None, session.trace.id
    session = session.recomputable
    checkpoint, trace = session.matching_checkpoint, session.trace
    config = checkpoint.model.config
    bench = Bench(
        checkpoint=checkpoint,
        before=trace,
        search=replace(session.search, method=trace.search),
        prefix=tuple(written_ids(checkpoint, trace)[: trace.n_forced]),
        n_padding=trace.src_ids.count(config.pad_id),
        is_example=is_example,
        made_for=made_for,
    )
    is_whole = trace.finished or len(trace.steps) >= config.max_len
    if trace.search == "greedy" and is_whole:
        return bench
    return replace(bench, before=bench.again(Conditions()))


def bench_payload(trace: Trace) -> str:
    """A run with nothing but what a bench shows."""
    return run_payload(trace, n_candidates=N_CANDIDATES, task=trace.task, model=trace.model)


def outcome_of(bench: Bench, conditions: Conditions, **facts: object) -> str:
    """What comes of decoding again under ``conditions``, beside the usual run: an ``outcome_payload``."""
    after, forced = bench.again(conditions), bench.forced(conditions)
    return outcome_payload(
        run=bench_payload(after),
        before=[step.token for step in bench.before.steps],
        after=[step.token for step in after.steps],
        usual=[step.log_prob for step in bench.before.steps],
        forced=[step.log_prob for step in forced.steps],
        log_prob=after.log_prob,
        made_for=bench.made_for,
        **facts,
    )


def asked_number(event: gr.EventData) -> int:
    """The number by which the view knows its question again; anything else counts as 0."""
    asked = sent(event, "asked")
    return asked if isinstance(asked, int) and not isinstance(asked, bool) and 0 <= asked < 2**53 else 0


def problem(error: InputError, language: str, asked: int | None) -> str:
    """What the view's own status line says when something cannot be done."""
    return json.dumps(
        {"part": "problem", "sentence": say_error(language, error), "asked": asked}, ensure_ascii=False
    )
