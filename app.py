"""Build the page and serve it: ``python app.py``, and the entry of a Hugging Face Space."""

from __future__ import annotations

import ctypes
import os

# Before torch and gradio are imported. One thread: a second gains nothing on two cores and starves the server.
os.environ.setdefault("OMP_NUM_THREADS", os.environ.get("GLASSFORMER_THREADS", "1"))
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
# Nobody looks at Gradio's statistics of its events, which it works out anew after each of them.
os.environ["GRADIO_ANALYTICS_MAX_EVENTS"] = "1"
os.environ["GRADIO_ANALYTICS_CACHE_FREQUENCY"] = str(10**9)

import sys
from contextlib import suppress
from pathlib import Path

import gradio as gr
import plotly
import torch
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.routing import Route

from viz.tabs.action_log import write_actions
from viz.tabs.components import head_html, style_sheet
from viz.tabs.compressed import Compressed
from viz.tabs.language import say
from viz.tabs.limits import LARGEST_UPLOAD, RequestLimits
from viz.tabs.page import build_page
from viz.tabs.serving import health, lifespan
from viz.theme import FONT, MONO

PLOTLY_SCRIPT = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"


async def plotly_script(request: Request) -> FileResponse:
    """Plotly's own script, for charts: never from a third party. A route and no mount, so that it is found behind any
    proxy."""
    return FileResponse(PLOTLY_SCRIPT, media_type="text/javascript", headers={"Cache-Control": "public, max-age=86400"})


def spoken_words() -> gr.I18n:
    """What Gradio tells screen readers when an event ends: it asks for the words by a key that it has none for."""
    words = {language: {"common.complete": say(language, "common.done")} for language in ("en", "zh")}
    return gr.I18n(**words, **{"zh-CN": words["zh"]})


def launch_options() -> dict:
    """What ``Blocks.launch`` is given. ``GLASSFORMER_*`` variables set the limits; see the README."""
    environment = os.environ.get
    login = environment("GLASSFORMER_AUTH")  # "name:password"
    return {
        "server_name": environment("GLASSFORMER_HOST") or ("0.0.0.0" if environment("SPACE_ID") else "127.0.0.1"),
        "server_port": int(environment("GLASSFORMER_PORT") or 7860),
        "auth": tuple(login.split(":", 1)) if login else None,
        "theme": gr.themes.Default(
            primary_hue="indigo", neutral_hue="slate", font=FONT.split(", "), font_mono=MONO.split(", ")
        ),
        "css": style_sheet(),
        "head": head_html(),
        "i18n": spoken_words(),
        "footer_links": [],
        "max_file_size": f"{LARGEST_UPLOAD}mb",
        "state_session_capacity": int(environment("GLASSFORMER_SESSIONS") or 300),
        "app_kwargs": {
            "routes": [Route("/health", health), Route("/plotly/plotly.min.js", plotly_script)],
            "middleware": [Middleware(RequestLimits), Middleware(Compressed)],
            "lifespan": lifespan,
        },
        "ssr_mode": False,
        "pwa": False,
        "run_history": False,
        "enable_monitoring": False,
        "show_error": False,
    }


def share_memory_pools() -> None:
    """Let all threads take memory from two pools.

    glibc gives many threads one each, and what a handler or a training has freed in one is of no use to the next: a
    server would seem to grow for hours. Elsewhere there is nothing to do.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL("libc.so.6").mallopt(-8, 2)  # M_ARENA_MAX of malloc.h


def main() -> None:
    """Serve until stopped."""
    share_memory_pools()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    if os.environ.get("GLASSFORMER_LOG", "on") != "off":
        write_actions(sys.stderr)
    page = build_page()
    page.queue(max_size=int(os.environ.get("GLASSFORMER_QUEUE") or 120), default_concurrency_limit=4)
    page.launch(**launch_options())


if __name__ == "__main__":
    main()
