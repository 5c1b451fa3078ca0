"""X-ray: the whole network as one picture, every value in it, and one written token taken apart.

Shape legend: H heads, R rows (tokens), C columns, T steps, P points of the residual stream.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

import gradio as gr
import numpy as np

from transformer.checkpoints import Checkpoint
from transformer.tracing import Trace, record_values
from transformer.xray import WeightNorms, gradients, logit_lens, logit_shares, stream_norms, weight_norms
from viz.payload import token_chips
from viz.tabs.components import ClientView
from viz.tabs.session import Session
from viz.tabs.shared import QUIET, Shared, sent
from viz.tabs.xray_parts import LOGITS, PROBABILITIES, axes_of, code_of, formula_of, hook_of, n_parameters, weights_of
from viz.text import visible
from viz.xray import part_values, saliency_payload, strongest_columns, token_payload

N_CANDIDATES = 3
MOST_TOKENS = 24  # of the target vocabulary are columns of the logits' picture
# "multiple": an event that Gradio defers comes without its data. The scripts wait for each answer.
CONFIG_SHOWN = (
    "d_model", "n_heads", "d_ff", "n_encoder_layers", "n_decoder_layers", "norm_first", "positional_encoding",
    "src_vocab_size", "tgt_vocab_size",
)


class XrayPicture(ClientView):
    """The network as one picture, and the values of the chosen part. ``value`` is ``payload_of_part``.

    Event ``look`` {part, known, asked}: a part is chosen, or the view is on show and was made for another run.
    """

    script = "xray_picture"
    script_parts = ("xray_words", "xray_drawing", "xray_values")


class XrayToken(ClientView):
    """A written token taken apart: stream, shares of its logit, what each layer would answer.

    ``value`` is ``payload_of_tokens``. Event ``ask`` {run} when it is on show and was made for another run.
    """

    script = "xray_token"
    script_parts = ("xray_words",)


class XraySaliency(ClientView):
    """What the token of the chosen step hangs on. ``value`` is ``payload_of_saliency``.

    Event ``ask`` {run, step} when it is on show and was made for another run or step.
    """

    script = "xray_saliency"
    script_parts = ("xray_words",)


@dataclass(frozen=True, eq=False)
class Subject:
    """The run that is looked into and the model that made it."""

    checkpoint: Checkpoint
    trace: Trace
    name: str  # the same for the same run on display
    is_example: bool  # no model here made the run on display, so an example stands in its place

    @cached_property
    def weights(self) -> WeightNorms:
        """Lengths of all weights and of their gradients, computed for the first part that has any."""
        return weight_norms(self.checkpoint, self.trace)


def subject_of(session: Session) -> Subject:
    """What is looked into for this visitor."""
    is_example = session.matching_checkpoint is None
    name = f"{session.trace.id}|{session.model_name if is_example else ''}"
    session = session.recomputable
    return Subject(session.matching_checkpoint, session.trace, name, is_example)


def values_of(subject: Subject) -> dict[str, np.ndarray]:
    """Every recorded value of the run, and the probabilities that the logits come to.

    What a norm reads is left out: it is the stream, or the sum that a sub-layer's line of code has.
    """
    recorded = record_values(subject.checkpoint, subject.trace)
    values = {address: value for address, value in recorded.items() if hook_of(address) != "norm_in"}
    logits = values[LOGITS].astype(np.float64)
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return {**values, PROBABILITIES: exponentials / exponentials.sum(axis=-1, keepdims=True)}


def first_part(subject: Subject) -> str:
    """What is on show before anything is chosen: the weights of the last layer's cross-attention."""
    return f"decoder.layers.{subject.checkpoint.model.config.n_decoder_layers - 1}.cross_attn.hook_pattern"


def payload_of_part(session: Session, part: object, known: object, asked: object = 0) -> str:
    """The values of ``part`` and, unless the browser has it (``known`` is the run's name), what the picture is of.

    A part that this network does not have (another model's, or a forged one) is answered with the first one.
    ``asked`` is the question's number, sent back so that no two answers are the same text.
    """
    subject = subject_of(session)
    values = values_of(subject)
    address = part if isinstance(part, str) and part in values else first_part(subject)
    facts = {"run": subject.name, "asked": str(asked)[:20], "part": part_of(subject, values, address)}
    if known != subject.name:
        facts["picture"] = picture_of(subject, values)
    return json.dumps(facts, ensure_ascii=False, separators=(",", ":"))


