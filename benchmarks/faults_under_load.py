"""What must hold when things go wrong: a crowd, somebody greedy, too much text, a broken connection, a full disk.

A training whose worker is killed is in ``tests/test_hosting.py``: nothing outside the server can do that to it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random

from benchmarks.classroom import decode_event, text_of
from benchmarks.live import Refused, Visitor, running
from benchmarks.measuring import Result, at_most
from viz.tabs.serving import MOST_OF_ONE
from viz.tabs.training_settings import NAMES, default_settings

CROWD = 200
QUEUE = 120
HEALTH_SECONDS = 2.0  # within which /health must answer, whatever happens
STOP_SECONDS = 5.0  # within which a training that nobody follows must be over
DISK_MB = 5.001  # two of the files, and not enough for a run beside them


class Class:
    """A server under test, and what its events are called."""

    def __init__(self, url: str, events: dict[str, dict]) -> None:
        self.url, self.events = url, events
        self.slowest_health = 0.0

    def visitor(self) -> Visitor:
        return Visitor(self.url, self.events)

    async def health(self) -> dict:
        asked = time.monotonic()
        report = json.loads(await self.visitor().get("/health"))
        self.slowest_health = max(self.slowest_health, time.monotonic() - asked)
        return report

    async def decoded(self, visitor: Visitor, text: str, language: str = "en") -> str:
        """``right``, ``wrong``, or how it was refused."""
        try:
            answer = await visitor.ask(decode_event(self.events), [text, None, None, language])
        except Refused as refused:
            return str(refused)
        return "right" if json.loads(answer[1])["source"][:-1] == _chips(text) else "wrong"


def _chips(text: str) -> list[dict]:
    return [{"label": word, "special": False, "unknown": False} for word in text.split()]


def _said(answers: list[str]) -> dict[str, int]:
    return dict(Counter(answer[:3] if answer[:3].isdigit() else answer for answer in answers))


async def crowd(room: Class) -> tuple[bool, dict]:
    """200 connections at once: each gets its own right answer or is refused by 429, and the server stays well."""

    async def one(number: int) -> str:
        async with room.visitor() as visitor:
            return await room.decoded(visitor, text_of(number % 32, Random(number)))

    asked = time.monotonic()
    everybody = asyncio.gather(*(one(number) for number in range(CROWD)))
    while not everybody.done():
        await room.health()
        await asyncio.sleep(0.2)
    answers = _said(everybody.result())
    holds = set(answers) <= {"right", "429"} and answers["right"] >= QUEUE
    return holds, {**answers, "seconds": round(time.monotonic() - asked, 1)}


async def greedy(room: Class) -> tuple[bool, dict]:
    """One visitor asks 100 times at once: a few wait, the rest are refused in words, and another one is served soon."""
    async with room.visitor() as one, room.visitor() as another:
        body = {"data": ["1 2 3", None, None, "zh"], "event_data": None, "session_hash": one.session,
                "fn_index": room.events[decode_event(room.events)]["id"]}
        flood = await asyncio.gather(
            *(one.post("/gradio_api/queue/join", body) for _ in range(100)), return_exceptions=True
        )
        asked = time.monotonic()
        answer = await room.decoded(another, "4 5 6")
        seconds = time.monotonic() - asked
        waiting = (await room.health())["queue_length"]
    refused = [str(each) for each in flood if isinstance(each, Refused)]
    in_words = all(each.startswith("429") and "个请求在排队" in each for each in refused)
    taken = len(flood) - len(refused)
    holds = answer == "right" and waiting > 0 and in_words and MOST_OF_ONE <= taken < 2 * MOST_OF_ONE
    return holds, {"taken": taken, "refused": len(refused), "another waited": f"{seconds:.2f} s"}


async def ten_megabytes(room: Class) -> tuple[bool, dict]:
    """10 MB of text: refused before they are read as JSON; half of it, by the limit of a text; the next is answered."""
    async with room.visitor() as visitor:
        large = await room.decoded(visitor, "7 " * 5_000_000)
        try:
            answer = await visitor.ask(decode_event(room.events), ["7 " * 2_000_000, None, None, "en"])
            smaller = "alert" in answer[-1] and "256 characters" in answer[-1]
        except Refused as refused:
            smaller = str(refused)
        after = await room.decoded(visitor, "1 2 3")
    return (large[:3], smaller, after) == ("413", True, "right"), {"10 MB": large[:80], "after": after}


async def broken_connection(room: Class) -> tuple[bool, dict]:
    """A training is followed, then the stream is cut while its tab stays open: the training ends and makes room."""
    settings = default_settings("copy")
    async with room.visitor() as visitor:
        body = {"data": [*(settings[name] for name in NAMES), None, "en"], "event_data": None,
                "session_hash": visitor.session, "fn_index": room.events["train"]["id"]}
        await visitor.post("/gradio_api/queue/join", body)
        async with visitor.stream() as messages:
            seen = 0
            async for message in messages:
                seen += message["msg"] == "process_generating"
                if seen == 4:
                    break
        running_before = (await room.health())["trainings_running"]
        cut = time.monotonic()
        while (await room.health())["trainings_running"] and time.monotonic() - cut < STOP_SECONDS:
            await asyncio.sleep(0.1)
        seconds = time.monotonic() - cut
    return running_before == 1 and seconds < STOP_SECONDS, {"over after": f"{seconds:.1f} s"}


async def full_disk(room: Class) -> tuple[bool, dict]:
    """Files fill the room there is for them: the next one is refused, in words, and so is a download; texts go on."""
    async with room.visitor() as visitor:
        statuses = [await visitor.upload(bytes([number]) * 2_500_000) for number in range(4)]
        note = (await visitor.ask_at_once("save_run", [None, "en"]))[-1]
        after = await room.decoded(visitor, "1 2 3")
    download = "refused" if "no room" in note else "made"
    holds = (statuses, download, after) == ([200, 200, 507, 507], "refused", "right")
    return holds, {"uploads": statuses, "download": download, "after": after}


async def checked(url: str, checks: list[Callable[[Class], Awaitable[tuple[bool, dict]]]]) -> dict[str, tuple]:
    """What each of ``checks`` found, by name, on the server at ``url``; then whether the server is well."""
    room = Class(url, await Visitor(url).events())
    found = {}
    for check in checks:
        found[check.__name__] = await check(room)
    well = (await room.health())["status"] == "ok" and room.slowest_health < HEALTH_SECONDS
    return {**found, f"health of {len(checks)}": (well, {"slowest answer": f"{room.slowest_health:.2f} s"})}


def run() -> Result:
    """How many promises were broken."""
    with running(GLASSFORMER_QUEUE=str(QUEUE)) as server:
        found = asyncio.run(checked(server.url, [crowd, greedy, ten_megabytes, broken_connection]))
    with running(GLASSFORMER_DISK_MB=str(DISK_MB)) as server:
        found |= asyncio.run(checked(server.url, [full_disk]))
    broken = [name for name, (holds, _) in found.items() if not holds]
    return at_most(
        "faults", len(broken), 0, "promises broken under faults", broken=broken,
        **{name.replace("_", " "): {"holds": holds, **facts} for name, (holds, facts) in found.items()},
    )
