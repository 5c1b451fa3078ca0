"""Paint masks: any cell of the three masks of the text at hand, and decoding under what was painted."""

from __future__ import annotations

import json

import gradio as gr
import numpy as np
import torch

from transformer.conditions import PaintedMasks, paint
from transformer.errors import InputError
from transformer.masks import make_masks
from viz.tabs.components import ClientView
from viz.tabs.lab_runs import Bench, asked_number, bench_of, bench_payload, outcome_of, problem
from viz.tabs.session import Session
from viz.tabs.shared import QUIET, Shared, sent

MASKS = ("encoder", "decoder", "cross")


class MaskStudio(ClientView):
    """Three boards to paint on, and what the model writes under them.

    Events: ``refresh`` (on show and made for another run) and ``paint`` (``gr.EventData`` with the three masks as rows
    of "0" and "1", 1 = may attend, and ``asked``, a number that comes back with the answer).
    """

    script = "lab_masks"
    script_parts = ("lab_board", "lab_outcome")


def build_mask_studio(shared: Shared) -> None:
    """Lay the bench out; nothing is decoded before it is looked at."""
    view = MaskStudio(elem_classes="gf-bench-box")
    view.refresh(usual, [shared.session, shared.language], [view], **QUIET)
    view.paint(painted_and_decoded, [shared.session, shared.language], [view], **QUIET)


def usual(session: Session, language: str) -> str:
    """The run to paint for and its usual masks."""
    try:
        bench = bench_of(session)
    except InputError as error:
        return problem(error, language, None)
    return json.dumps({
        "part": "usual", "run": bench_payload(bench.before), "is_example": bench.is_example,
        "made_for": bench.made_for,
        "masks": {name: rows_of(mask) for name, mask in usual_masks(bench).items()},
    }, ensure_ascii=False)


def usual_masks(bench: Bench) -> dict[str, np.ndarray]:
    """The masks that the run was decoded under, True = may attend: [S, S], [T, T], [T, S]."""
    trace, pad_id = bench.before, bench.checkpoint.model.config.pad_id
    n_source, n_target = len(trace.src_ids), len(trace.tgt_in_ids)
    masks = make_masks(torch.tensor([trace.src_ids]), torch.tensor([trace.tgt_in_ids]), pad_id)
    shapes = ((n_source, n_source), (n_target, n_target), (n_target, n_source))
    return {
        name: np.broadcast_to(mask[0, 0].numpy(), shape)
        for name, mask, shape in zip(MASKS, masks, shapes, strict=True)
    }


def rows_of(mask: np.ndarray) -> list[str]:
    """A mask as rows of "0" and "1"."""
    return ["".join("1" if seen else "0" for seen in row) for row in mask]


def painted_and_decoded(session: Session, language: str, event: gr.EventData) -> str:
    """Answer a ``paint`` event: the text decoded again under the painted masks, or why it cannot be."""
    asked = asked_number(event)
    try:
        bench = bench_of(session)
        return outcome_of(bench, paint(masks_of(event, bench)), asked=asked)
    except InputError as error:
        return problem(error, language, asked)


def masks_of(event: gr.EventData, bench: Bench) -> PaintedMasks:
    """The masks that a browser sent. Raises InputError for anything that is no mask, or not of this text."""
    longest = bench.checkpoint.model.config.max_len
    n_source = len(bench.before.src_ids)
    masks = {name: mask_of(name, sent(event, name), longest) for name in MASKS}
    if masks["encoder"].shape != (n_source, n_source):
        raise InputError("mask_shape", name="encoder", expected=(n_source, n_source), got=masks["encoder"].shape)
    return PaintedMasks(**masks)


def mask_of(name: str, rows: object, longest: int) -> np.ndarray:
    """Rows of "0" and "1" as a mask of at most ``longest`` rows and columns."""
    is_rows = isinstance(rows, list) and 0 < len(rows) <= longest and all(isinstance(row, str) for row in rows)
    if not is_rows or len({len(row) for row in rows}) != 1 or not 0 < len(rows[0]) <= longest:
        got = f"({len(rows)}, ?)" if isinstance(rows, list) else str(rows)[:40]
        raise InputError("mask_shape", name=name, expected="0, 1", got=got)
    if not all(set(row) <= {"0", "1"} for row in rows):
        raise InputError("mask_shape", name=name, expected="0, 1", got=str(rows[0])[:40])
    return np.array([[cell == "1" for cell in row] for row in rows])
