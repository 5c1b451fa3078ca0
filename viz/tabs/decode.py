"""Decode: the stage on which a target is written token by token."""

from __future__ import annotations

from viz.tabs.components import ClientView
from viz.tabs.shared import Shared


class Stage(ClientView):
    """The run on display, step by step: tokens, lines of attention, candidates, every head.

    Drawn from ``glassformer.trace`` and ``glassformer.selection`` alone; it needs no value and asks for nothing.
    """

    script = "stage"
    script_parts = ("stage_model", "stage_flow", "stage_candidates", "stage_maps")


def build_decode_tab(shared: Shared) -> None:
    """Lay the tab out."""
    Stage(elem_classes="gf-stage-box")
