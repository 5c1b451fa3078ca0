"""Page components drawn by our own scripts: a static template, a style sheet and a script from ``assets/``."""

from __future__ import annotations

import json
from functools import cache

import gradio as gr

from viz.tabs.language import ASSETS, STRINGS
from viz.theme import css_variables, plotly_template


@cache
def asset(path: str) -> str:
    """The text of a file in ``assets/``."""
    return (ASSETS / path).read_text(encoding="utf-8")

from gradio.events import Dependency

class ClientView(gr.HTML):
    """A view whose script lives in ``assets/client/<script>.js`` and whose frame in ``assets/client/<script>.html``.

    ``value`` is a JSON text for the script, never a visitor's text inside the template.
    """

    script = ""  # set by each view
    script_parts: tuple[str, ...] = ()  # further scripts that share its scope and stand before it, by name

    def __init__(self, value: str | None = "", **kwargs: object) -> None:
        super().__init__(
            value=value,
            html_template=asset(f"client/{self.script}.html"),
            js_on_load="\n".join(asset(f"client/{name}.js") for name in (*self.script_parts, self.script)),
            **kwargs,
        )

    def api_info(self) -> dict:
        return {"type": "string"}

    @classmethod
    def get_component_class_id(cls) -> str:
        """One for all views: for each id that it does not know, Gradio's page looks for a component's files anew."""
        return gr.HTML.get_component_class_id()
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component


class TraceChannel(ClientView):
    """Invisible: hands each new run to ``glassformer.setTrace`` once, for every view in the browser."""

    script = "trace_channel"
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component


class PlotlyChart(ClientView):
    """A ``viz.chart.Chart`` on our own copy of plotly.js: zoom, hover, save, a table twin, and a click on a point.

    ``value`` is ``Chart.to_json()``. Events: ``refresh`` (on show and made for another run or language) and
    ``cell`` (``gr.EventData`` with x, y, curve).
    """

    script = "plotly_chart"
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component


def _script(text: str) -> str:
    return f"<script>{text}</script>"


def head_html() -> str:
    """What goes into the page's head: words in both languages, both Plotly templates, the script all views share."""
    templates = {mode: plotly_template(mode) for mode in ("light", "dark")}
    constants = "".join(
        f"window.{name} = {json.dumps(value, ensure_ascii=False)};".replace("</", "<\\/")
        for name, value in (("glassformerStrings", STRINGS), ("glassformerTemplates", templates))
    )
    return _script(constants) + _script(asset("client/glassformer.js"))


def style_sheet() -> str:
    """The palette and every style sheet of ``assets/styles``, as one text."""
    return "\n".join((css_variables(), *(file.read_text() for file in sorted((ASSETS / "styles").glob("*.css")))))