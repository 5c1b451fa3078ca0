"""Decode: the stage on which a target is written token by token."""

from __future__ import annotations

import gradio as gr

from viz.tabs.shared import Shared


def build_decode_tab(shared: Shared) -> None:
    """Lay the tab out."""
    gr.HTML("<p>stage</p>")
