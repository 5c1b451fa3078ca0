"""``python -m benchmarks [NAME] [--json]``: measure one budget, or all of them one after another.

Exit code 0: every budget holds; 1: one does not, or could not be measured; 2: there is no such benchmark.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

# Before torch is imported: one thread each, as the app has it, and as everything it is compared with gets.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OMP_WAIT_POLICY"] = "passive"
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is fetched: every model that is compared is made here
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

from benchmarks.measuring import BenchmarkFailed, Result, machine, versions

# What is measured, by name, and the module whose ``run()`` does it; imported when it is asked for.
REGISTRY = {
    "decode": "benchmarks.decode",
    "decode-growth": "benchmarks.decode_growth",
    "train-step": "benchmarks.train_step",
    "train-copy": "benchmarks.train_copy",
    "attention-cost": "benchmarks.attention_cost",
    "scrub": "benchmarks.scrub",
    "page-load": "benchmarks.page_load",
    "classroom": "benchmarks.classroom",
    "memory": "benchmarks.memory",
    "faults": "benchmarks.faults_under_load",
}
ALL = "all"


def measure(name: str) -> Result:
    """Run the benchmark ``name`` in this process. Raises BenchmarkFailed."""
    try:
        module = importlib.import_module(REGISTRY[name])
    except ModuleNotFoundError as error:
        raise BenchmarkFailed(f"{name} needs {error.name}, which requirements-dev.txt installs") from None
    return module.run()


def measure_apart(name: str) -> dict:
    """Run the benchmark ``name`` in a process of its own: none is warm, or full, from another one."""
    command = [sys.executable, "-m", "benchmarks", name, "--json"]
    finished = subprocess.run(command, capture_output=True, text=True)
    try:
        return json.loads(finished.stdout)
    except json.JSONDecodeError:
        said = finished.stderr.strip().splitlines() or [f"it ended with code {finished.returncode}"]
        return {"name": name, "value": None, "budget": None, "holds": False, "meaning": said[-1], "details": {}}


def row(result: Mapping[str, object]) -> str:
    """One result as lines of text: the verdict, what it means, and under it a line for each of its details."""
    verdict = "holds" if result["holds"] else "DOES NOT HOLD"
    budget = "none" if result["budget"] is None else f"{result['budget']:g}"
    lines = [f"{result['name']:<15} {_number(result['value']):>9} {budget:>8}  {verdict:<14} {result['meaning']}"]
    lines += [f"{'':<15} {key}: {_text(value)}" for key, value in result["details"].items()]
    return "\n".join(lines)


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(entry)}" for key, entry in value.items())
    if isinstance(value, (list, tuple)):
        return " | ".join(map(_text, value))
    return _number(value)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code; see above."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure the budgets.")
    parser.add_argument("name", nargs="?", default=ALL, help=f"one of {', '.join(REGISTRY)}; or {ALL}, as without one")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    if options.name != ALL and options.name not in REGISTRY:
        known = ", ".join((*REGISTRY, ALL))
        sys.stderr.write(f"there is no benchmark {options.name!r}, expected one of {known}\n")
        return 2

    if options.name != ALL:
        try:
            result = measure(options.name).to_dict()
        except BenchmarkFailed as error:
            sys.stderr.write(f"{error}\n")
            return 1
        _say(json.dumps(result, ensure_ascii=False) if options.json else row(result))
        return 0 if result["holds"] else 1

    facts = {"machine": machine(), "versions": versions()}
    if not options.json:
        for key, value in facts.items():
            _say(f"{key:<15} {_text(value)}")
        _say(f"\n{'benchmark':<15} {'value':>9} {'budget':>8}  {'':<14} what the value is")
    results = []
    for name in REGISTRY:
        results.append(measure_apart(name))
        if not options.json:
            _say(row(results[-1]))
    if options.json:
        _say(json.dumps({**facts, "results": results}, ensure_ascii=False))
    return 0 if all(result["holds"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
