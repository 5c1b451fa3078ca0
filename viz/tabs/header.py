"""The page's head: name, model picker, device, language, share."""

from __future__ import annotations

import json

import gradio as gr

from transformer.checkpoints import shipped_names
from transformer.devices import available_devices, device_name
from viz.tabs.components import ClientView
from viz.tabs.language import LANGUAGES, Texts, say
from viz.tabs.session import OWN, Session

# A link that opens the page with the same text, model and language. Runs in the browser, asks nobody.
SHARE_SCRIPT = """async (text, model, language) => {
  const url = new URL(window.location.href);
  url.search = "";
  for (const [name, value] of Object.entries({ text, model: model === "own" ? "" : model, lang: language }))
    if (value) url.searchParams.set(name, value);
  let key = "header.link_copied";
  try { await navigator.clipboard.writeText(url.href); } catch { key = "header.link_in_address"; }
  window.history.replaceState(null, "", url);
  return glassformer.t(key);
}"""


class DeviceToggle(ClientView):
    """CPU or GPU, with what was found; a place that is not to be had is disabled and says why.

    Event: ``choose`` (``gr.EventData`` with ``device``).
    """

    script = "device_toggle"


def device_choices(chosen: str) -> str:
    """The JSON text of ``DeviceToggle``: what this machine has, by name."""
    found = available_devices()
    gpu = next((device for device in found if device != "cpu"), None)
    return json.dumps({"chosen": chosen, "gpu": gpu, "gpu_name": device_name(gpu) if gpu else ""})


def model_choices(language: str, session: Session) -> list[tuple[str, str]]:
    """The model picker's choices: what is shipped, then the visitor's own."""
    choices = [(say(language, "header.model_shipped", name=name), name) for name in shipped_names()]
    if session.own is not None:
        choices.append((say(language, "header.model_own", name=session.own.name), OWN))
    return choices


def build_header(texts: Texts, first: Session) -> dict:
    """Lay the header out and return its components by name."""
    with gr.Row(elem_classes="gf-header", equal_height=True):
        gr.HTML(
            '<div class="gf-brand"><h1>Glassformer</h1><p data-text="header.tagline"></p></div>',
            js_on_load="glassformer.translate(element)",
            elem_classes="gf-brand-box",
        )
        model = texts.add(
            gr.Dropdown(
                choices=model_choices("en", first),
                value=first.model_name,
                filterable=False,
                min_width=190,
                scale=0,
                elem_classes="gf-model",
            ),
            label="header.model",
        )
        device_toggle = DeviceToggle(device_choices("cpu"), elem_classes="gf-device-box")
        language = gr.Radio(
            choices=[(name, code) for code, name in LANGUAGES.items()],
            value="en",
            label="Language · 语言",
            elem_classes="gf-language gf-segmented",
            min_width=170,
            scale=0,
        )
        share = texts.add(
            gr.Button(size="sm", min_width=96, scale=0, elem_classes="gf-share"), value="header.share"
        )
    return {"model": model, "device_toggle": device_toggle, "language": language, "share": share}
