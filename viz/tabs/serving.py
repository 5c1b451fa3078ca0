"""The page as a server for many: turns in the queue, what is kept of each visitor, and how the server is.

A visitor is a browser tab, known by the hash of its session.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy
from datetime import datetime
from pathlib import Path

import gradio as gr
from fastapi import HTTPException, Request
from gradio.block_function import BlockFunction
from gradio.data_classes import PredictBodyInternal
from gradio.queueing import Event, Queue
from gradio.routes import App
from gradio.state_holder import SessionState, StateHolder
from starlette.responses import JSONResponse

from transformer.devices import available_devices, device_name
from viz.tabs.action_log import action, note, write
from viz.tabs.language import LANGUAGES, language_of_browser, say
from viz.tabs.training_worker import Trainings

MOST_OF_ONE = 20  # questions of one visitor that may wait; the page itself asks at most a handful at once
ANSWER_SECONDS = 60  # a program that asks by name fetches its answer within these
VERSION = re.search(
    r'^version = "(.+)"$', (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text("utf-8"), re.M
)[1]


class FairQueue(Queue):
    """Gradio's queue, but visitors take turns, one may not fill it, and who finds it full is told so in words.

    A question waits behind the first waiting question of everybody else, the second behind their second ones, and so
    on: a lane is served as if each visitor had a line of their own.
    """

    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        self._turn: defaultdict[str, int] = defaultdict(int)  # of a lane: the one that is being served
        # Seconds between two looks at the queue: Gradio's thousand a second keep a twentieth of a core busy.
        self.sleep_when_free = 0.004
        self.progress_update_sleep_when_free = 0.25  # no event here reports its progress that way

    async def push(self, body: PredictBodyInternal, request: Request, username: str | None) -> tuple:
        waiting = [event for lane in self.event_queue_per_concurrency_id.values() for event in lane.queue]
        own = [event for event in waiting if event.session_hash == body.session_hash]
        if len(own) >= MOST_OF_ONE:
            self._refuse(body, request, "too_many_waiting", n=len(own))
        if self.max_size is not None and len(waiting) >= self.max_size:
            self._refuse(body, request, "queue_full", n=len(waiting))
        success, answer, state = await super().push(body, request, username)
        event = self.event_ids_to_events.get(answer) if success else None
        if event is not None:
            self._give_turn(event, own)
        return success, answer, state

    def _refuse(self, body: PredictBodyInternal, request: Request, code: str, **values: object) -> None:
        fn = self.blocks.fns.get(body.fn_index)
        write(_name(fn) if fn is not None else "unknown", outcome="refused", ms=0.0, code=code)
        sentence = say(_language(body, request), f"hosting.{code}", **values)
        # Not 503, for which Gradio's page has words of its own, in English.
        raise HTTPException(429, sentence, headers={"Retry-After": "5"})

    def _give_turn(self, event: Event, own: list[Event]) -> None:
        lane = event.concurrency_id
        queue = self.event_queue_per_concurrency_id[lane].queue
        event.turn = 1 + max([self._turn[lane], *(each.turn for each in own if each.concurrency_id == lane)])
        queue.sort(key=lambda each: getattr(each, "turn", 0))  # who came first stays first among equals
        self.broadcast_estimations(lane)

    def get_events(self) -> tuple[list[Event], bool, str] | None:
        found = super().get_events()
        if found is not None:
            events, _, lane = found
            self._turn[lane] = max(self._turn[lane], getattr(events[0], "turn", 0))
        return found

    async def process_events(self, events: list[Event], batch: bool, begin_time: float, fn: BlockFunction) -> None:
        first = events[0]
        with action(_name(fn), wait_ms=1000 * (time.monotonic() - first.enqueue_time)):
            await super().process_events(events, batch, begin_time, fn)
            if not first.alive:
                note(outcome="left")
        for event in events:
            if event.session_hash == event._id:  # a program that asked by name: it has no session to come back to
                asyncio.get_running_loop().call_later(ANSWER_SECONDS, self.blocks.forget, event.session_hash)

    def forget(self, visitor: str) -> None:
        """Drop what was to be sent to a visitor."""
        self.pending_messages_per_session.pop(visitor, None)
        self.pending_event_ids_session.pop(visitor, None)


class VisitorState(SessionState):
    """What Gradio keeps of a visitor, without a copy of the whole page's description, which took 0.1 s and 0.4 MB for
    each of them and serves links that this page does not offer."""

    def __init__(self, blocks: gr.Blocks) -> None:
        super().__init__(_Nothing(blocks))

    def __setitem__(self, key: int, value: object) -> None:
        block = self.blocks_config.blocks.get(key)
        if isinstance(block, gr.State):
            self._state_ttl[key] = (block.time_to_live, datetime.now())
            self.state_data[key] = value
        else:
            self.blocks_config.blocks[key] = value

    def _update_config(self, key: int) -> None:
        pass

    def _update_value_in_config(self, key: int, value: object) -> None:
        pass


class _Nothing:
    """The page as ``SessionState`` needs it, with no component to describe."""

    def __init__(self, blocks: gr.Blocks) -> None:
        self.default_config, self.blocks = copy(blocks.default_config), {}


class Visitors(StateHolder):
    """What is kept of all visitors, the latest used last."""

    def __getitem__(self, visitor: str) -> SessionState:
        if visitor not in self.session_data:
            self.session_data[visitor] = VisitorState(self.blocks)
        return super().__getitem__(visitor)

    def forget(self, visitor: str) -> None:
        """Drop all of one visitor."""
        with self.lock:
            self.session_data.pop(visitor, None)
            self.time_last_used.pop(visitor, None)


class Page(gr.Blocks):
    """``gr.Blocks`` that takes turns, writes a line for each action, and forgets visitors who have left.

    ``trainings`` are those of the page. A visitor whose tab has closed, or whose connection broke, is forgotten once
    nothing has been heard of them for ``GLASSFORMER_KEEP_SECONDS``.
    """

    trainings: Trainings | None = None

    def queue(self, *args: object, **options: object) -> Page:
        super().queue(*args, **options)
        plain = self._queue
        self._queue = FairQueue(
            live_updates=plain.live_updates,
            concurrency_count=plain.max_thread_count,
            update_intervals=plain.update_intervals,
            max_size=plain.max_size,
            blocks=self,
            default_concurrency_limit=plain.default_concurrency_limit,
        )
        return self

    async def process_api(self, block_fn: BlockFunction | int, *args: object, **options: object) -> dict:
        fn = self.fns[block_fn] if isinstance(block_fn, int) else block_fn
        with action(_name(fn)):
            return await super().process_api(block_fn, *args, **options)

    def forget(self, visitor: str) -> None:
        """Drop all that is kept of a visitor, but for a training, which ends when they leave."""
        self.state_holder.forget(visitor)
        self._queue.forget(visitor)

    def forget_when_left(self) -> None:
        """Wire it. To be called inside the page's context, after everything else that happens when a tab closes."""
        seconds = float(os.environ.get("GLASSFORMER_KEEP_SECONDS") or 600)

        def later(visitor: str) -> None:
            left, loop = datetime.now(), asyncio.get_running_loop()

            def forget() -> None:
                last_used = self.state_holder.time_last_used.get(visitor)
                if last_used is not None and last_used > left:  # only the connection broke: they are still here
                    later(visitor)
                else:
                    self.forget(visitor)

            loop.call_later(seconds, forget)

        async def left(request: gr.Request) -> None:
            later(request.session_hash)

        self.unload(left)


