"""What belongs to one visitor: the model in use, the run on display. Kept in ``gr.State``, replaced, never changed."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from transformer.checkpoints import META_FILE, Checkpoint, checkpoint_files, shipped_checkpoint, shipped_names
from transformer.search import GREEDY, Search
from transformer.tasks import TASKS
from transformer.tracing import Trace, trace_text

MOST_CHANGES = 8  # whole runs are kept for the way back

OWN = "own"  # the model picker's value for the visitor's own model, trained here or opened from a file


@dataclass(frozen=True, eq=False)
class Change:
    """A run went on from tokens that were put in; ``before`` was on display until then. Steps count from 1."""

    before: Trace
    was_opened: bool  # whether ``before`` came from a file
    step: int  # where the last token was put in
    put_in: tuple[int, ...]  # every step of the new run whose token was put in, by this change or one before it
    is_branch: bool  # a node of the search tree was chosen; else one token was written in the place of another


@dataclass(frozen=True, eq=False)
class Session:
    """One visitor's view. ``own`` is the model they trained or opened, ``model_name`` which model is in use.

    ``opened`` is True when the run on display came from a file, so that no model here need have made it.
    ``changes`` lead from what the search itself wrote to the run on display, the latest last.
    """

    model_name: str
    trace: Trace
    own: Checkpoint | None = None
    opened: bool = False
    search: Search = GREEDY
    changes: tuple[Change, ...] = ()

    def __deepcopy__(self, memo: dict) -> Session:
        # Gradio copies the first state for every visitor. Nothing in here is ever changed, so one will do.
        return self

    @property
    def checkpoint(self) -> Checkpoint:
        """The model in use."""
        return self.own if self.model_name == OWN and self.own is not None else shipped_checkpoint(self.model_name)

    @property
    def matching_checkpoint(self) -> Checkpoint | None:
        """The model that made the run on display, fit to recompute it; None when no model here did."""
        if not self.opened:
            return self.checkpoint
        name = self._matching_name()
        return None if name is None else replace(self, model_name=name).checkpoint

    @property
    def with_maker(self) -> Session:
        """The same with the model in use that made the run on display, where it is here."""
        return replace(self, model_name=self._matching_name() or self.model_name) if self.opened else self

    @property
    def recomputable(self) -> Session:
        """The same; or, when no model here made the run on display, with an example of the model in use instead."""
        if self.matching_checkpoint is not None:
            return self
        return self.with_trace(trace_text(self.checkpoint, example_text(self.checkpoint)))

    def _matching_name(self) -> str | None:
        """The model picker's value for the model that made the run on display; the one in use comes first."""
        names = dict.fromkeys((self.model_name, *((OWN,) if self.own is not None else ()), *shipped_names()))
        return next((name for name in names if _made(replace(self, model_name=name).checkpoint, self.trace)), None)

    def with_trace(self, trace: Trace) -> Session:
        """The same with another run on display, decoded by the model in use."""
        return replace(self, trace=trace, opened=False, changes=())

    @property
    def unchanged(self) -> Session:
        """The same with the run on display that no token was put into."""
        return self.changed_back(len(self.changes))

    def changed_back(self, n: int = 1) -> Session:
        """The same with the last ``n`` changes undone, or as many as there are."""
        if not self.changes or n < 1:
            return self
        first_undone = self.changes[-min(n, len(self.changes))]
        return replace(
            self,
            trace=first_undone.before,
            opened=first_undone.was_opened,
            changes=self.changes[: -min(n, len(self.changes))],
        )

    def with_change(self, trace: Trace, step: int, is_branch: bool = False) -> Session:
        """The same with ``trace`` on display, which goes on from this run's tokens before ``step`` and a new one there.

        A branch of the tree starts from what the search itself wrote and replaces all changes before it.
        """
        start = self.unchanged if is_branch else self
        if is_branch:
            written, was = ([each.token for each in run.steps] for run in (trace, start.trace))
            parts = next((i for i in range(step) if i >= len(was) or written[i] != was[i]), step - 1)
            put_in = tuple(range(parts + 1, step + 1))
        else:
            earlier = start.changes[-1].put_in if start.changes else ()
            put_in = (*(each for each in earlier if each < step), step)
        changes = (*start.changes, Change(start.trace, start.opened, step, put_in, is_branch))
        if len(changes) > MOST_CHANGES:
            changes = (changes[0], *changes[2:])  # the way back to the beginning stays
        return replace(start.with_maker, trace=trace, opened=False, changes=changes)

    def with_search(self, search: Search) -> Session:
        """The same with another search in use, for what is decoded from now on."""
        return replace(self, search=search)

    def with_opened_trace(self, trace: Trace) -> Session:
        """The same with a run from a file on display, and the model that made it in use, where it is here."""
        return replace(self, trace=trace, opened=True, changes=()).with_maker

    def with_model(self, name: str) -> Session:
        """The same with another of the models there are in use."""
        return replace(self, model_name=str(name))  # a program may send anything in its place

    def with_own(self, checkpoint: Checkpoint) -> Session:
        """The same with a model of the visitor's own in use."""
        return replace(self, model_name=OWN, own=_with_fingerprint(checkpoint))


def _with_fingerprint(checkpoint: Checkpoint) -> Checkpoint:
    """The same with the sha256 its weights file has or would have, by which a run is known to be its own."""
    if checkpoint.meta.get("sha256"):
        return checkpoint
    written = json.loads(checkpoint_files(checkpoint)[META_FILE])
    return replace(checkpoint, meta={**checkpoint.meta, "sha256": written["sha256"]})


def _made(checkpoint: Checkpoint, trace: Trace) -> bool:
    """Whether a run is this model's: the same weights and sizes, ids that fit and mean the tokens shown."""
    config = checkpoint.model.config
    return (
        bool(trace.weights_sha256)
        and trace.weights_sha256 == checkpoint.meta.get("sha256")
        and trace.config == config.to_dict()
        and max(len(trace.src_ids), len(trace.tgt_in_ids)) <= config.max_len
        and trace.src_tokens == checkpoint.src_tokenizer.tokens(trace.src_ids)
        and trace.tgt_in_tokens == checkpoint.tgt_tokenizer.tokens(trace.tgt_in_ids)
    )


def example_text(checkpoint: Checkpoint) -> str:
    """A text the model can read: its task's first example, or for a task not known here one word it has."""
    return TASKS[checkpoint.task].examples[0] if checkpoint.task in TASKS else checkpoint.src_tokenizer.symbols[0]


def first_session() -> Session:
    """What everyone finds on arrival: the copy model (or the first there is) with an example already decoded."""
    names = shipped_names()
    name = "copy" if "copy" in names else names[0]
    checkpoint = shipped_checkpoint(name)
    return Session(name, trace_text(checkpoint, example_text(checkpoint)))
