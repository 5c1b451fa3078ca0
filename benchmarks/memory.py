"""Memory of the server after a lesson's warm-up, and after 500 more decodes and 20 trainings whose visitors left."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from random import Random

from benchmarks.classroom import decode_event
from benchmarks.live import Visitor, resident_megabytes, running
from benchmarks.measuring import BenchmarkFailed, Result, at_most
from viz.tabs.training_settings import NAMES, default_settings

BUDGET = 5.0  # percent
DECODES, TRAININGS = 500, 20
DECODES_OF_ONE = 20  # then their tab closes
WARM_UP = 60, 4  # decodes and trainings before the first look
SHORT = {"steps": 10, "max_length": 3, "batch_size": 16}  # of a training: two evaluations, their maps, and soon over
SECONDS_KEPT = 0.5  # in the place of ten minutes, so that those who left are forgotten while we look


def text_of(random: Random) -> str:
    """Three symbols: what is kept of a run does not depend on how many they are, and 500 runs take their time."""
    return " ".join(str(random.randrange(32)) for _ in range(3))


async def decoding(url: str, events: dict, decodes: int) -> None:
    """So many decodes, one after another, by visitors who come and go."""
    random = Random(0)
    for _ in range(0, decodes, DECODES_OF_ONE):
        async with Visitor(url, events) as visitor:
            for _ in range(DECODES_OF_ONE):
                await visitor.ask(decode_event(events), [text_of(random), None, None, "en"])


async def training(url: str, events: dict, trainings: int) -> None:
    """So many short trainings, a visitor each."""
    settings = {**default_settings("copy"), **SHORT}
    for seed in range(trainings):
        values = [*({**settings, "seed": seed}[name] for name in NAMES), None, "en"]
        async with Visitor(url, events) as visitor:
            await visitor.ask("train", values)


async def lesson(url: str, decodes: int, trainings: int) -> int:
    """Both at once, until everybody has left and is forgotten; how many visitors the server still keeps."""
    events = await Visitor(url).events()
    await asyncio.gather(decoding(url, events, decodes), training(url, events, trainings))
    for _ in range(50):
        await asyncio.sleep(0.2)
        kept = json.loads(await Visitor(url).get("/health"))["visitors_kept"]
        if not kept:
            return 0
    return kept


def run() -> Result:
    """By how much the server's resident memory has grown, in percent; it holds only when all who left are forgotten."""
    with running(GLASSFORMER_KEEP_SECONDS=str(SECONDS_KEPT)) as server:
        if asyncio.run(lesson(server.url, *WARM_UP)):
            raise BenchmarkFailed("visitors who left are kept, so there is no memory to compare with")
        before = resident_megabytes(server.pid)
        kept = asyncio.run(lesson(server.url, DECODES, TRAININGS))
        after = resident_megabytes(server.pid)
    result = at_most(
        "memory",
        100 * (after / before - 1),
        BUDGET,
        f"percent more memory after {DECODES} decodes and {TRAININGS} trainings",
        megabytes={"after warm-up": round(before, 1), "after the lesson": round(after, 1)},
        visitors_kept=kept,
    )
    return replace(result, holds=result.holds and not kept)
