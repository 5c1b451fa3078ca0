"""What the X-ray sends to the browser: any recorded value with its figures, and one token taken apart.

Shape legend: H heads, R rows (tokens), C columns, T steps, N sub-layers, P points of the residual stream, n candidates.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence

import numpy as np

NO_NUMBER = 65535  # stands for -inf, and for whatever else is no finite number
LARGEST = 65534
MOST_COLUMNS = 1024  # of one value are sent; figures are of all of them


def quantised(values: np.ndarray) -> dict:
    """Numbers of any shape as ``{"dtype", "shape", "data", "low", "high"}``, little-endian uint16.

    A code c stands for low + c * (high - low) / 65534, so no number is further off than a 131,068th of their range;
    65535 stands for one that is not finite.
    """
    exact = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(exact)
    low, high = (float(exact[finite].min()), float(exact[finite].max())) if finite.any() else (0.0, 0.0)
    scale = LARGEST / (high - low) if high > low else 0.0
    codes = np.full(exact.shape, NO_NUMBER, dtype="<u2")
    codes[finite] = np.rint((exact[finite] - low) * scale)
    data = base64.b64encode(codes.tobytes()).decode()
    return {"dtype": "uint16", "shape": list(exact.shape), "data": data, "low": low, "high": high}


def figures(values: np.ndarray) -> dict:
    """Mean, standard deviation, smallest and largest of the finite numbers (None: there are none), and the others."""
    exact = np.asarray(values, dtype=np.float64)
    finite = exact[np.isfinite(exact)]
    facts = {"mean": finite.mean, "std": finite.std, "min": finite.min, "max": finite.max}
    return {
        **{name: float(fact()) if finite.size else None for name, fact in facts.items()},
        "n_hidden": int(exact.size - finite.size),
    }


def part_values(
    values: np.ndarray, rows: Sequence[dict], columns: Sequence[dict] | None, column_ids: Sequence[int] | None = None
) -> dict:
    """One recorded value [R, C] or [H, R, C]: its figures, a head at a time, and its numbers to be painted.

    ``rows`` and ``columns`` are token chips; columns that are no tokens have none. ``column_ids`` are the columns to
    send in the place of the first ``MOST_COLUMNS``. Raises ValueError when the chips do not fit.
    """
    heads = values if values.ndim == 3 else values[None]
    if heads.ndim != 3 or heads.shape[1] != len(rows):
        raise ValueError(f"{len(rows)} rows are named, the value is {values.shape}")
    kept = np.arange(min(heads.shape[2], MOST_COLUMNS)) if column_ids is None else np.asarray(column_ids)
    if columns is not None and len(columns) != len(kept):
        raise ValueError(f"{len(columns)} columns are named, {len(kept)} of {values.shape} are sent")
    return {
        "shape": list(values.shape),
        "has_heads": values.ndim == 3,
        "figures": [figures(head) for head in heads],
        "values": quantised(heads[:, :, kept]),
        "n_columns": heads.shape[2],
        "rows": list(rows),
        "columns": None if columns is None else list(columns),
    }


def strongest_columns(values: np.ndarray, most: int) -> list[int]:
    """The ``most`` columns of [R, C] that reach furthest in any row, in the order of the row they reach it in."""
    reached = values.max(axis=0)
    best = np.argsort(-reached, kind="stable")[:most]
    return sorted(best.tolist(), key=lambda column: (int(values[:, column].argmax()), -float(reached[column])))


def token_payload(
    *,
    written: Sequence[dict],
    sublayers: Sequence[str],
    norms: Mapping[str, np.ndarray],
    components: Sequence[str],
    shares: np.ndarray,
    logits: np.ndarray,
    candidates: Sequence[Sequence[Sequence[tuple[str, float]]]],
    probabilities: np.ndarray,
    ranks: np.ndarray,
    **facts: object,
) -> str:
    """The JSON text of every written token taken apart.

    ``norms`` are ``before``, ``written`` and ``after`` [N, T] along the decoder, ``shares`` [C, T] of the ``logits``
    [T], ``candidates`` [P][T][n] what the network would answer at each point, ``probabilities`` and ``ranks`` [P, T]
    those of the written token there. Raises ValueError when they do not fit each other.
    """
    n_steps, n_sublayers = len(written), len(sublayers)
    for name, array, shape in (
        *((name, norms[name], (n_sublayers, n_steps)) for name in ("before", "written", "after")),
        ("shares", shares, (len(components), n_steps)),
        ("logits", logits, (n_steps,)),
        ("probabilities", probabilities, (n_sublayers + 1, n_steps)),
        ("ranks", ranks, (n_sublayers + 1, n_steps)),
    ):
        if array.shape != shape:
            raise ValueError(f"{name}: got {array.shape}, expected {shape}")
    rounded = {name: _rounded(values, 5) for name, values in norms.items()}
    return json.dumps({
        "written": list(written),
        "sublayers": list(sublayers),
        "norms": rounded,
        "components": list(components),
        "shares": _rounded(shares, 6),
        "logits": _rounded(logits, 6),
        "candidates": [
            [[(label, round(float(share), 6)) for label, share in step] for step in point] for point in candidates
        ],
        "probabilities": _rounded(probabilities, 6),
        "ranks": ranks.tolist(),
        **facts,
    }, ensure_ascii=False, separators=(",", ":"))


def saliency_payload(sides: Mapping[str, tuple[Sequence[dict], np.ndarray, np.ndarray]], **facts: object) -> str:
    """The JSON text of what one written token hangs on: {side: (token chips, saliency, gradient times input)}."""
    for side, (chips, *arrays) in sides.items():
        if any(len(array) != len(chips) for array in arrays):
            raise ValueError(f"{side}: {len(chips)} tokens have {[len(array) for array in arrays]} numbers")
    return json.dumps({
        "sides": {
            side: {"tokens": list(chips), "saliency": _rounded(saliency, 6), "times_input": _rounded(times_input, 6)}
            for side, (chips, saliency, times_input) in sides.items()
        },
        **facts,
    }, ensure_ascii=False)


def _rounded(values: np.ndarray, digits: int) -> list:
    return np.round(np.asarray(values, dtype=np.float64), digits).tolist()
