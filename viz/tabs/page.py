"""The whole page: header, text, tabs, and the events that concern all of them."""

from __future__ import annotations

import gradio as gr

from transformer.checkpoints import shipped_names
from viz.tabs.attention import build_attention_tab
from viz.tabs.components import TraceChannel
from viz.tabs.cost import build_cost_tab
from viz.tabs.decode import build_decode_tab
from viz.tabs.header import SHARE_SCRIPT, build_header, device_choices, model_choices
from viz.tabs.lab import build_lab_tab
from viz.tabs.language import Texts
from viz.tabs.masks import build_masks_tab
from viz.tabs.positions import build_positions_tab
from viz.tabs.public_interface import build_public_interface
from viz.tabs.runs import example_texts, payload_of, run_facts, run_text
from viz.tabs.search_settings import SearchSettings, settings_of, wire_search_settings
from viz.tabs.serving import Page
from viz.tabs.session import Session, first_session
from viz.tabs.shared import INFER, PRIVATE, Shared, or_problem, sent, status_line
from viz.tabs.text_input import build_text_input
from viz.tabs.train import build_train_tab
from viz.tabs.training_worker import page_trainings
from viz.tabs.xray import build_xray_tab

CACHE_SECONDS = (600, 3600)  # files made for visitors: how often old ones are looked for, and how old is old
# Read in the browser when the page opens: what the address asks for, if it asks for anything.
ASKED_SCRIPT = """() => {
  const [text, model] = ["text", "model"].map((name) => glassformer.query(name) ?? "");
  return text || model ? { text, model } : undefined; // nothing: the component stays as it is
}"""


def build_page() -> Page:
    """The page, with an example already decoded."""
    first = first_session()
    texts = Texts()
    with Page(
        title="Glassformer", analytics_enabled=False, fill_width=True, delete_cache=CACHE_SECONDS
    ) as page:
        build_public_interface(INFER["concurrency_id"])  # first, so that no handler of the page takes its names
        session = gr.State(first)
        device = gr.State("cpu")
        channel = TraceChannel(payload_of(first), elem_classes="gf-channel")
        header = build_header(texts, first)
        text_input = build_text_input(texts, first)
        search = SearchSettings(settings_of(first.search), elem_classes="gf-search-box")
        status = gr.HTML(status_line(run_facts("en", first)), elem_classes="gf-status-box")
        shared = Shared(
            texts=texts,
            session=session,
            device=device,
            language=header["language"],
            model=header["model"],
            text=text_input["text"],
            examples=text_input["examples"],
            status=status,
            channel=channel,
            trainings=page_trainings(),
        )
        with gr.Tabs(elem_classes="gf-tabs", overflow_behavior="wrap"):
            for name, build_tab in TABS.items():
                with texts.add(gr.Tab(id=name), label=f"tabs.{name}"):
                    build_tab(shared)
        _wire_text_input(shared, text_input["run"])
        wire_search_settings(shared, search)
        _wire_header(shared, header)
        _wire_arrival(page, shared)
        page.trainings = shared.trainings
        page.forget_when_left()
    return page


# In the order of the page; each name is also its key in the words.
TABS = {
    "decode": build_decode_tab,
    "attention": build_attention_tab,
    "positions": build_positions_tab,
    "masks": build_masks_tab,
    "train": build_train_tab,
    "lab": build_lab_tab,
    "xray": build_xray_tab,
    "cost": build_cost_tab,
}


def _wire_text_input(shared: Shared, run: gr.Button) -> None:
    """Decode what was typed, or an example."""
    inputs = [shared.text, shared.session, shared.device, shared.language]
    outputs = [shared.session, shared.channel, shared.status]
    event = {"inputs": inputs, "outputs": outputs, "show_progress_on": shared.status, **INFER}

    @or_problem(len(outputs))
    def decode(text: str, session: Session, device: str, language: str) -> tuple:
        session = run_text(session, text, device)
        return session, payload_of(session), status_line(run_facts(language, session))

    gr.on([run.click, shared.text.submit], decode, api_visibility="private", **event)
    shared.examples.input(lambda text: (text, None), shared.examples, [shared.text, shared.examples], **PRIVATE).then(
        decode, api_visibility="private", **event
    )


def _wire_header(shared: Shared, header: dict) -> None:
    """Another model, another device, another language, a link to share."""
    texts = shared.texts

    @or_problem(5)
    def use_model(name: str, session: Session, device: str, language: str) -> tuple:
        session = session.with_model(name)
        examples = example_texts(session.checkpoint.task)
        session = run_text(session, examples[0] if examples else session.trace.text, device)
        facts = status_line(run_facts(language, session))
        return session, payload_of(session), session.trace.text, gr.update(choices=examples, value=None), facts

    shared.model.input(
        use_model,
        [shared.model, shared.session, shared.device, shared.language],
        [shared.session, shared.channel, shared.text, shared.examples, shared.status],
        show_progress_on=shared.status,
        api_visibility="private",
        **INFER,
    )

    @or_problem(5)
    def use_device(session: Session, language: str, event: gr.EventData) -> tuple:
        session = run_text(session, session.trace.text, sent(event, "device"))
        device = session.trace.device
        facts = status_line(run_facts(language, session))
        return device, device_choices(device), session, payload_of(session), facts

    header["device_toggle"].choose(
        use_device,
        [shared.session, shared.language],
        [shared.device, header["device_toggle"], shared.session, shared.channel, shared.status],
        show_progress_on=shared.status,
        api_visibility="private",
        **INFER,
    )

    def use_language(language: str, session: Session) -> tuple:
        choices = gr.update(choices=model_choices(language, session))
        return status_line(run_facts(language, session)), choices, *texts.updates(language)

    words = [shared.status, shared.model, *texts.components]
    shared.language.input(None, shared.language, None, js="(language) => glassformer.setLanguage(language)")
    # Also on arrival, where the browser sets the language that the address asks for.
    shared.language.change(use_language, [shared.language, shared.session], words, **PRIVATE)
    header["share"].click(None, [shared.text, shared.model, shared.language], header["share"], js=SHARE_SCRIPT)


def _wire_arrival(page: gr.Blocks, shared: Shared) -> None:
    """Give a visitor the language, model and text that the address asks for.

    The browser finds out what that is; who asks for nothing, as most do, costs the server no question.
    """
    page.load(None, None, shared.language, js="() => glassformer.language")
    asked = gr.JSON(visible=False)  # {"text": ..., "model": ...}
    page.load(None, None, asked, js=ASKED_SCRIPT)
    outputs = [shared.session, shared.channel, shared.text, shared.model, shared.examples, shared.status]

    @or_problem(len(outputs))
    def open_link(asked: object, session: Session, device: str, language: str) -> tuple:
        asked = asked if isinstance(asked, dict) else {}  # a program may send anything in its place
        text, model = asked.get("text"), asked.get("model")
        if model in shipped_names():
            session = session.with_model(model)
        examples = example_texts(session.checkpoint.task)
        session = run_text(session, text or examples[0], device)
        facts = status_line(run_facts(language, session))
        shown = (session.trace.text, session.model_name, gr.update(choices=examples, value=None))
        return session, payload_of(session), *shown, facts

    asked.change(
        open_link,
        [asked, shared.session, shared.device, shared.language],
        outputs,
        js="(asked, session, device) => [asked, session, device, glassformer.language]",
        show_progress="hidden",
        api_visibility="private",
        concurrency_id=INFER["concurrency_id"],
        concurrency_limit=INFER["concurrency_limit"],
    )
