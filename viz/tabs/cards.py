"""The cards of a guided tab: a number where there is an order, a heading, one sentence, then one picture."""

from __future__ import annotations

import gradio as gr


def card_heading(section: str, name: str, number: int | None = None) -> gr.HTML:
    """The head of a card, worded in the browser by ``<section>.<name>_title`` and ``<section>.<name>_text``."""
    badge = "" if number is None else f'<span class="gf-card-number" aria-hidden="true">{number}</span>'
    return gr.HTML(
        f'<div class="gf-card-head">{badge}<div><h2 data-text="{section}.{name}_title"></h2>'
        f'<p data-text="{section}.{name}_text"></p></div></div>',
        js_on_load="glassformer.translate(element)",
    )
