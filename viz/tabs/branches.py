"""Going on from another token: one written in the place of another, or a node of the search tree; and the way back."""

from __future__ import annotations

import gradio as gr

from transformer.checkpoints import Checkpoint
from transformer.errors import InputError
from transformer.search import GREEDY
from viz.tabs.components import ClientView
from viz.tabs.runs import payload_of, run_facts, traced
from viz.tabs.session import Session
from viz.tabs.shared import INFER, Shared, or_problem, sent, status_line
from viz.text import visible

LONGEST_TOKEN_SHOWN = 40  # characters of an unknown token that its sentence repeats


def wire_branches(shared: Shared, *views: ClientView) -> None:
    """Answer the events ``force``, ``node`` and ``back`` of the views that have them."""
    outputs = [shared.session, shared.channel, shared.status]
    event = {
        "inputs": [shared.session, shared.device, shared.language],
        "outputs": outputs,
        "show_progress_on": shared.status,
        "api_visibility": "private",
        "trigger_mode": "multiple",  # an event that Gradio puts off comes without its data
        **INFER,
    }

    def shown(session: Session, language: str, step: int) -> tuple:
        return session, payload_of(session, step), status_line(run_facts(language, session))

    @or_problem(len(outputs))
    def force(session: Session, device: str, language: str, event: gr.EventData) -> tuple:
        step = sent(event, "step")
        token = token_of(session, step, sent(event, "candidate"), sent(event, "text"))
        return shown(with_token(session, step, token, device), language, step)

    @or_problem(len(outputs))
    def node(session: Session, device: str, language: str, event: gr.EventData) -> tuple:
        path = sent(event, "path")
        return shown(with_branch(session, path, device), language, len(path))

    @or_problem(len(outputs))
    def back(session: Session, device: str, language: str, event: gr.EventData) -> tuple:
        step = session.changes[-1].step if session.changes else None
        session = session.unchanged if sent(event, "all") is True else session.changed_back()
        return shown(session, language, min(step or len(session.trace.steps), len(session.trace.steps)))

    for view in views:
        for name, handler in (("force", force), ("node", node), ("back", back)):
            if name in view.sends:
                getattr(view, name)(handler, **event)


def maker_of(session: Session) -> Checkpoint:
    """The model that can continue the run on display. Raises InputError when it is not here."""
    checkpoint = session.matching_checkpoint
    if checkpoint is None:
        raise InputError("run_cannot_go_on")
    return checkpoint


def token_of(session: Session, step: object, candidate: object, text: object) -> int:
    """The id of what is to be written at ``step``: a candidate of that step by its place, or a token as typed.

    Raises InputError when there is no such step, or the vocabulary has no such token.
    """
    tokenizer = maker_of(session).tgt_tokenizer
    steps = session.trace.steps
    if isinstance(step, bool) or not isinstance(step, int) or not 1 <= step <= len(steps):
        raise InputError("step_unknown", n=len(steps), step=_shown(step))
    if text is None:
        candidates = steps[step - 1].candidates
        known = not isinstance(candidate, bool) and isinstance(candidate, int) and 0 <= candidate < len(candidates)
        token = candidates[candidate][0] if known else None
    else:
        token = text if isinstance(text, str) else None
        if token not in tokenizer.vocabulary:
            token = (token or "").strip()
        if token not in tokenizer.vocabulary:
            pieces = tokenizer.encode(token).tokens
            if len(pieces) > 1:
                raise InputError("token_several", token=_shown(text), n=len(pieces))
            token = pieces[0] if pieces and pieces[0] != "<unk>" else None
    if token not in tokenizer.vocabulary:
        raise InputError("token_unknown", token=_shown(candidate if text is None else text), n=len(tokenizer))
    return tokenizer.vocabulary.index(token)


def with_token(session: Session, step: int, token_id: int, device: str) -> Session:
    """The session with the run rewound to ``step``, ``token_id`` written there, and the search going on from it."""
    checkpoint = maker_of(session)
    trace = session.trace
    if trace.steps[step - 1].token == checkpoint.tgt_tokenizer.vocabulary[token_id]:
        return session
    prefix = (*trace.tgt_in_ids[1:step], token_id)
    changed = traced(checkpoint, trace.text, device, search=session.search, prefix=prefix)
    return session.with_change(changed, step)


def with_branch(session: Session, path: object, device: str) -> Session:
    """The session with the run that begins with the token ids ``path`` and goes on greedily.

    What a run on display, or what the search itself, already wrote so is not decoded again. Raises InputError when
    ``path`` is no list of token ids.
    """
    checkpoint = maker_of(session)
    tokenizer, max_len = checkpoint.tgt_tokenizer, checkpoint.model.config.max_len
    if not isinstance(path, list) or not 1 <= len(path) <= max_len or not all(
        isinstance(each, int) and not isinstance(each, bool) and 0 <= each < len(tokenizer) for each in path
    ) or tokenizer.eos_id in path[:-1]:
        raise InputError("branch_unknown")
    wanted = list(tokenizer.tokens(path))
    for there in (session.unchanged, session):
        if [each.token for each in there.trace.steps[: len(path)]] == wanted:
            return there
    trace = traced(checkpoint, session.unchanged.trace.text, device, search=GREEDY, prefix=tuple(path))
    return session.with_change(trace, len(path), is_branch=True)


def _shown(value: object) -> str:
    text = visible(value if isinstance(value, str) else repr(value))
    return text if len(text) <= LONGEST_TOKEN_SHOWN else text[:LONGEST_TOKEN_SHOWN] + "…"
