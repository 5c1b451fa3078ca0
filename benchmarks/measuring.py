"""What the benchmarks share: times taken in turns, one result each, and the facts of the machine they were taken on."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

PACKAGES = ("torch", "gradio", "transformers", "ctranslate2")


class BenchmarkFailed(Exception):
    """Nothing could be measured, or what was to be compared is not the same thing. Its text is one sentence."""
# Seconds that all threads of this process had a processor for. For work that waits for nothing these are the seconds
# of an idle machine, and they stay so when other programs take their share of it.
processor_clock = time.process_time


@dataclass(frozen=True, eq=False)
class Result:
    """What one benchmark found.

    ``value`` is judged against ``budget``; ``meaning`` says what it is, with its unit, and whether more or less is
    better. ``details`` is anything JSON can hold; what the table shows of it are its numbers and texts, one line for
    each mapping.
    """

    name: str
    value: float
    budget: float | None  # None: measured for its own sake
    holds: bool
    meaning: str
    details: Mapping[str, object] = field(default_factory=dict)

    def to_dict(self) -> dict:
        """A plain dict of the fields, ready for JSON."""
        return asdict(self)


def at_least(name: str, value: float, budget: float | None, meaning: str, **details: object) -> Result:
    """A result whose value should be ``budget`` or more."""
    return Result(name, value, budget, budget is None or value >= budget, f"{meaning}; more is better", details)


def at_most(name: str, value: float, budget: float | None, meaning: str, **details: object) -> Result:
    """A result whose value should be ``budget`` or less."""
    return Result(name, value, budget, budget is None or value <= budget, f"{meaning}; less is better", details)


def interleaved(
    tasks: Mapping[str, Callable[[], object]],
    rounds: int,
    warm_ups: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of each of ``tasks``, ``rounds`` times each, taken in turns: whatever slows the machine slows all alike.

    Every second round goes backwards, so that none always comes after the same other one. ``warm_ups`` rounds before
    are not counted. What only computes is timed by ``processor_clock``.
    """
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for number in range(-warm_ups, rounds):
        for name in list(tasks)[:: 1 if number % 2 == 0 else -1]:
            started = clock()
            tasks[name]()
            if number >= 0:
                seconds[name].append(clock() - started)
    return seconds


def medians(seconds: Mapping[str, list[float]]) -> dict[str, float]:
    """The median of each, in seconds."""
    return {name: median(values) for name, values in seconds.items()}


def ratio(seconds: Mapping[str, list[float]], of: str, to: str) -> float:
    """How many times as long ``of`` took as ``to``: the median of the ratios of each round."""
    return median(a / b for a, b in zip(seconds[of], seconds[to], strict=True))


def versions() -> dict[str, str]:
    """Python and the packages that are measured, or measured against, by name; ``none`` for one that is missing."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "none"
    return found


def machine() -> dict[str, object]:
    """The machine's processor, how many of its cores this process may use, and how busy it is (mean of a minute)."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
