"""What the benches that break and prove send to the browser: two runs side by side, and a list of proofs.

Shape legend: L layers, H heads, T queries, S keys.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import numpy as np

from viz.surgery import aligned

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def within_one(patterns: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Patterns {kind: [L, H, T, S]} divided by the largest weight of their kind where that is above 1, and those.

    Weights are sent as parts of 1; dropout makes some of them larger. The browser multiplies them out again.
    """
    largest = {kind: max(1.0, float(weights.max(initial=0.0))) for kind, weights in patterns.items()}
    return {kind: weights / np.float32(largest[kind]) for kind, weights in patterns.items()}, largest


def faults_payload(
    *, groups: Sequence[tuple[str, Sequence[Mapping[str, object]]]], chosen: Sequence[str], before: str, after: str,
    written_before: Sequence[str], written_after: Sequence[str], distances: Sequence[float], **facts: object,
) -> str:
    """The JSON text of a sound run beside one under faults.

    ``groups`` are all faults there are, by group; ``before`` and ``after`` are ``trace_payload`` texts; ``distances``
    hold, for each token of ``written_before``, the total variation distance between the two answers there.
    Raises ValueError when they differ in number or one of them is none that a distance can be.
    """
    if len(distances) != len(written_before):
        raise ValueError(f"{len(written_before)} tokens have {len(distances)} distances")
    if not all(-1e-9 <= distance <= 1 + 1e-9 for distance in distances):
        raise ValueError(f"distances must lie in 0..1, got {min(distances)} to {max(distances)}")
    pairs = aligned(written_before, written_after)
    n_different = sum(i is None or j is None or written_before[i] != written_after[j] for i, j in pairs)
    return json.dumps({
        "groups": groups, "chosen": list(chosen), "before": before, "after": after, "pairs": pairs,
        "n_different": n_different, "distances": [float(distance) for distance in distances],
        "distance": float(np.mean(distances)), **facts,
    }, ensure_ascii=False)


def problem_payload(sentence: str) -> str:
    """The JSON text that tells a view, in place of an answer, what is wrong with what it asked."""
    return json.dumps({"problem": sentence}, ensure_ascii=False)


def proof_row(
    name: str, holds: bool, max_deviation: float, tolerance: float, done: Mapping[str, object], milliseconds: float,
    expected_to_fail: bool,
) -> dict:
    """One line of the list of proofs, its figures as they are read."""
    return {
        "name": name, "holds": holds, "expected_to_fail": expected_to_fail,
        "deviation": readable(max_deviation), "tolerance": readable(tolerance),
        "exact": tolerance == 0, "share": deviation_share(max_deviation), "allowed_share": deviation_share(tolerance),
        "done": [[key, counted(value)] for key, value in done.items()],
        "milliseconds": round(milliseconds, 1),
    }


def proofs_payload(
    *, asked: str, chosen: Sequence[str], rows: Sequence[Mapping[str, object]], n_all: int, **facts: object
) -> str:
    """The JSON text of the proofs made so far, out of ``n_all``; ``asked`` tells the browser which question it answers.

    ``verdict`` says what they amount to once all are made: ``sound`` (all hold and none was to fail), ``as_named``
    (just those fail that were to), ``other`` (the two sets differ), and ``running`` until then.
    """
    failing = [row["name"] for row in rows if not row["holds"]]
    expected = [row["name"] for row in rows if row["expected_to_fail"]]
    if len(rows) < n_all:
        verdict = "running"
    elif failing == expected:
        verdict = "as_named" if failing else "sound"
    else:
        verdict = "other"
    return json.dumps({
        "asked": asked, "chosen": list(chosen), "rows": list(rows), "n_all": n_all, "n_hold": len(rows) - len(failing),
        "n_fail": len(failing), "verdict": verdict, **facts,
    }, ensure_ascii=False)


def readable(number: float) -> str:
    """A deviation as it is read: ``0``, ``0.042``, ``3.3 × 10⁻¹⁶``; ``∞`` and ``NaN`` for what is no number."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "−∞"
    if number == 0:
        return "0"
    if 1e-3 <= abs(number) < 1e4:
        return f"{number:.3g}"
    mantissa, exponent = f"{number:.1e}".split("e")
    power = "10" + str(int(exponent)).translate(_SUPERSCRIPTS)
    return power if mantissa == "1.0" else f"{mantissa} × {power}"


def deviation_share(deviation: float) -> float:
    """Where a deviation stands between 10⁻¹⁷ (0) and 1 (1), by its power of ten; nothing at all is 0."""
    if math.isnan(deviation) or deviation >= 1:
        return 1.0
    return 0.0 if deviation <= 1e-17 else 1 + math.log10(deviation) / 17


def counted(value: object) -> str:
    """A figure of what a proof did, as it is read: lists joined, large numbers with thin spaces."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(counted, value))
    return f"{value:,}".replace(",", "\u202f") if isinstance(value, int) else str(value)
