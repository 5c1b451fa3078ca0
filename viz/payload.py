"""A recorded run as one compact JSON text for the browser: token labels, steps, and patterns as base64 arrays.

Weights are sent as 65535ths (uint16): two bytes a weight keep every figure right to 0.01 %, where one byte
would show 36 % for a weight of 36.6 %.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

import numpy as np

from viz.text import token_label, visible

SPECIAL_TOKENS = frozenset({"<pad>", "<bos>", "<eos>", "<unk>"})


def packed_weights(weights: np.ndarray) -> dict:
    """Weights in 0..1 of any shape as ``{"dtype", "shape", "data"}``, 65535ths in little-endian uint16."""
    if weights.size and not (weights.min() >= 0 and weights.max() <= 1 + 1e-6):
        raise ValueError(f"weights must lie in 0..1, got {weights.min()} to {weights.max()}")
    parts = np.rint(np.clip(weights, 0, 1) * 65535).astype("<u2")
    return {"dtype": "uint16", "shape": list(weights.shape), "data": base64.b64encode(parts.tobytes()).decode()}


def token_chips(tokens: Sequence[str], pieces: Sequence[str] | None = None) -> list[dict]:
    """How each token is shown: its label, and whether it is a special or an unknown one."""
    pieces = tokens if pieces is None else pieces
    if len(pieces) != len(tokens):
        raise ValueError(f"expected one piece a token, got {len(pieces)} pieces and {len(tokens)} tokens")
    return [
        {
            "label": token_label(token, piece),
            "special": token in SPECIAL_TOKENS and token == piece,
            "unknown": token == "<unk>",
        }
        for token, piece in zip(tokens, pieces, strict=True)
    ]


def trace_payload(
    *,
    trace_id: str,
    source: list[dict],
    target_in: list[dict],
    steps: Sequence[tuple[str, float, Sequence[tuple[str, float]]]],
    patterns: dict[str, np.ndarray],
    **facts: object,
) -> str:
    """The JSON text the browser draws from.

    ``source`` and ``target_in`` come from ``token_chips``; ``steps`` are (token, log-probability, candidates);
    ``patterns`` maps a kind of attention to weights [L, H, T, S]; ``facts`` are further plain values.
    Raises ValueError when a pattern does not fit the tokens.
    """
    lengths = {
        "encoder_self": (len(source), len(source)),
        "decoder_self": (len(target_in), len(target_in)),
        "cross": (len(target_in), len(source)),
    }
    for kind, weights in patterns.items():
        if weights.shape[2:] != lengths[kind]:
            raise ValueError(f"{kind}: patterns are {weights.shape[2:]}, the tokens ask for {lengths[kind]}")
    return json.dumps(
        {
            "id": trace_id,
            "source": source,
            "target_in": target_in,
            "steps": [
                {
                    "token": {"label": visible(token), "special": token in SPECIAL_TOKENS, "unknown": token == "<unk>"},
                    "log_prob": log_prob,
                    "candidates": [[visible(candidate), probability] for candidate, probability in candidates],
                }
                for token, log_prob, candidates in steps
            ],
            "patterns": {kind: packed_weights(weights) for kind, weights in patterns.items()},
            **facts,
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )
