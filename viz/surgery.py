"""What the lab's benches send to the browser: every head's importance beside its attention, and two outputs aligned.

Shape legend: L layers, H heads, K keys. Layers and heads count from 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from viz.masks import packed

Pair = tuple[int | None, int | None]  # places in the first and in the second sequence; None: nothing stands there
MEASURES = {"change": 2, "strongest": 2, "written": 2, "attention": 3, "value_weighted": 3}  # name -> axes


def aligned(before: Sequence[str], after: Sequence[str]) -> list[Pair]:
    """Both sequences side by side with as few differences as can be (edit distance; Wagner and Fischer, 1974).

    Every place of either stands in exactly one pair, in order. A pair of two places holds equal tokens or one in the
    place of the other; of alignments with equally many differences, one that keeps tokens side by side is taken.
    """
    n_before, n_after = len(before), len(after)
    # cost[i][j]: fewest differences between what follows place i of the one and place j of the other
    cost = [[max(n_before - i, n_after - j) for j in range(n_after + 1)] for i in range(n_before + 1)]
    for i in range(n_before - 1, -1, -1):
        for j in range(n_after - 1, -1, -1):
            beside = cost[i + 1][j + 1] + (before[i] != after[j])
            cost[i][j] = min(beside, 1 + min(cost[i + 1][j], cost[i][j + 1]))
    pairs: list[Pair] = []
    i = j = 0
    while i < n_before or j < n_after:
        both = i < n_before and j < n_after
        if both and cost[i][j] == cost[i + 1][j + 1] + (before[i] != after[j]):
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif i < n_before and cost[i][j] == cost[i + 1][j] + 1:
            pairs.append((i, None))
            i += 1
        else:
            pairs.append((None, j))
            j += 1
    return pairs


def disagreement(change: Mapping[str, np.ndarray], strongest: Mapping[str, np.ndarray]) -> dict[str, dict]:
    """The head with the sharpest attention and the head that matters most, each with both of its numbers.

    ``change`` and ``strongest`` map a kind of attention to [L, H]: the change in log-probability without the head, and
    its mean largest weight. ``rank`` counts from 1: the place of the head among all by the size of its change.
    Raises ValueError when the two do not fit each other.
    """
    places = []
    for kind, values in change.items():
        if strongest[kind].shape != values.shape:
            raise ValueError(f"{kind}: changes are {values.shape}, strongest weights {strongest[kind].shape}")
        places += [(kind, layer, head) for layer, head in np.ndindex(values.shape)]
    sizes = np.abs(np.array([float(change[kind][layer, head]) for kind, layer, head in places]))
    weights = np.array([float(strongest[kind][layer, head]) for kind, layer, head in places])

    def described(place: int) -> dict:
        kind, layer, head = places[place]
        return {"kind": kind, "layer": layer, "head": head, "change": float(change[kind][layer, head]),
                "strongest": float(weights[place]), "rank": int((sizes > sizes[place]).sum()) + 1}

    return {"sharpest": described(int(weights.argmax())), "matters": described(int(sizes.argmax())),
            "n": len(places)}


def heads_payload(
    *, run: str, log_prob: float, measures: Mapping[str, Mapping[str, np.ndarray]],
    sublayers: Sequence[Mapping[str, object]], **facts: object,
) -> str:
    """The JSON text of the map of all heads.

    ``run`` is a ``trace_payload``; ``measures`` maps each name of ``MEASURES`` to {kind: array [L, H] or [L, H, K]};
    ``sublayers`` are stack, layer and kind of each, in the order of the network. Raises ValueError for a number that
    is not finite or arrays that do not fit each other.
    """
    kinds = list(measures["change"])
    for name, n_axes in MEASURES.items():
        for kind in kinds:
            values = measures[name][kind]
            if values.ndim != n_axes or values.shape[:2] != measures["change"][kind].shape:
                raise ValueError(f"{name} of {kind} is {values.shape}, {measures['change'][kind].shape} heads expected")
            if not np.isfinite(values).all():
                raise ValueError(f"{name} of {kind}: not all numbers are finite")
    heads = {kind: {name: packed(measures[name][kind], "float32") for name in MEASURES} for kind in kinds}
    return json.dumps({
        "part": "heads", "run": run, "log_prob": log_prob, "heads": heads, "sublayers": list(sublayers),
        "disagreement": disagreement(measures["change"], measures["strongest"]), **facts,
    }, ensure_ascii=False)


def outcome_payload(
    *, run: str, before: Sequence[str], after: Sequence[str], usual: Sequence[float], forced: Sequence[float],
    log_prob: float, **facts: object,
) -> str:
    """The JSON text of what a changed run wrote, beside what the usual one wrote.

    ``run`` is the changed run's ``trace_payload``, ``before`` and ``after`` are the written tokens; ``usual`` and
    ``forced`` hold the log-probability of each token of ``before``, as it was written and with it fed under the
    changes; ``log_prob`` is that of ``after``. Raises ValueError when they differ in number.
    """
    if not len(before) == len(usual) == len(forced):
        raise ValueError(f"{len(before)} tokens have {len(usual)} usual and {len(forced)} forced log-probabilities")
    pairs = aligned(before, after)
    n_different = sum(i is None or j is None or before[i] != after[j] for i, j in pairs)
    return json.dumps({
        "part": "after", "run": run, "pairs": pairs, "n_different": n_different, "usual": list(usual),
        "forced": list(forced), "log_prob": log_prob, **facts,
    }, ensure_ascii=False)
