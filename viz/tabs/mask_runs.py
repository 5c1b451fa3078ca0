"""One run again with padding, under every setting of the masks: patterns, and what the model would write.

Shape legend: S source length, T target length (both with padding), V vocabulary.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from transformer.checkpoints import Checkpoint
from transformer.masks import Masks, causal_mask, make_masks, padding_mask
from transformer.model import Attention
from transformer.tracing import Trace, address, record_values, written_ids

MOST_STEPS = 96  # steps of the run that are looked at; the page says when there are more


@dataclass(frozen=True, eq=False)
class PaddedRun:
    """A run with ``n_padding`` pads behind its source and behind its target, and the masks that go with it."""

    trace: Trace  # the padded one
    n_padding: int
    n_steps: int  # real target rows; the pads stand behind them
    src_padding: Tensor  # [1, 1, 1, S]
    tgt_padding: Tensor  # [1, 1, 1, T]
    causal: Tensor  # [1, 1, T, T]
    masks: Masks


def padded_run(checkpoint: Checkpoint, trace: Trace, n_padding: int) -> PaddedRun:
    """``trace`` with pads behind both sides: as many as asked for, or as the model still has positions for."""
    config = checkpoint.model.config
    n_steps = min(len(trace.tgt_in_ids), MOST_STEPS)
    n_padding = max(0, min(n_padding, config.max_len - max(len(trace.src_ids), n_steps)))
    pads = (config.pad_id,) * n_padding
    src_pads, tgt_pads = checkpoint.src_tokenizer.tokens(pads), checkpoint.tgt_tokenizer.tokens(pads)
    padded = replace(
        trace,
        src_ids=(*trace.src_ids, *pads),
        src_tokens=(*trace.src_tokens, *src_pads),
        src_pieces=(*trace.src_pieces, *src_pads),
        tgt_in_ids=(*trace.tgt_in_ids[:n_steps], *pads),
        tgt_in_tokens=(*trace.tgt_in_tokens[:n_steps], *tgt_pads),
        steps=trace.steps[:n_steps],
    )
    src, tgt_in = torch.tensor([padded.src_ids]), torch.tensor([padded.tgt_in_ids])
    return PaddedRun(
        trace=padded,
        n_padding=n_padding,
        n_steps=n_steps,
        src_padding=padding_mask(src, config.pad_id),
        tgt_padding=padding_mask(tgt_in, config.pad_id),
        causal=causal_mask(tgt_in.shape[1]),
        masks=make_masks(src, tgt_in, config.pad_id),
    )


def blinded(mask: Tensor, query: int) -> Tensor:
    """``mask`` [1, 1, T, T] with every key hidden from one query."""
    mask = mask.clone()
    mask[..., query, :] = False
    return mask


def settings(run: PaddedRun, blind: int | None = None) -> dict[str, Masks]:
    """The masks of each setting by name; with ``blind``, also the one in which that query sees nothing."""
    src_mask, tgt_mask, memory_mask = run.masks
    named = {
        "all": run.masks,
        "no_src_padding": Masks(None, tgt_mask, memory_mask),
        "no_memory_padding": Masks(src_mask, tgt_mask, None),
        "no_padding": Masks(None, run.causal, None),
        "causal_only": Masks(src_mask, run.causal, memory_mask),
        "padding_only": Masks(src_mask, run.tgt_padding, memory_mask),
        "none": Masks(src_mask, None, memory_mask),
    }
    if blind is not None:
        named["blind"] = Masks(src_mask, blinded(tgt_mask, blind), memory_mask)
    return named


@dataclass(frozen=True, eq=False)
class Outcome:
    """One forward pass under one setting: patterns [T, S] of one head of each kind, and what would be written."""

    patterns: dict[str, np.ndarray]
    predicted: tuple[str, ...]  # [n_steps] the most probable token at each real step
    right_probability: np.ndarray  # [n_steps] of the token the run wrote there
    log_prob: float  # of the run's tokens, summed over its real steps
    logits: np.ndarray  # [n_steps, V]


def outcome(checkpoint: Checkpoint, run: PaddedRun, masks: Masks, layers: dict[str, int], head: int) -> Outcome:
    """Feed the padded run once (teacher forcing) under ``masks``; ``layers`` names a layer for each kind."""
    names = {kind: address(kind, layer) for kind, layer in layers.items()}
    values = record_values(checkpoint, run.trace, {*names.values(), "hook_logits"}, masks)
    logits = torch.from_numpy(values["hook_logits"])[: run.n_steps].double()  # [n_steps, V]
    vocabulary = checkpoint.tgt_tokenizer.vocabulary
    right = torch.tensor(written_ids(checkpoint, run.trace))
    log_probs = logits.log_softmax(dim=-1).gather(1, right[:, None])[:, 0]
    return Outcome(
        patterns={kind: values[name][head] for kind, name in names.items()},
        predicted=tuple(vocabulary[i] for i in logits.argmax(dim=-1).tolist()),
        right_probability=log_probs.exp().numpy(),
        log_prob=float(log_probs.sum()),
        logits=logits.numpy(),
    )


def code_line(function: object, text: str) -> dict:
    """Where in the project ``text`` stands inside ``function``: its file, its line number and the line itself.

    Raises ValueError when it is not there, so that a picture never shows code that is no longer true.
    """
    lines, first = inspect.getsourcelines(function)
    for offset, line in enumerate(lines):
        if text in line:
            file = Path(inspect.getsourcefile(function))
            return {"file": f"{file.parent.name}/{file.name}", "line": first + offset,
                    "code": line.split("  #")[0].strip()}
    raise ValueError(f"no line of {function.__qualname__} holds {text!r}")


CODE = {
    "padding": code_line(padding_mask, "return"),
    "causal": code_line(causal_mask, "return"),
    "combined": code_line(make_masks, "tgt_mask = "),
    "cross": code_line(make_masks, "return Masks"),
    "blind": code_line(Attention.forward, "masked_fill(hidden, 0.0)"),
}
