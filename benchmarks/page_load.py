"""From opening the page to the first useful view, with an empty cache; beside it a bare Gradio page."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from statistics import median
from urllib.parse import urlsplit

from playwright.sync_api import Browser, sync_playwright

from benchmarks.live import BROWSER_ARGUMENTS, running_together, system_chromium
from benchmarks.measuring import Result, at_most
from benchmarks.scrub import HEADS, LAYERS, TOKENS, run_of
from viz.tabs.runs import payload_of, run_payload
from viz.tabs.session import first_session

BUDGET = 2.0  # times as long as the bare page
ROUNDS = 3
PATIENCE_MS = 30_000
SETTLED_MS = 500  # after the first view: what still comes counts, too

# When a page is of use: ours shows what the example's decoding wrote and a map for each head, the bare one its button.
OF_USE = {
    "ours": """document.querySelectorAll(".gf-stage-target .gf-chip").length > 1
        && document.querySelector(".gf-stage-head")?.offsetHeight > 0""",
    "bare": """document.querySelector(".bare-run")?.offsetHeight > 0""",
}
WATCH = """() => {
  const look = () => {
    if (!(%s)) return requestAnimationFrame(look);
    const channel = new MessageChannel();
    channel.port1.onmessage = () => { window.firstView = performance.now(); };
    channel.port2.postMessage(null);
  };
  requestAnimationFrame(look);
}"""


@dataclass
class Load:
    """One opening of a page."""

    milliseconds: float = 0.0
    n_bytes: int = 0  # over the wire, as compressed as they came
    requests: int = 0
    third_parties: set[str] = field(default_factory=set)


def load(browser: Browser, url: str, of_use: str) -> Load:
    """Open ``url`` as somebody does who was never there before."""
    loaded, sizes = Load(), defaultdict(int)
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-US")
    page = context.new_page()
    wire = context.new_cdp_session(page)
    wire.send("Network.enable")
    wire.on("Network.dataReceived", lambda event: sizes.update(
        {event["requestId"]: sizes[event["requestId"]] + event["encodedDataLength"]}
    ))
    wire.on("Network.loadingFinished", lambda event: sizes.update({event["requestId"]: event["encodedDataLength"]}))

    def requested(address: str) -> None:
        loaded.requests += 1
        host = urlsplit(address).netloc
        if host and host != urlsplit(url).netloc:
            loaded.third_parties.add(host)

    page.on("request", lambda request: requested(request.url))
    page.add_init_script(f"({WATCH % of_use})()")
    page.goto(url)
    page.wait_for_function("window.firstView", timeout=PATIENCE_MS)
    loaded.milliseconds = page.evaluate("window.firstView")
    page.wait_for_timeout(SETTLED_MS)
    loaded.n_bytes = sum(sizes.values())
    context.close()
    return loaded


def run() -> Result:
    """How many times as long as a bare Gradio page; it holds only when nothing came from a third party."""
    loads: dict[str, list[Load]] = defaultdict(list)
    with (
        sync_playwright() as playwright,
        running_together({}, {"program": ("-m", "benchmarks.peer_pages", "bare")}) as (ours, bare),
    ):
        browser = playwright.chromium.launch(executable_path=system_chromium(), args=BROWSER_ARGUMENTS)
        urls = {"ours": f"{ours.url}/?lang=en", "bare": f"{bare.url}/"}
        for number in range(-1, ROUNDS):  # the first one only warms up
            for name in list(urls)[:: 1 if number % 2 == 0 else -1]:
                loaded = load(browser, urls[name], OF_USE[name])
                if number >= 0:
                    loads[name].append(loaded)
        browser.close()
    times = {name: [each.milliseconds for each in loads[name]] for name in loads}
    third_parties = set().union(*(each.third_parties for each in loads["ours"]))
    result = at_most(
        "page-load",
        median(a / b for a, b in zip(times["ours"], times["bare"], strict=True)),
        BUDGET,
        "times as long to the first useful view as a bare Gradio page",
        milliseconds={name: round(median(values)) for name, values in times.items()},
        kilobytes={name: round(median(each.n_bytes for each in loads[name]) / 1000) for name in loads},
        requests={name: median(each.requests for each in loads[name]) for name in loads},
        third_parties=sorted(third_parties),
        trace_kilobytes={
            "the example": round(len(payload_of(first_session()).encode()) / 1000, 1),
            f"{LAYERS} layers x {HEADS} heads, {TOKENS} tokens": round(len(run_payload(run_of()).encode()) / 1000, 1),
        },
    )
    return replace(result, holds=result.holds and not third_parties)
