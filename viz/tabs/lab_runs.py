"""What the lab's benches compare: the run on display, and the same text decoded once more under other conditions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from transformer.checkpoints import Checkpoint
from transformer.conditions import Conditions
from transformer.search import Search
from transformer.tracing import Trace, trace_text
from viz.payload import token_chips, trace_payload
from viz.surgery import outcome_payload
from viz.tabs.session import Session


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
        written = _written_ids(self.checkpoint, self.before, len(self.before.steps))
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
        prefix=_written_ids(checkpoint, trace, trace.n_forced),
        n_padding=trace.src_ids.count(config.pad_id),
        is_example=is_example,
        made_for=made_for,
    )
    is_whole = trace.finished or len(trace.steps) >= config.max_len
    if trace.search == "greedy" and is_whole:
        return bench
    return replace(bench, before=bench.again(Conditions()))


def run_payload(trace: Trace) -> str:
    """A run as ``glassformer.headPattern`` reads it, with nothing but what a bench shows."""
    return trace_payload(
        trace_id=trace.id,
        source=token_chips(trace.src_tokens, trace.src_pieces),
        target_in=token_chips(trace.tgt_in_tokens),
        steps=[(step.token, step.log_prob, step.candidates[:3]) for step in trace.steps],
        patterns=trace.patterns,
        task=trace.task,
        model=trace.model,
        finished=trace.finished,
        log_prob=trace.log_prob,
    )


def outcome_of(bench: Bench, conditions: Conditions, **facts: object) -> str:
    """What comes of decoding again under ``conditions``, beside the usual run: an ``outcome_payload``."""
    after, forced = bench.again(conditions), bench.forced(conditions)
    return outcome_payload(
        run=run_payload(after),
        before=[step.token for step in bench.before.steps],
        after=[step.token for step in after.steps],
        usual=[step.log_prob for step in bench.before.steps],
        forced=[step.log_prob for step in forced.steps],
        log_prob=after.log_prob,
        made_for=bench.made_for,
        **facts,
    )


def _written_ids(checkpoint: Checkpoint, trace: Trace, n: int) -> tuple[int, ...]:
    """The ids of the first ``n`` written tokens."""
    vocabulary = checkpoint.tgt_tokenizer.vocabulary
    return tuple(vocabulary.index(step.token) for step in trace.steps[:n])
