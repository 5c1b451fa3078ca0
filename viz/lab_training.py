"""A healthy and a faulty training beside each other as the browser takes them, and what their numbers say."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from viz.training import first_step_reaching

SIDES = ("healthy", "faulty")
TAIL = 20  # steps that "at the end" of a curve is the mean of: one batch says little
LEARNT = 0.9  # share of sequences written right from which a task counts as learnt
SEEMS_LEARNT = 0.95  # token accuracy in training that looks like success
LITTLE, MUCH = 0.05, 0.3  # differences of two shares
LATER = 1.25  # times as many steps
FLATTERS = 0.8  # a loss below this part of the healthy one reads clearly better


def side_figures(
    losses: Sequence[float],
    token_accuracies: Sequence[float],
    evaluations: Sequence[Mapping[str, object]],
    diverged: Mapping[str, object] | None,
) -> dict[str, object]:
    """What one side has come to: the ends of its curves, None where there is no point yet.

    ``loss`` and ``tokens`` are of training batches, with the true tokens given, as means over the last ``TAIL`` steps;
    ``exact`` is the share of ``n`` unseen sequences written right as a whole, ``learnt_at`` the step of the first
    evaluation in which that was ``LEARNT``.
    """
    last = evaluations[-1] if evaluations else None
    reached = first_step_reaching(evaluations, LEARNT)
    return {
        "steps": len(losses),
        "loss": _mean(losses[-TAIL:]),
        "tokens": _mean(token_accuracies[-TAIL:]),
        "exact": last and last["exact_match"],
        "n": last and last["n"],
        "learnt_at": reached and reached["step"],
        "diverged": dict(diverged) if diverged else None,
    }


def verdict(
    healthy: Mapping[str, object],
    faulty: Mapping[str, object],
    loss_ratio: float | None,
    n_empty: int = 0,
    n_samples: int = 0,
) -> dict[str, object]:
    """What a pair shows: ``cost`` in percentage points of sequences written right, and ``findings`` {key, values}.

    ``healthy`` and ``faulty`` are ``side_figures``, ``loss_ratio`` is ``mean_ratio`` of their losses, ``n_empty`` how
    many of the faulty side's ``n_samples`` sample decodes have no token at all. Before both were evaluated there is
    no cost. Shares among the values are numbers from 0 to 1.
    """
    found: list[tuple[str, dict]] = []
    if faulty["diverged"]:
        found.append(("diverged", dict(faulty["diverged"])))
    if healthy["exact"] is None or faulty["exact"] is None:
        return {"cost": None, "findings": _keyed(found)}
    lost = healthy["exact"] - faulty["exact"]
    if faulty["diverged"]:
        found.append(("only_healthy", _both(healthy, faulty)))
    else:
        found.append(_difference(healthy, faulty))
        if loss_ratio is not None and loss_ratio <= FLATTERS and lost > -LITTLE:
            found.append(("flatters", {"ratio": loss_ratio}))
        if n_samples and n_empty > n_samples / 2:
            found.append(("empty", {"n": n_empty, "total": n_samples}))
    if healthy["exact"] < LEARNT / 2:
        found.append(("unlearnt", {"exact": healthy["exact"]}))
    return {"cost": round(100 * lost), "findings": _keyed(found)}


def _difference(healthy: Mapping[str, object], faulty: Mapping[str, object]) -> tuple[str, dict]:
    """The one sentence that says best how two trainings that both went on to their end differ."""
    lost = healthy["exact"] - faulty["exact"]
    both = _both(healthy, faulty)
    if (faulty["tokens"] or 0) >= SEEMS_LEARNT and lost >= MUCH:
        return "blind", {"tokens": faulty["tokens"], "healthy_tokens": healthy["tokens"], **both}
    if lost > LITTLE:
        return "worse", both
    if lost < -LITTLE:
        return "better", both
    at, healthy_at = faulty["learnt_at"], healthy["learnt_at"]
    if at and healthy_at and at >= LATER * healthy_at:
        return "later", {"step": at, "healthy_step": healthy_at, **both}
    return "same", both


def _both(healthy: Mapping[str, object], faulty: Mapping[str, object]) -> dict[str, object]:
    return {"exact": faulty["exact"], "healthy_exact": healthy["exact"], "n": healthy["n"]}


def _keyed(found: Sequence[tuple[str, dict]]) -> list[dict]:
    return [{"key": key, "values": values} for key, values in found]


def mean_ratio(healthy: Sequence[float], faulty: Sequence[float]) -> float | None:
    """By what factor ``faulty`` differs from ``healthy``, step by step: a geometric mean; None without steps."""
    pairs = [(a, b) for a, b in zip(healthy, faulty, strict=False) if a > 0 and b > 0]
    return math.exp(sum(math.log(b / a) for a, b in pairs) / len(pairs)) if pairs else None


def pair_payload(
    *, run: str, kind: str, fault: str, sides: Mapping[str, Mapping[str, object]], verdict: Mapping[str, object],
    **facts: object,
) -> dict:
    """One pair: the points of both sides (each a ``curves_delta`` with its ``figures``), ready for JSON.

    Raises ValueError when a side is missing.
    """
    if set(sides) != set(SIDES):
        raise ValueError(f"expected the sides {', '.join(SIDES)}, got {', '.join(sides)}")
    return {"run": run, "kind": kind, "fault": fault, "sides": dict(sides), "verdict": dict(verdict), **facts}


def as_json(**payload: object) -> str:
    """The JSON text of what a view is told."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
