"""Masks: who may look at whom, how the masks combine, and what happens to attention and output without them."""

from __future__ import annotations

import json

import gradio as gr
import numpy as np
from torch import Tensor

from transformer.checkpoints import Checkpoint
from viz.masks import boards_payload, leak, mask_board, reasons, weights_board
from viz.payload import token_chips
from viz.tabs.cards import card_heading
from viz.tabs.components import ClientView
from viz.tabs.mask_runs import CODE, Outcome, PaddedRun, blinded, outcome, padded_run, settings
from viz.tabs.session import Session
from viz.tabs.shared import QUIET, Shared

MOST_PADDING = 8
# "multiple": an event that Gradio defers ("always_last") comes without its data. Answers come in the order of asking.
# The settings of the table of effects, in its order.
EFFECTS = ("all", "no_src_padding", "no_memory_padding", "no_padding", "causal_only", "padding_only", "none", "blind")


class MaskControls(ClientView):
    """Padding, convention, layer, head and the blind query. Event ``ask`` with what to compute."""

    script = "mask_controls"


class MaskBoards(ClientView):
    """A row of boards from ``viz.masks.boards_payload``, with hover, keyboard and a table twin."""

    script = "mask_boards"


class MaskBlind(ClientView):
    """The switch of the blind query: whether it sees nothing, and which one it is. It tells the controls."""

    script = "mask_blind"


class MaskEffects(ClientView):
    """A table: what the model would write under each setting of the masks."""

    script = "mask_effects"


def bounded(value: object, low: int, high: int, otherwise: int) -> int:
    """``value`` held within low..high; anything but a whole number (only a forged request has it) is ``otherwise``."""
    if isinstance(value, bool) or not isinstance(value, int):
        value = otherwise
    return max(low, min(high, value))


def request_of(event: object, checkpoint: Checkpoint, n_steps: int) -> dict:
    """The numbers of an ``ask`` event, each held within what this model and this run have."""
    config = checkpoint.model.config
    layer = bounded(getattr(event, "layer", 0), 0, max(config.n_encoder_layers, config.n_decoder_layers) - 1, 0)
    return {
        "n_padding": bounded(getattr(event, "n_padding", 3), 0, MOST_PADDING, 3),
        # Stacks of different height: a layer the lower one lacks is its last.
        "layers": {
            "encoder_self": min(layer, config.n_encoder_layers - 1),
            "decoder_self": min(layer, config.n_decoder_layers - 1),
            "cross": min(layer, config.n_decoder_layers - 1),
        },
        "head": bounded(getattr(event, "head", 0), 0, config.n_heads - 1, 0),
        "blind": bounded(getattr(event, "blind", 0), 0, n_steps - 1, 0),
        "is_blind": getattr(event, "is_blind", True) is True,
    }


def chips_of(tokens: tuple[str, ...], pieces: tuple[str, ...] | None, n_padding: int) -> list[dict]:
    """Chips of padded tokens; the pads carry ``pad``, so that they are drawn apart, one column each."""
    chips = token_chips(tokens, pieces)
    return [{**chip, "pad": i >= len(chips) - n_padding} for i, chip in enumerate(chips)]


