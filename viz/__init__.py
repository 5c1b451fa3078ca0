"""Arrays and tokens in, figures or HTML out. Only ``viz/tabs``, which wires the page, knows the network and Gradio."""
