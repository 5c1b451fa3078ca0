"""Pages made the usual way with Gradio, to measure ours against: ``python -m benchmarks.peer_pages bare|plotly``.

``bare`` is a text box, a button and an answer. ``plotly`` draws the run in the file that ``GLASSFORMER_TRACE`` names
as one Plotly figure, a heatmap for each head, and draws it anew on the server for each step of a slider.
"""

from __future__ import annotations

import os
import sys

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"

import gradio as gr

OPTIONS = {"ssr_mode": False, "pwa": False, "run_history": False, "enable_monitoring": False, "footer_links": []}


def bare() -> gr.Blocks:
    """The least that asks something and shows an answer."""
    with gr.Blocks(title="bare", analytics_enabled=False) as page:
        text = gr.Textbox(label="Text", value="3 1 7 3 10 2")
        run = gr.Button("Run", elem_classes="bare-run")
        answer = gr.Textbox(label="Answer", value="3 1 7 3 10 2")
        run.click(lambda words: words, text, answer)
    return page


def plotly() -> gr.Blocks:
    """All heads of a run up to a step, by ``gr.Plot``."""
    from plotly.graph_objects import Figure
    from plotly.subplots import make_subplots

    from transformer.trace_files import load_trace

    trace = load_trace(os.environ["GLASSFORMER_TRACE"])
    layers, heads = trace.patterns["cross"].shape[:2]

    def figure(step: int) -> Figure:
        drawn = make_subplots(rows=layers, cols=heads)
        for layer in range(layers):
            for head in range(heads):
                weights = trace.patterns["cross"][layer, head, :step]
                drawn.add_heatmap(z=weights, zmin=0, zmax=1, showscale=False, row=layer + 1, col=head + 1)
        return drawn.update_layout(height=600, title=f"step {step}")

    n_steps = len(trace.steps)
    with gr.Blocks(title="plotly", analytics_enabled=False) as page:
        slider = gr.Slider(1, n_steps, value=n_steps, step=1, label="step")
        plot = gr.Plot(figure(n_steps))
        slider.input(figure, slider, plot, show_progress="hidden")
    return page


def main() -> None:
    """Serve until stopped."""
    page = {"bare": bare, "plotly": plotly}[sys.argv[1]]()
    page.launch(server_name="127.0.0.1", server_port=int(os.environ["GLASSFORMER_PORT"]), **OPTIONS)


if __name__ == "__main__":
    main()
