"""The search tree of the text on display, under the stage: greedy search, beam search and samples in one picture."""

from __future__ import annotations

from dataclasses import asdict

import gradio as gr

from transformer.search_tree import SearchTree, search_tree
from viz.search_tree import tree_payload
from viz.tabs.branches import maker_of
from viz.tabs.components import ClientView
from viz.tabs.runs import tree_key
from viz.tabs.session import Session
from viz.tabs.shared import QUIET, Shared, or_problem


class SearchTreeView(ClientView):
    """The tree, its legend, what is known of the chosen node, and a table twin. ``value`` is a ``tree_payload``.

    Events: ``refresh`` (on show and made for another text, model or search), ``node`` (``gr.EventData`` with
    ``path``, the token ids of a prefix) and ``back`` (with ``all``).
    """

    script = "search_tree"
    script_parts = ("stage_model", "change", "search_tree_layout", "search_tree_words")
    sends = ("node", "back")


def build_tree(shared: Shared) -> SearchTreeView:
    """Lay the tree out; it is computed when it is looked at."""
    view = SearchTreeView(elem_classes="gf-tree-box")
    outputs = [view, shared.status]

    @or_problem(len(outputs))
    def draw(session: Session, device: str, language: str) -> tuple:
        return payload_of_tree(session, device), gr.skip()

    view.refresh(draw, [shared.session, shared.device, shared.language], outputs, **QUIET)
    return view


def payload_of_tree(session: Session, device: str = "cpu") -> str:
    """The tree of the text on display. Raises InputError when the model that read it is not here."""
    tree: SearchTree = search_tree(maker_of(session), session.trace.text, session.search, device=device)
    columns = {
        name: [getattr(node, name) for node in tree.nodes] for name in ("greedy", "beams", "samples", "pruned_at")
    }
    return tree_payload(
        key=tree_key(session),
        parents=[node.parent for node in tree.nodes],
        token_ids=[node.token_id for node in tree.nodes],
        tokens=[node.token for node in tree.nodes],
        log_probs=[node.log_prob for node in tree.nodes],
        **columns,
        paths=[asdict(path) for path in tree.paths],
        n_left_out=tree.n_left_out,
        beam_width=session.search.beam_width,
        length_penalty=session.search.length_penalty,
    )
