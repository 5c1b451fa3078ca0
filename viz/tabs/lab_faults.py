"""Break it: known bugs switched on in the model on display, and what becomes of its answer."""

from __future__ import annotations

import gradio as gr

from transformer.errors import InputError
from transformer.fault_runs import faulty_run
from transformer.faults import FAULTS
from transformer.tracing import Trace
from viz.faults import faults_payload, problem_payload, within_one
from viz.tabs.components import ClientView
from viz.tabs.lab_runs import bench_of
from viz.tabs.language import say, say_error
from viz.tabs.runs import run_payload
from viz.tabs.session import Session
from viz.tabs.shared import QUIET, Shared, sent

N_CANDIDATES = 5
# The list of toggles: every fault once, by what it breaks. Each name of a group is also its key in the words.
GROUPS = {
    "masks": (
        "no_causal_mask", "causal_mask_off_by_one", "no_padding_mask", "padding_mask_on_queries",
        "large_negative_for_infinity",
    ),
    "heads": ("no_score_scale", "heads_split_wrongly"),
    "embeddings": ("no_positions", "positions_shifted", "no_embedding_scale"),
    "structure": ("no_cross_attention", "no_residual", "no_layer_norm", "dropout_left_on"),
    "decoding": ("wrong_first_token", "no_stop"),
}


class FaultsView(ClientView):
    """Toggles, both outputs, both sets of patterns and candidates. ``value`` is a ``faults_payload``.

    Event ``ask`` {faults}: it is on show and was made for another run, or other faults are chosen.
    """

    script = "lab_faults"
    script_parts = ("stage_model", "lab_chosen", "lab_maps")


def build_faults(shared: Shared) -> None:
    """Lay the bench out; nothing is decoded before it is on show."""
    view = FaultsView(elem_classes="gf-faults-box")

    def draw(session: Session, language: str, event: gr.EventData) -> str:
        names = names_of(sent(event, "faults"))
        try:
            return payload_of_faults(session, names)
        except InputError as error:
            return refusal(language, error)

    view.ask(draw, [shared.session, shared.language], view, **QUIET)


def names_of(sent_names: object) -> tuple[str, ...]:
    """The names of faults that a browser sent; whatever else it may have sent is no list of names, and empty."""
    if not isinstance(sent_names, list):
        return ()
    return tuple(str(name)[:60] for name in sent_names[: 2 * len(FAULTS)])


def refusal(language: str, error: InputError) -> str:
    """What the view is told of faults that cannot be: the sentence, in which known faults have the page's names."""
    named = {
        key: say(language, f"lab.fault_{value}") if value in FAULTS else value for key, value in error.values.items()
    }
    return problem_payload(say_error(language, InputError(error.code, **named)))


def payload_of_faults(session: Session, names: tuple[str, ...]) -> str:
    """The run on display beside the same text under the named faults, as ``FaultsView`` draws it.

    Raises InputError for faults there are not, or that contradict each other.
    """
    bench = bench_of(session)
    run = faulty_run(
        bench.checkpoint, bench.before.text, names, search=bench.search, prefix=bench.prefix, healthy=bench.before
    )
    return faults_payload(
        groups=catalogue(),
        chosen=[fault.name for fault in run.faults],
        before=fault_payload(run.healthy),
        after=fault_payload(run.faulty),
        written_before=[step.token for step in run.healthy.steps],
        written_after=[step.token for step in run.faulty.steps],
        distances=run.distances.tolist(),
        n_padding=run.n_padding,
        is_cut_off=not run.faulty.finished and len(run.faulty.steps) == run.most_steps,
        is_example=bench.is_example,
        n_given=len(bench.prefix),
        search=bench.search.method,
        d_head=bench.checkpoint.model.config.d_head,
    )


def fault_payload(trace: Trace) -> str:
    """A run whose weights may exceed 1; ``largest`` is what those of a kind were divided by."""
    patterns, largest = within_one(trace.patterns)
    return run_payload(trace, patterns=patterns, n_candidates=N_CANDIDATES, largest=largest)


def catalogue() -> list[tuple[str, list[dict]]]:
    """Every fault by group, with the proofs it must make fail."""
    return [
        (group, [{"name": name, "must_fail": FAULTS[name].must_fail, "part": FAULTS[name].part} for name in names])
        for group, names in GROUPS.items()
    ]
