"""The text that is decoded: a box, a button, examples. It stands above the tabs, since all of them show its run."""

from __future__ import annotations

import gradio as gr

from transformer.tracing import MAX_TEXT_LENGTH
from viz.tabs.language import Texts
from viz.tabs.runs import example_texts
from viz.tabs.session import Session


def build_text_input(texts: Texts, first: Session) -> dict:
    """Lay the input out and return its components by name."""
    with gr.Row(elem_classes="gf-input", equal_height=True):
        text = texts.add(
            gr.Textbox(
                value=first.trace.text,
                lines=1,
                max_lines=3,
                max_length=MAX_TEXT_LENGTH * 10,  # far over the limit, so that the answer can say by how much
                scale=5,
                min_width=220,
                elem_classes="gf-text",
            ),
            label="input.text",
            placeholder="input.placeholder",
        )
        run = texts.add(gr.Button(variant="primary", scale=0, min_width=120, elem_classes="gf-run"), value="input.run")
        examples = texts.add(
            gr.Radio(
                choices=example_texts(first.trace.task),
                scale=4,
                min_width=260,
                elem_classes="gf-examples gf-chips",
            ),
            label="input.examples",
        )
    return {"text": text, "run": run, "examples": examples}
