"""A visit to the page: it opens, it settles, and everything that goes wrong meanwhile is written down."""

from __future__ import annotations

import re
import time
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Page, Request, Response

TAB_NAMES = ("decode", "attention", "positions", "masks", "train", "lab", "xray", "cost")
READY_MS = 60_000  # for machines with more to do than these tests
QUIET_ROUNDS = 3

# Streams: one open for as long as the page is, one of answers. Which answers are still to come, answers.js knows.
_STREAMS = re.compile(r"/heartbeat/|/gradio_api/queue/data\?")
_ANSWERS = Path(__file__).with_name("answers.js").read_text(encoding="utf-8")
# Gradio's client cuts the stream of answers itself once the last one is in; the browser calls that a failure.
_CUT_BY_GRADIO = re.compile(r"/gradio_api/queue/data\?")
# Idle is what the browser says, not what the clock says: a busy machine may take seconds from one event to the next.
_WAIT_UNTIL_IDLE = """(patience) => new Promise((done) => {
  setTimeout(() => done(null), patience);
  requestAnimationFrame(() => requestIdleCallback(() => setTimeout(() => done(unanswered()), 50), { timeout: 5000 }));
})"""


class Visit:
    """One page of a browser's context, and the problems met on it."""

    def __init__(
        self,
        context: BrowserContext,
        url: str,
        *,
        lang: str,
        dark: bool,
        width: int,
        height: int,
        query: dict[str, str],
    ) -> None:
        self._origin = urlsplit(url).netloc
        self._ending = False
        self._pending: set[Request] = set()
        self.problems: list[str] = []
        self.page = context.new_page()
        self.page.add_init_script(_ANSWERS)
        self.page.set_default_timeout(READY_MS)
        self._size = {"width": width, "height": height}
        self.page.set_viewport_size(self._size)
        self.page.emulate_media(color_scheme="dark" if dark else "light", reduced_motion="reduce")
        self._listen()
        self.page.goto(f"{url}/?{urlencode({'lang': lang, '__theme': 'dark' if dark else 'light', **query})}")
        self.page.wait_for_selector(".gf-tabs", timeout=READY_MS)
        self.page.wait_for_function("window.glassformer && window.glassformer.trace", timeout=READY_MS)
        self.settle()
        self._text = self.page.locator(".gf-text textarea").input_value()
        self._model = self.page.locator(".gf-model input").input_value()
        self._language = self.page.locator(".gf-language input:checked").input_value()
        self._classes = self.page.evaluate("document.body.className")
        self._selection = self.page.evaluate("({ ...glassformer.selection })")

    def start_over(self) -> None:
        """Bring back what the page opened with: size, language, theme, model, search and text, on the first tab."""
        page = self.page
        page.set_viewport_size(self._size)
        page.evaluate("(classes) => { document.body.className = classes; }", self._classes)
        open_tab(page, TAB_NAMES[0])
        page.locator("h1").click()
        page.keyboard.press("Escape")  # lets go of what is pinned
        if page.locator(".gf-language input:checked").input_value() != self._language:
            choose_language(page, {"en": "English", "zh": "中文"}[self._language])
        if page.locator(".gf-model input").input_value() != self._model:
            page.locator(".gf-model input").click()
            page.get_by_role("option", name=self._model, exact=True).click()
            self.settle()
        greedy = page.locator(".gf-search [data-method=greedy]")
        if greedy.get_attribute("aria-pressed") != "true":
            greedy.click()
            self.settle()
        decode_text(page, self._text)
        self.settle()
        page.evaluate("(chosen) => glassformer.select(chosen)", self._selection)

    def settle(self) -> None:
        """Wait until no answer of the server is outstanding and the browser has nothing left to do."""
        deadline = time.monotonic() + READY_MS / 1000
        quiet = 0
        while quiet < QUIET_ROUNDS:
            unanswered = self.page.evaluate(_WAIT_UNTIL_IDLE, READY_MS)
            if unanswered is None:
                raise AssertionError(f"the browser drew no frame within {READY_MS} ms")
            quiet = 0 if self._pending or unanswered else quiet + 1
            if time.monotonic() > deadline:
                waiting = "\n".join([f"{unanswered} answers of the queue", *(request.url for request in self._pending)])
                raise AssertionError(f"the page did not settle within {READY_MS} ms; waiting for:\n{waiting}")

    def close(self) -> None:
        """End the visit. What the browser cuts off by closing is no problem of the page."""
        self._ending = True
        self.page.close()

    def _listen(self) -> None:
        page = self.page
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.problems.append(f"script error: {error.stack or error}"))
        page.on("dialog", self._on_dialog)
        page.on("request", self._on_request)
        page.on("requestfinished", lambda request: self._pending.discard(request))
        page.on("requestfailed", self._on_failed)
        page.on("response", self._on_response)
        page.on("websocket", lambda socket: self._check_origin(socket.url))

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.problems.append(f"console error: {message.text} ({message.location.get('url', '')})")

    def _on_dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"a script opened a dialog: {dialog.message}")
        dialog.dismiss()

    def _on_request(self, request: Request) -> None:
        self._check_origin(request.url)
        if not request.url.startswith(("data:", "blob:")) and not _STREAMS.search(request.url):
            self._pending.add(request)

    def _check_origin(self, url: str) -> None:
        if not url.startswith(("data:", "blob:")) and urlsplit(url).netloc != self._origin:
            self.problems.append(f"a request left for a third party: {url}")

    def _on_failed(self, request: Request) -> None:
        self._pending.discard(request)
        cut = _CUT_BY_GRADIO.search(request.url) and request.failure == "net::ERR_ABORTED"
        if not self._ending and not cut:
            self.problems.append(f"request failed: {request.method} {request.url}: {request.failure}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 400:
            self.problems.append(f"answer {response.status}: {response.request.method} {response.url}")


def open_tab(page: Page, name: str) -> None:
    """Press the tab ``name`` (one of ``TAB_NAMES``) and wait until it is the one on show."""
    page.locator(f".gf-tabs [role=tab][data-tab-id={name}]").click()
    page.wait_for_selector(f".gf-tabs [role=tab][data-tab-id={name}][aria-selected=true]")


def decode_text(page: Page, text: str) -> None:
    """Type ``text`` and press Decode. The answer comes later: ``settle(page)``."""
    page.locator(".gf-text textarea").fill(text)
    page.locator(".gf-run").click()


def choose_language(page: Page, name: str) -> None:
    """Press a language in the header, by its own name: "English" or "中文"."""
    page.locator(".gf-language label", has_text=name).click()


def status(page: Page) -> str:
    """The line under the text: what happened, or what is wrong."""
    return page.locator(".gf-status:visible").inner_text()


def source_labels(page: Page) -> list[str]:
    """The source tokens of the run on display, as its views label them."""
    return page.evaluate("glassformer.trace.source.map((token) => token.label)")


def written_labels(page: Page) -> list[str]:
    """What the model wrote in the run on display."""
    return page.evaluate("glassformer.trace.steps.map((step) => step.token.label)")
