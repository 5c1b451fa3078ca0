"""What belongs to one visitor: the model in use, the run on display. Kept in ``gr.State``, replaced, never changed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from transformer.checkpoints import Checkpoint, shipped_checkpoint, shipped_names
from transformer.tasks import task
from transformer.tracing import Trace, trace_text

OWN = "own"  # the model picker's value for the visitor's own model, trained here or opened from a file


@dataclass(frozen=True, eq=False)
class Session:
    """One visitor's view. ``own`` is the model they trained or opened, ``model_name`` which model is in use."""

    model_name: str
    trace: Trace
    own: Checkpoint | None = None

    def __deepcopy__(self, memo: dict) -> Session:
        # Gradio copies the first state for every visitor. Nothing in here is ever changed, so one will do.
        return self

    @property
    def checkpoint(self) -> Checkpoint:
        """The model in use."""
        return self.own if self.model_name == OWN and self.own is not None else shipped_checkpoint(self.model_name)

    def with_trace(self, trace: Trace) -> Session:
        """The same with another run on display."""
        return replace(self, trace=trace)

    def with_model(self, name: str) -> Session:
        """The same with another of the models there are in use."""
        return replace(self, model_name=str(name))  # a program may send anything in its place

    def with_own(self, checkpoint: Checkpoint) -> Session:
        """The same with a model of the visitor's own in use."""
        return replace(self, model_name=OWN, own=checkpoint)


def first_session() -> Session:
    """What everyone finds on arrival: the copy model (or the first there is) with an example already decoded."""
    names = shipped_names()
    name = "copy" if "copy" in names else names[0]
    checkpoint = shipped_checkpoint(name)
    return Session(name, trace_text(checkpoint, task(checkpoint.task).examples[0]))