def part_of(subject: Subject, values: dict[str, np.ndarray], address: str) -> dict:
    """One part: its values with tokens on the axes that have them, formula, line of code, weights."""
    checkpoint, trace = subject.checkpoint, subject.trace
    model, value, axes = checkpoint.model, values[address], axes_of(address)
    chips = {"S": token_chips(trace.src_tokens, trace.src_pieces), "T": token_chips(trace.tgt_in_tokens)}
    column_ids, columns = None, chips.get(axes[-1])
    if axes[-1] == "V":
        column_ids = strongest_columns(value, MOST_TOKENS)
        columns = token_chips(checkpoint.tgt_tokenizer.tokens(column_ids))
    code = code_of(model, address)
    return {
        "address": address,
        "axes": list(axes),
        "rows_are": axes[-2],
        "is_weight": hook_of(address) in ("pattern", PROBABILITIES),
        **part_values(value, chips[axes[-2]], columns, column_ids),
        "formula": formula_of(model, address),
        "code": {"place": code.place, "text": code.text},
        "n_parameters": n_parameters(model, address),
        "weights": weight_rows(subject, address),
    }


def weight_rows(subject: Subject, address: str) -> dict | None:
    """Each weight of a part with its length and that of its gradient, and the loss; None where nothing is learnt."""
    weights = weights_of(subject.checkpoint.model, address)
    if not weights:
        return None
    found = subject.weights
    rows = [
        {"name": name, "shape": list(weight.shape), "norm": found.norms[name], "gradient": found.gradients[name]}
        for name, weight in weights.items()
    ]
    return {"loss": found.loss, "rows": rows}


def picture_of(subject: Subject, values: dict[str, np.ndarray]) -> dict:
    """What the picture is drawn from: the sizes of the network, and the shape of every value in this run."""
    model, trace = subject.checkpoint.model, subject.trace
    config = model.config.to_dict()
    return {
        "config": {name: config[name] for name in CONFIG_SHOWN},
        "model": subject.checkpoint.name,
        "is_example": subject.is_example,
        "text": visible(trace.text),
        "source": token_chips(trace.src_tokens, trace.src_pieces),
        "target": token_chips(trace.tgt_in_tokens),
        "shapes": {address: list(value.shape) for address, value in values.items()},
        "n_parameters": sum(weight.numel() for weight in model.parameters()),
    }


def payload_of_tokens(session: Session) -> str:
    """Every written token taken apart, as ``XrayToken`` draws it."""
    subject = subject_of(session)
    checkpoint, trace = subject.checkpoint, subject.trace
    lens = logit_lens(checkpoint, trace, N_CANDIDATES)
    shares, norms = logit_shares(checkpoint, trace), stream_norms(checkpoint, trace)
    vocabulary = checkpoint.tgt_tokenizer.vocabulary
    candidates = [
        [
            [(visible(vocabulary[i]), share) for i, share in zip(ids, of_step, strict=True)]
            for ids, of_step in zip(ids_of_point.tolist(), of_point.tolist(), strict=True)
        ]
        for ids_of_point, of_point in zip(lens.token_ids, lens.probabilities, strict=True)
    ]
    return token_payload(
        run=subject.name,
        is_example=subject.is_example,
        norm_first=checkpoint.model.config.norm_first,
        n_vocabulary=checkpoint.model.config.tgt_vocab_size,
        written=token_chips([step.token for step in trace.steps]),
        sublayers=norms.sublayers,
        norms={"before": norms.before, "written": norms.written, "after": norms.after},
        components=shares.components,
        shares=shares.shares,
        logits=shares.logits,
        candidates=candidates,
        probabilities=np.exp(lens.written_log_prob),
        ranks=lens.written_rank,
    )


def payload_of_saliency(session: Session, step: object) -> str:
    """What the token written at ``step`` (from 0; held within the run) hangs on, as ``XraySaliency`` draws it."""
    subject = subject_of(session)
    trace, last = subject.trace, len(subject.trace.steps) - 1
    at = max(0, min(step, last)) if isinstance(step, int) and not isinstance(step, bool) else last
    found = gradients(subject.checkpoint, trace, at)
    n_read = at + 1  # tokens fed after this step are not read by it
    source, target = token_chips(trace.src_tokens, trace.src_pieces), token_chips(trace.tgt_in_tokens)
    return saliency_payload(
        {
            "source": (source, found.source_saliency, found.source_grad_times_input),
            "target": (
                target[:n_read], found.target_saliency[:n_read], found.target_grad_times_input[:n_read]
            ),
        },
        run=subject.name,
        step=at,
        token=token_chips([trace.steps[at].token])[0],
    )


def build_xray_tab(shared: Shared) -> None:
    """Lay the tab out; nothing is computed before it is on show."""
    picture = XrayPicture(elem_classes="gf-xray-box")
    token = XrayToken(elem_classes="gf-xray-box")
    saliency = XraySaliency(elem_classes="gf-xray-box")

    def look(session: Session, event: gr.EventData) -> str:
        return payload_of_part(session, sent(event, "part"), sent(event, "known"), sent(event, "asked"))

    def take_apart(session: Session) -> str:
        return payload_of_tokens(session)

    def hang_on(session: Session, event: gr.EventData) -> str:
        return payload_of_saliency(session, sent(event, "step"))

    picture.look(look, shared.session, picture, **QUIET)
    token.ask(take_apart, shared.session, token, **QUIET)
    saliency.ask(hang_on, shared.session, saliency, **QUIET)
