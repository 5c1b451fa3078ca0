"""How much each head matters, beside how much it attends: the two often disagree.

Shape legend: B batch (one row an ablated head), S source length, T target length, L layers, H heads, D d_model,
K d_head, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from transformer.checkpoints import Checkpoint
from transformer.conditions import USUAL, Conditions
from transformer.hooks import intervene, record
from transformer.model import Transformer
from transformer.tracing import ATTENTION_KINDS, Trace, address, written_ids

MOST_NUMBERS = 2**24  # values of the largest tensors of one pass: more heads than fit go into several passes
Progress = Callable[[int, int], None]  # heads done, heads in all


@dataclass(frozen=True, eq=False)
class HeadImportance:
    """Every head of the three attentions, measured on one run; all arrays are float32 and keyed by kind.

    ``log_prob_change``: log-probability of the run's own output with the head switched off, less that with all heads
    on; below 0, the output became less likely. ``attention``: mean weight that each key gets over the queries.
    ``value_weighted``: mean length of what each key really adds to the residual stream through this head, the weight
    times its value times the head's part of W_O, |alpha v W_O| (Kobayashi et al., 2020): a key with a large weight and
    a short value adds little.
    """

    log_prob: float  # of the output with all heads on, natural logarithm
    log_prob_change: dict[str, np.ndarray]  # [L, H]
    attention: dict[str, np.ndarray]  # [L, H, keys]
    value_weighted: dict[str, np.ndarray]  # [L, H, keys]
    strongest: dict[str, np.ndarray]  # [L, H] mean over the queries of the largest weight in the row
    written: dict[str, np.ndarray]  # [L, H] mean over the queries of the sum over keys of |alpha v W_O|


def head_importance(
    checkpoint: Checkpoint,
    trace: Trace,
    *,
    progress: Progress | None = None,
    conditions: Conditions = USUAL,
    device: str = "cpu",
) -> HeadImportance:
    """Switch every head off by itself and see how much less likely the run's own output becomes.

    All heads go in one batched pass: the run is repeated once a head, and in each row of the batch another head is
    off. Where the batch would grow too large it is cut into chunks; ``progress`` is told after each.
    """
    model = checkpoint.model_on(device)
    heads = all_heads(model)
    src = torch.tensor([trace.src_ids], device=device)  # [1, S]
    tgt_in = torch.tensor([trace.tgt_in_ids], device=device)  # [1, T]
    tgt_out = torch.tensor([written_ids(checkpoint, trace)], device=device)
    with torch.inference_mode(), conditions.changing(model):
        with record() as acts:
            log_prob = float(_log_probs(model, src, tgt_in, tgt_out, conditions))
        changes: list[float] = []
        n_rows = rows_of_a_pass(model, src.shape[1], tgt_in.shape[1])
        for start in range(0, len(heads), n_rows):
            part = heads[start : start + n_rows]
            with intervene(ablations(part)):
                without = _log_probs(model, *(ids.expand(len(part), -1) for ids in (src, tgt_in, tgt_out)), conditions)
            changes += (without.double() - log_prob).tolist()
            if progress:
                progress(start + len(part), len(heads))
    by_head = dict(zip(heads, changes, strict=True))
    measured = {kind: _attention_measures(model, acts, kind) for kind in ATTENTION_KINDS}
    return HeadImportance(
        log_prob,
        {
            kind: np.array(
                [[by_head[kind, layer, head] for head in range(model.config.n_heads)] for layer in range(n_layers)],
                dtype=np.float32,
            )
            for kind, n_layers in _layers(model).items()
        },
        *({kind: measures[i] for kind, measures in measured.items()} for i in range(4)),
    )


def all_heads(model: Transformer) -> list[tuple[str, int, int]]:
    """(kind, layer, head) of every head, counted from 0."""
    return [
        (kind, layer, head)
        for kind, n_layers in _layers(model).items()
        for layer in range(n_layers)
        for head in range(model.config.n_heads)
    ]


def ablations(heads: list[tuple[str, int, int]]) -> dict[str, Callable[[Tensor], Tensor]]:
    """Changes for a batch in which row i, and no other, has ``heads[i]`` switched off."""
    rows_at: dict[str, list[tuple[int, int]]] = {}
    for row, (kind, layer, head) in enumerate(heads):
        rows_at.setdefault(address(kind, layer), []).append((row, head))

    def switch_off(pattern: Tensor, rows: list[tuple[int, int]]) -> Tensor:
        changed = pattern.clone()  # [B, H, T, S]
        row_ids, head_ids = zip(*rows, strict=True)
        changed[list(row_ids), list(head_ids)] = 0.0
        return changed

    return {name: lambda pattern, rows=rows: switch_off(pattern, rows) for name, rows in rows_at.items()}


def rows_of_a_pass(model: Transformer, n_source: int, n_target: int) -> int:
    """How many rows a pass may have, so that no tensor of it grows beyond MOST_NUMBERS."""
    config, longest = model.config, max(n_source, n_target)
    of_a_row = max(config.n_heads * longest**2, longest * config.d_ff, n_target * config.tgt_vocab_size)
    return max(1, MOST_NUMBERS // of_a_row)


def _layers(model: Transformer) -> dict[str, int]:
    stacks = {"encoder": model.config.n_encoder_layers, "decoder": model.config.n_decoder_layers}
    return {kind: stacks[stack] for kind, (stack, _) in ATTENTION_KINDS.items()}


def _log_probs(model: Transformer, src: Tensor, tgt_in: Tensor, tgt_out: Tensor, conditions: Conditions) -> Tensor:
    """Log-probability of each row's whole output: [B, S], [B, T], [B, T] -> [B]."""
    logits = model(src, tgt_in, conditions.masks(src, tgt_in, model.config.pad_id))  # [B, T, V]
    return logits.float().log_softmax(dim=-1).gather(-1, tgt_out[..., None]).sum(dim=(1, 2))


def _attention_measures(model: Transformer, acts: dict[str, Tensor], kind: str) -> tuple[np.ndarray, ...]:
    """By key [L, H, keys] mean weights and mean |alpha v W_O|; by head [L, H] mean largest weight and mean sum."""
    stack, name = ATTENTION_KINDS[kind]
    measures: list[tuple[Tensor, ...]] = []
    for layer in range(_layers(model)[kind]):
        attention = getattr(getattr(model, stack).layers[layer], name)
        pattern = acts[address(kind, layer)][0]  # [H, T, S]
        v = acts[address(kind, layer, "hook_v")][0]  # [H, S, K]
        w_o = attention.out_proj.weight.unflatten(1, (attention.n_heads, attention.d_head))  # [D, H, K]
        length = torch.einsum("hsk,dhk->hsd", v, w_o).norm(dim=-1)  # [H, S] of each value as the stream gets it
        weighted = pattern * length[:, None]  # [H, T, S]
        measures.append((
            pattern.mean(dim=1), weighted.mean(dim=1), pattern.amax(dim=-1).mean(dim=-1),
            weighted.sum(dim=-1).mean(dim=-1),
        ))
    return tuple(torch.stack(of_layers).float().cpu().numpy() for of_layers in zip(*measures, strict=True))
