"""Prove it: what must hold of the network, checked live on the model and the text on display."""

from __future__ import annotations

import time
from collections.abc import Iterator

import gradio as gr

from transformer.checkpoints import Checkpoint
from transformer.devices import checked_device
from transformer.errors import InputError
from transformer.faults import chosen_faults
from transformer.proofs import PROOFS, Proof, prove
from viz.faults import proof_row, proofs_payload
from viz.tabs.components import ClientView
from viz.tabs.lab_faults import names_of, refusal
from viz.tabs.session import Session
from viz.tabs.shared import QUIET, Shared, sent
from viz.tabs.zero_gpu import on_gpu

# All proofs take seconds, so they have a lane of their own: decoding never waits for them.
PROVE = {**QUIET, "concurrency_id": "prove"}
SECONDS_BETWEEN_NEWS = 0.25
MOST_CHARACTERS = 2000  # of what a view sends along to know its answer by

Made = tuple[Proof, float]  # and the milliseconds it took


class ProofsView(ClientView):
    """The faults in force, a headline, and a table of proofs. ``value`` is a ``proofs_payload``.

    Event ``ask`` {faults, asked}: it is on show and was made for another run or other faults, or the button is pressed.
    """

    script = "lab_proofs"
    script_parts = ("lab_chosen",)


def build_proofs(shared: Shared) -> None:
    """Lay the bench out; nothing is proved before it is on show."""
    view = ProofsView(elem_classes="gf-proofs-box")

    def draw(session: Session, device: str, language: str, event: gr.EventData) -> Iterator[str]:
        names, asked = names_of(sent(event, "faults")), str(sent(event, "asked"))[:MOST_CHARACTERS]
        try:
            yield from payloads_of_proofs(session, names, device, asked)
        except InputError as error:
            yield refusal(language, error)

    view.ask(draw, [shared.session, shared.device, shared.language], view, **PROVE)


def payloads_of_proofs(session: Session, names: tuple[str, ...], device: str, asked: str) -> Iterator[str]:
    """One payload a quarter of a second while the proofs are made, the last with all of them.

    Raises InputError for faults there are not, or that contradict each other.
    """
    faults = chosen_faults(names)
    session = session.recomputable
    checkpoint, device = session.matching_checkpoint, checked_device(device)
    named = {proof for fault in faults for proof in fault.must_fail}
    names = [fault.name for fault in faults]
    rows: list[dict] = []
    n_all = len(PROOFS) - (device == "cpu")  # one compares two devices

    def payload() -> str:
        return proofs_payload(
            asked=asked, chosen=names, rows=rows, n_all=n_all, named=sorted(named), text=session.trace.text,
            model=checkpoint.name, device=device,
        )

    yield payload()
    told = time.perf_counter()
    for proof, milliseconds in proofs_made(checkpoint, session.trace.text, names, device):
        expected = proof.name in named
        rows.append(
            proof_row(proof.name, proof.holds, proof.max_deviation, proof.tolerance, proof.done, milliseconds, expected)
        )
        if len(rows) < n_all and time.perf_counter() - told > SECONDS_BETWEEN_NEWS:
            yield payload()
            told = time.perf_counter()
    yield payload()


def proofs_made(checkpoint: Checkpoint, text: str, names: list[str], device: str) -> Iterator[Made]:
    """Every proof this machine can make, with the time it took; on a GPU all of them come at once."""
    if device != "cpu":
        yield from all_on_gpu(checkpoint, text, names, device)
        return
    yield from timed(checkpoint, text, names, device)


def timed(checkpoint: Checkpoint, text: str, names: list[str], device: str) -> Iterator[Made]:
    """The proofs one after the other; the first one also takes the time of its preparations."""
    proofs = prove(checkpoint, text, names, device)
    while True:
        started = time.perf_counter()
        proof = next(proofs, None)
        if proof is None:
            return
        yield proof, (time.perf_counter() - started) * 1000


def list_of_timed(checkpoint: Checkpoint, text: str, names: list[str], device: str) -> list[Made]:
    """The same, all at once: what runs on a borrowed GPU must return."""
    return list(timed(checkpoint, text, names, device))


all_on_gpu = on_gpu(list_of_timed)
