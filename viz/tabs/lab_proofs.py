"""A bench of the lab."""

from __future__ import annotations

import gradio as gr

from viz.tabs.shared import Shared


def build_proofs(shared: Shared) -> None:
    """Lay the bench out."""
    gr.HTML("")
