"""Masks and what attention does under them, as boards the browser draws: cells, tokens on both axes, shapes, code.

Shape legend: R queries (rows), C keys (columns). A mask is True where the query may attend to the key, as in
``transformer/masks.py``; which convention is printed is chosen in the browser, the colours never change meaning.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

import numpy as np

CONVENTIONS = ("attend", "ignore")  # True = may attend (ours), True = ignore (torch.nn.MultiheadAttention)
HIDDEN_BY = {"padding": 1, "future": 2, "blind": 4}  # bits of a cell's reasons


def packed(values: np.ndarray, dtype: str) -> dict:
    """Numbers as ``{"dtype", "shape", "data"}`` in little-endian base64; ``dtype`` is uint8 or float32."""
    raw = np.ascontiguousarray(values, dtype=np.dtype(dtype).newbyteorder("<"))
    return {"dtype": dtype, "shape": list(values.shape), "data": base64.b64encode(raw.tobytes()).decode()}


def in_convention(mask: np.ndarray, convention: str) -> np.ndarray:
    """What the cells of ``mask`` (True = may attend) hold in a convention. Raises ValueError for an unknown one."""
    if convention not in CONVENTIONS:
        raise ValueError(f"convention must be one of {', '.join(CONVENTIONS)}, got {convention!r}")
    return mask if convention == "attend" else ~mask


def reasons(shape: tuple[int, int], **hidden: np.ndarray) -> np.ndarray:
    """Why each cell of a board is hidden, as bits of ``HIDDEN_BY`` -> uint8 [R, C].

    ``hidden`` holds for any of padding, future and blind an array, True = hidden, that broadcasts to ``shape``.
    """
    bits = np.zeros(shape, dtype=np.uint8)
    for name, where in hidden.items():
        bits |= np.where(np.broadcast_to(where, shape), HIDDEN_BY[name], 0).astype(np.uint8)
    return bits


def _checked(values: np.ndarray, rows: Sequence | None, columns: Sequence, name: str) -> None:
    expected = (1 if rows is None else len(rows), len(columns))
    if values.shape != expected:
        raise ValueError(f"{name}: the board is {values.shape}, the tokens ask for {expected}")


def mask_board(
    name: str,
    mask: np.ndarray,
    columns: Sequence[dict],
    rows: Sequence[dict] | None,
    *,
    shape: Sequence[int],
    why: np.ndarray,
    axes: Sequence[str],
    copies: Sequence[dict] | None = None,
    code: dict | None = None,
) -> dict:
    """One mask [R, C] as a board.

    ``rows`` is None for a mask with one row that every query reads; ``copies`` then are the queries it is copied
    down to, which is what broadcasting does. ``shape`` is the real tensor's, ``axes`` its letters. ``why`` comes
    from ``reasons``. Raises ValueError when labels and cells differ in number or the reasons contradict the mask.
    """
    _checked(mask, rows, columns, name)
    if why.shape != mask.shape or not np.array_equal(why == 0, mask):
        raise ValueError(f"{name}: the reasons must be 0 exactly where the mask is True")
    return {
        "type": "mask",
        "name": name,
        "columns": list(columns),
        "rows": None if rows is None else list(rows),
        "copies": None if copies is None else list(copies),
        "shape": list(shape),
        "axes": list(axes),
        "code": code,
        "why": packed(why, "uint8"),
        **{convention: packed(in_convention(mask, convention), "uint8") for convention in CONVENTIONS},
    }


def weights_board(
    name: str, weights: np.ndarray, columns: Sequence[dict], rows: Sequence[dict], *, why: np.ndarray, **facts: object
) -> dict:
    """The attention weights [R, C] of one head as a board. ``why`` says which cells a mask hid.

    Raises ValueError when labels do not fit, when a weight is no number, or a hidden cell is not exactly 0.
    """
    _checked(weights, rows, columns, name)
    if not np.isfinite(weights).all():
        raise ValueError(f"{name}: a weight is not a finite number")
    if np.any(weights[why > 0] != 0):
        raise ValueError(f"{name}: a hidden cell has a weight of {np.abs(weights[why > 0]).max()}")
    return {"type": "weights", "name": name, "columns": list(columns), "rows": list(rows),
            "why": packed(why, "uint8"), "weights": packed(weights, "float32"), **facts}


def leak(weights: np.ndarray, region: np.ndarray, real_queries: np.ndarray) -> float:
    """The share of its weight that a real query puts on ``region`` [R, C], on average over ``real_queries`` [R]."""
    if not real_queries.any():
        raise ValueError("there must be at least one real query")
    return float(np.where(region, weights, 0).sum(axis=1)[real_queries].mean())


def boards_payload(boards: Sequence[dict], operators: Sequence[str] = (), **facts: object) -> str:
    """The JSON text of one row of boards; ``operators`` stand between them. Raises ValueError when they do not fit."""
    if operators and len(operators) != len(boards) - 1:
        raise ValueError(f"expected {len(boards) - 1} operators between {len(boards)} boards, got {len(operators)}")
    return json.dumps({"boards": list(boards), "operators": list(operators), **facts}, ensure_ascii=False)
