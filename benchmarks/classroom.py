"""Thirty visitors who decode a text of their own every five seconds while another one trains, over HTTP."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from dataclasses import replace
from random import Random
from statistics import median

from benchmarks.live import Refused, Visitor, percentile, running
from benchmarks.measuring import Result, at_most
from viz.tabs.training_settings import NAMES, default_settings

VISITORS = 30
EVERY = 5.0  # seconds from one question of a visitor to their next
SECONDS = 30.0
BUDGET = 1.5  # seconds, of the 95th percentile


def text_of(number: int, random: Random) -> str:
    """A text of the copy task that no other visitor asks for: it begins with the visitor's number."""
    return " ".join(str(symbol) for symbol in (number, *(random.randrange(32) for _ in range(random.randint(5, 11)))))


def decode_event(events: dict[str, dict]) -> str:
    """The name of the event behind the Decode button, which is the first of several that decode."""
    return next(name for name in events if name.startswith("decode"))


async def decoding(url: str, events: dict, number: int, until: float, seen: dict) -> None:
    """One visitor: arrives some time in the first five seconds, and asks until ``until``."""
    random = Random(number)
    await asyncio.sleep(EVERY * number / VISITORS)
    async with Visitor(url, events) as visitor:
        while time.monotonic() < until:
            text, asked = text_of(number, random), time.monotonic()
            try:
                answer = await visitor.ask(decode_event(events), [text, None, None, "en"])
            except (Refused, OSError, asyncio.IncompleteReadError) as error:
                seen["errors"][f"{type(error).__name__}: {error}"[:120]] += 1
            else:
                seen["seconds"].append(time.monotonic() - asked)
                run = json.loads(answer[1])
                source = " ".join(token["label"] for token in run["source"][:-1])
                written = " ".join(step["token"]["label"] for step in run["steps"][:-1])
                seen["others"] += source != text
                seen["wrong"] += written != text
            await asyncio.sleep(max(0.0, min(asked + EVERY, until) - time.monotonic()))


async def training(url: str, events: dict, seen: dict) -> None:
    """The visitor who trains, with the page's own settings, again and again."""
    settings = default_settings("copy")
    async with Visitor(url, events) as visitor:
        while True:
            seen["trainings"] += 1
            async for _ in visitor.follow("train", [*(settings[name] for name in NAMES), None, "en"]):
                seen["news"] += 1


async def classroom(url: str) -> dict:
    """What the visitors saw."""
    seen = {"seconds": [], "errors": Counter(), "others": 0, "wrong": 0, "trainings": 0, "news": 0}
    events = await Visitor(url).events()
    trainer = asyncio.create_task(training(url, events, seen))
    await asyncio.sleep(1.0)  # it has begun before anybody asks
    until = time.monotonic() + SECONDS
    await asyncio.gather(*(decoding(url, events, number, until, seen) for number in range(VISITORS)))
    if trainer.done():
        trainer.result()
    trainer.cancel()
    return seen


def run() -> Result:
    """The 95th percentile of the time from a question to its answer; it holds only without error and mix-up."""
    with running() as server:
        seen = asyncio.run(classroom(server.url))
    seconds = seen["seconds"]
    result = at_most(
        "classroom",
        percentile(seconds, 95),
        BUDGET,
        f"seconds from a question to its answer, 95th percentile, {VISITORS} visitors and a training",
        seconds={"median": median(seconds), "p95": percentile(seconds, 95), "largest": max(seconds)},
        answers=len(seconds),
        errors=dict(seen["errors"]),
        answers_of_others=seen["others"],
        wrong_answers=seen["wrong"],
        trainings=seen["trainings"],
        news_of_trainings=seen["news"],
    )
    is_sound = not seen["errors"] and not seen["others"] and not seen["wrong"] and seen["news"] > 0
    return replace(result, holds=result.holds and is_sound)