@asynccontextmanager
async def lifespan(app: App) -> AsyncIterator[None]:
    """Before the first request: visitors are kept as ``Visitors`` does it."""
    app.state_holder = Visitors()
    app.state_holder.set_blocks(app.get_blocks())
    yield


async def health(request: Request) -> JSONResponse:
    """Whether the server is well and how busy it is, for whoever watches it. Says nothing of any visitor."""
    page: Page = request.app.get_blocks()
    stopped = page._queue.stopped
    device = available_devices()[-1]
    report = {
        "status": "stopping" if stopped else "ok",
        "version": VERSION,
        "device": device_name(device),
        "trainings_running": page.trainings.line.n_running,
        "trainings_waiting": page.trainings.line.n_waiting,
        "queue_length": len(page._queue),
        "queue_limit": page._queue.max_size,
        "visitors_kept": len(request.app.state_holder.session_data),
    }
    return JSONResponse(report, 503 if stopped else 200, headers={"Cache-Control": "no-store"})


def _name(fn: BlockFunction) -> str:
    """What an event is called in the log: the module of its handler and the handler."""
    handler = inspect.unwrap(fn.fn) if callable(fn.fn) else fn
    return f"{getattr(handler, '__module__', '').rsplit('.', 1)[-1]}.{getattr(handler, '__name__', 'script')}"


def _language(body: PredictBodyInternal, request: Request) -> str:
    """The language a page's question is asked in, which is its last input; for others what their browser prefers."""
    last = body.data[-1] if body.data else None
    if isinstance(last, str) and last in LANGUAGES:
        return last
    return language_of_browser(request.headers.get("accept-language"))