class Boards:
    """Everything the tab draws for one request, from real tensors and real forward passes."""

    def __init__(self, checkpoint: Checkpoint, run: PaddedRun, asked: dict) -> None:
        self.run, self.asked = run, asked
        self.source = chips_of(run.trace.src_tokens, run.trace.src_pieces, run.n_padding)
        self.target = chips_of(run.trace.tgt_in_tokens, None, run.n_padding)
        self.masks = settings(run, asked["blind"] if asked["is_blind"] else None)
        self.outcomes: dict[str, Outcome] = {
            name: outcome(checkpoint, run, masks, asked["layers"], asked["head"]) for name, masks in self.masks.items()
        }
        self.src_hidden = ~run.src_padding[0, 0].numpy()  # [1, S]
        self.tgt_hidden = ~run.tgt_padding[0, 0].numpy()  # [1, T]
        self.future = ~run.causal[0, 0].numpy()  # [T, T]

    def why(self, n_rows: int, n_columns: int, **hidden: np.ndarray) -> np.ndarray:
        return reasons((n_rows, n_columns), **hidden)

    def padding_row(self, name: str, chips: list, tensor: Tensor, axis: str, **facts: object) -> dict:
        """A mask of one row, ``tensor`` [1, 1, 1, keys]."""
        mask = tensor[0, 0].numpy()
        return mask_board(name, mask, chips, None, shape=tensor.shape, why=self.why(1, len(chips), padding=~mask),
                          axes=["B", "1", "1", axis], **facts)

    def weights(self, name: str, setting: str, kind: str, **hidden: np.ndarray) -> dict:
        """The chosen head of ``kind`` under ``setting``; what is hidden there by which mask, and what leaks."""
        columns = self.target if kind == "decoder_self" else self.source
        rows = self.source if kind == "encoder_self" else self.target
        values = self.outcomes[setting].patterns[kind]
        n_real = len(rows) - self.run.n_padding
        real = np.arange(len(rows)) < n_real
        pads = np.broadcast_to([chip["pad"] for chip in columns], values.shape)
        facts = {"on_padding": leak(values, pads, real), "kind": kind, "layer": self.asked["layers"][kind],
                 "head": self.asked["head"]}
        if kind == "decoder_self":
            # Pads stand in the future too: they are counted once, as padding.
            facts["on_future"] = leak(values, self.future & ~pads, real)
        return weights_board(name, values, columns, rows, why=self.why(len(rows), len(columns), **hidden), **facts)

    def payloads(self) -> tuple[str, ...]:
        """One JSON text a view, in the order of ``build_masks_tab``."""
        run, (source, target) = self.run, (self.source, self.target)
        n_target = len(target)
        padding_source = self.padding_row("padding", source, run.src_padding, "S", code=CODE["padding"])
        cross_row = self.padding_row("cross", source, run.masks.memory_mask, "S", code=CODE["cross"])
        padding_target = self.padding_row("padding_copied", target, run.tgt_padding, "T",
                                          copies=target, code=CODE["padding"])
        square = {"columns": target, "rows": target, "axes": ["1", "1", "T", "T"]}
        causal = mask_board("causal", ~self.future, **square, shape=run.causal.shape,
                            why=self.why(n_target, n_target, future=self.future), code=CODE["causal"])
        both = {"padding": self.tgt_hidden, "future": self.future}
        square["axes"] = ["B", "1", "T", "T"]
        combined = mask_board("combined", run.masks.tgt_mask[0, 0].numpy(), **square, shape=run.masks.tgt_mask.shape,
                              why=self.why(n_target, n_target, **both), code=CODE["combined"])
        return (
            boards_payload([padding_source]),
            boards_payload([self.weights("without", "no_src_padding", "encoder_self"),
                            self.weights("with", "all", "encoder_self", padding=self.src_hidden)]),
            boards_payload([causal]),
            boards_payload([self.weights("without", "none", "decoder_self"),
                            self.weights("with", "causal_only", "decoder_self", future=self.future)]),
            boards_payload([padding_target, causal, combined], ["&", "="]),
            boards_payload([
                self.weights("none", "none", "decoder_self"),
                self.weights("padding_only", "padding_only", "decoder_self", padding=self.tgt_hidden),
                self.weights("causal_only", "causal_only", "decoder_self", future=self.future),
                self.weights("combined_weights", "all", "decoder_self", **both),
            ]),
            boards_payload([cross_row]),
            boards_payload([self.weights("without", "no_memory_padding", "cross"),
                            self.weights("with", "all", "cross", padding=self.src_hidden)]),
            self.blind_boards(both, square),
            self.effects(),
        )

    def blind_boards(self, both: dict, square: dict) -> str:
        """The combined mask with one query that sees nothing, and the attention under it."""
        blind, n_target = self.asked["blind"], len(self.target)
        is_blind = self.asked["is_blind"]
        mask = blinded(self.run.masks.tgt_mask, blind) if is_blind else self.run.masks.tgt_mask
        hidden = {**both, "blind": (np.arange(n_target) == blind)[:, None]} if is_blind else both
        board = mask_board("blind", mask[0, 0].numpy(), **square, shape=mask.shape,
                           why=self.why(n_target, n_target, **hidden), code=CODE["blind"])
        setting = "blind" if is_blind else "all"
        return boards_payload([board, self.weights("blind_weights", setting, "decoder_self", **hidden)],
                              blind=blind if is_blind else None)

    def effects(self) -> str:
        """The table: predicted tokens, probability of the run's own, and how far the logits moved."""
        right = [step.token for step in self.run.trace.steps]
        usual = self.outcomes["all"]
        rows = []
        for name in EFFECTS:
            if name not in self.outcomes:
                continue
            result = self.outcomes[name]
            rows.append({
                "name": name,
                "predicted": token_chips(result.predicted),
                "is_right": [a == b for a, b in zip(result.predicted, right, strict=True)],
                "probability": float(result.right_probability.mean()),
                "lowest": float(result.right_probability.min()),
                "log_prob": result.log_prob,
                "moved": float(np.abs(result.logits - usual.logits).max()),
            })
        unpadded = sum(step.log_prob for step in self.run.trace.steps)
        return json.dumps({"rows": rows, "unpadded": unpadded, "right": token_chips(right)}, ensure_ascii=False)


def draw_masks(session: Session, event: gr.EventData) -> tuple[str, ...]:
    """Answer an ``ask`` event: what the controls should know, then every view of the tab."""
    session = session.recomputable
    checkpoint, trace = session.checkpoint, session.trace
    config = checkpoint.model.config
    n_steps = padded_run(checkpoint, trace, 0).n_steps
    asked = request_of(event, checkpoint, n_steps)
    run = padded_run(checkpoint, trace, asked["n_padding"])
    controls = json.dumps({
        "asked": asked["n_padding"], "fits": run.n_padding, "max_len": config.max_len, "n_steps": n_steps,
        "n_written": len(trace.steps), "encoder_layers": config.n_encoder_layers,
        "decoder_layers": config.n_decoder_layers,
    })
    return controls, *Boards(checkpoint, run, asked).payloads()


def build_masks_tab(shared: Shared) -> None:
    """Lay the tab out and wire it: the controls ask, one answer fills every view."""
    controls = MaskControls(elem_classes="gf-mask-controls-box")

    def card(name: str, number: int, n_views: int = 2) -> list[MaskBoards]:
        with gr.Column(elem_classes="gf-card", min_width=320):
            card_heading("masks", name, number)
            if name == "blind":
                MaskBlind()
            return [MaskBoards() for _ in range(n_views)]

    with gr.Row(elem_classes="gf-cards", equal_height=True):
        views = [*card("padding", 1), *card("causal", 2)]
    views += card("combined", 3)
    with gr.Row(elem_classes="gf-cards", equal_height=True):
        views += [*card("cross", 4), *card("blind", 5, 1)]
    with gr.Column(elem_classes="gf-card"):
        card_heading("masks", "effects", 6)
        views.append(MaskEffects())
    controls.ask(draw_masks, shared.session, [controls, *views], **QUIET)
