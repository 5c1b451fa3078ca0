"""The laboratory: benches on which the model on display, or a training, is broken, cut into and put to the proof."""

from __future__ import annotations

import gradio as gr

from viz.tabs.lab_faults import build_faults
from viz.tabs.lab_masks import build_mask_studio
from viz.tabs.lab_proofs import build_proofs
from viz.tabs.lab_surgery import build_surgery
from viz.tabs.lab_training import build_training_pairs
from viz.tabs.shared import Shared

# In the order of the page; each name is also its key in the words (lab.bench_<name>) and its tab's id (lab_<name>).
BENCHES = {
    "faults": build_faults,
    "surgery": build_surgery,
    "masks": build_mask_studio,
    "proofs": build_proofs,
    "training": build_training_pairs,
}


def build_lab_tab(shared: Shared) -> None:
    """A short head that says what a bench is, then one inner tab a bench. Each computes only when it is looked at."""
    with gr.Column(elem_classes="gf-lab"):
        gr.HTML(
            '<div class="gf-lab-head"><h2 data-text="lab.title"></h2><p data-text="lab.text"></p></div>',
            js_on_load="glassformer.translate(element)",
        )
        with gr.Tabs(elem_classes="gf-benches", overflow_behavior="wrap"):
            for name, build_bench in BENCHES.items():
                with shared.texts.add(gr.Tab(id=f"lab_{name}"), label=f"lab.bench_{name}"):
                    build_bench(shared)
