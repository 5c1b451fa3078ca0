"""From a key pressed on the stage's slider to the frame that shows the step, in a real browser; beside it the usual
way, a round trip to the server for a Plotly figure."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import torch
from playwright.sync_api import Page, sync_playwright

from benchmarks.live import BROWSER_ARGUMENTS, percentile, running_together, system_chromium
from benchmarks.measuring import BenchmarkFailed, Result, at_most
from transformer.checkpoints import Checkpoint
from transformer.config import TransformerConfig
from transformer.model import Transformer
from transformer.tokenizers import SymbolTokenizer
from transformer.trace_files import trace_to_json
from transformer.tracing import Trace, trace_text

BUDGET = 16.0  # milliseconds
LAYERS, HEADS, TOKENS = 4, 8, 40
SAMPLES, MAPS_SAMPLES, PEER_SAMPLES = 60, 30, 6
PAUSE = 1 / 30  # seconds between two keys: as a key repeats that is held down
PATIENCE_MS = 30_000
SLIDER = ".gf-stage input[type=range]"

# Times each key from the moment the browser got it to the end of the frame that follows: the callback of an animation
# frame runs before it is painted, and a message posted there arrives after.
TIME_KEYS = """(shown) => {
  window.milliseconds = [];
  window.timing?.abort();
  window.timing = new AbortController();
  let waiting = null; // Playwright would ask with every frame whether it is there yet, and so make frames of its own
  window.painted = (n) => new Promise((resolve) => { waiting = { n, resolve }; answer(); });
  const answer = () => { if (waiting && window.milliseconds.length >= waiting.n) waiting.resolve(); };
  document.addEventListener("keydown", (event) => {
    const ready = shown && Function(`return (${shown})`)()();
    const look = () => {
      if (ready && !ready()) return requestAnimationFrame(look);
      const channel = new MessageChannel();
      channel.port1.onmessage = () => { window.milliseconds.push(performance.now() - event.timeStamp); answer(); };
      channel.port2.postMessage(null);
    };
    requestAnimationFrame(look);
  }, { capture: true, signal: window.timing.signal });
}"""
# A figure of the server's is on show once Gradio has made a new element for it and Plotly has drawn all its maps.
NEW_FIGURE = """() => {
  const before = document.querySelector(".js-plotly-plot");
  return () => {
    const now = document.querySelector(".js-plotly-plot");
    return now && now !== before && now.querySelectorAll(".hm image, .heatmaplayer image").length >= 32;
  };
}"""


def run_of(layers: int = LAYERS, heads: int = HEADS, tokens: int = TOKENS) -> Trace:
    """A run of an untrained network with so many tokens on both sides; what it writes does not matter here."""
    tokenizer = SymbolTokenizer(tuple(str(number) for number in range(64)))
    config = TransformerConfig(
        src_vocab_size=len(tokenizer), tgt_vocab_size=len(tokenizer), d_model=64, n_heads=heads, d_ff=64,
        n_encoder_layers=layers, n_decoder_layers=layers, max_len=tokens + 2, dropout=0.0,
    )
    model = Transformer(config).initialize(torch.Generator().manual_seed(0)).eval()
    checkpoint = Checkpoint("untrained", "copy", model, tokenizer, tokenizer, {"seed": 0, "steps": 0})
    text = " ".join(str(number) for number in range(tokens - 1))  # and <eos>
    return trace_text(checkpoint, text, max_steps=tokens)


def key_times(page: Page, slider: str, samples: int, shown: str = "") -> list[float]:
    """Milliseconds from each of ``samples`` keys on ``slider`` to the painted frame, there and back over its range."""
    page.locator(slider).evaluate("(element) => element.focus({ preventScroll: true })")
    page.evaluate(TIME_KEYS, shown)
    for number in range(samples):
        time.sleep(PAUSE)
        key = "ArrowLeft" if number // (TOKENS - 2) % 2 == 0 else "ArrowRight"
        page.keyboard.down(key)
        page.evaluate("(n) => window.painted(n)", number + 1)
        page.keyboard.up(key)  # nobody lets a key go before the frame is there
    return page.evaluate("window.milliseconds")


def of_stage(page: Page, url: str, file: Path) -> tuple[list[float], list[float], list[str]]:
    """The times on the stage with the run in ``file`` on display: with its slider in view, as somebody scrubs, and with
    its maps in view instead, as somebody plays; and what was requested meanwhile."""
    page.goto(f"{url}/?lang=en")
    page.wait_for_function("window.glassformer?.trace", timeout=PATIENCE_MS)
    page.locator("input[type=file][accept='.json']").first.set_input_files(file)
    page.wait_for_function(f"glassformer.trace.steps.length === {TOKENS}", timeout=PATIENCE_MS)
    page.wait_for_timeout(1000)  # what the new run asks of the server is over
    maps = page.locator(".gf-stage-head").count()
    if maps != LAYERS * HEADS:
        raise BenchmarkFailed(f"the stage shows {maps} maps, {LAYERS * HEADS} were expected")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    times = key_times(page, SLIDER, SAMPLES)
    step = page.evaluate("glassformer.selection.step")
    if step != TOKENS - 2 * (TOKENS - 2) + SAMPLES:
        raise BenchmarkFailed(f"the keys did not move the slider, it is at step {step}")
    page.evaluate("glassformer.select({ step: glassformer.trace.steps.length })")
    page.mouse.wheel(0, page.evaluate("document.querySelector('.gf-stage-maps').getBoundingClientRect().top"))
    page.wait_for_timeout(1000)
    times_of_maps = key_times(page, SLIDER, MAPS_SAMPLES)
    return times, times_of_maps, requests


def of_peer(page: Page, url: str) -> list[float]:
    """The times of the page that has its figure drawn by the server."""
    page.goto(url)
    page.wait_for_selector(".js-plotly-plot .heatmaplayer image", timeout=PATIENCE_MS)
    return key_times(page, "input[type=range]", PEER_SAMPLES, NEW_FIGURE)


def run() -> Result:
    """Milliseconds from input to painted frame; it holds only when not one request was made."""
    trace = run_of()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "run.json"
        file.write_text(trace_to_json(trace), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=system_chromium(), args=BROWSER_ARGUMENTS)
        size = {"width": 1440, "height": 900}
        peer_program = {"program": ("-m", "benchmarks.peer_pages", "plotly"), "GLASSFORMER_TRACE": str(file)}
        with running_together({}, peer_program) as (server, peer):
            blank = browser.new_page(viewport=size)
            blank.set_content(f"<input type=range max={TOKENS} value={TOKENS}>")
            blank_times = key_times(blank, "input", SAMPLES)
            blank.close()
            page = browser.new_page(viewport=size)
            times, times_of_maps, requests = of_stage(page, server.url, file)
            page.close()
            peer_times = of_peer(browser.new_page(viewport=size), peer.url)
        browser.close()
    result = at_most(
        "scrub",
        median(times),
        BUDGET,
        f"milliseconds from a key to the painted frame, {LAYERS} layers x {HEADS} heads, {TOKENS} tokens",
        milliseconds={"median": median(times), "p95": percentile(times, 95), "largest": max(times)},
        maps_in_view_milliseconds={"median": median(times_of_maps), "p95": percentile(times_of_maps, 95)},
        requests=len(requests),
        blank_page_milliseconds={"median": median(blank_times), "p95": percentile(blank_times, 95)},
        figure_by_server_milliseconds={"median": median(peer_times), "p95": percentile(peer_times, 95)},
        times_as_fast=median(peer_times) / median(times),
    )
    return replace(result, holds=result.holds and not requests)
