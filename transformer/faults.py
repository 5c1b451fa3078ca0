"""Bugs that people really write, to be switched on in a trained network while it decodes.

A fault is other ``Conditions`` (values changed at hook points, another mask, another loop) and the names of the
proofs it must make fail (``proofs.py``). The network and its weights stay as they are.

Shape legend: B batch, S source length, T target length, D d_model, H heads, K d_head.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transformer.conditions import Changes, Conditions, everywhere, points, together
from transformer.errors import InputError
from transformer.masks import padding_mask
from transformer.model import InputEmbedding, Transformer
from transformer.sublayers import sublayers
from transformer.tokenizers import EOS

N_PADDING = 4  # pads behind a text, so that a fault in the padding mask has something to show
USUAL_DROPOUT = 0.1  # for networks trained without (paper, section 5.4)
LARGE_NEGATIVE = -1e4


@dataclass(frozen=True, eq=False)
class Fault:
    """One bug. ``part`` is what it breaks: two faults of one part contradict each other.

    ``needs_padding``: without padding in the batch nothing comes of it.
    """

    name: str
    conditions: Conditions
    must_fail: tuple[str, ...]  # names of proofs: these, and no others
    part: str = ""
    needs_padding: bool = False


# Other rules for masks


def sees_everything(length: int, device: torch.device | str | None = None) -> Tensor:
    """A causal mask that hides nothing: [1, 1, T, T]."""
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device)


def sees_one_ahead(length: int, device: torch.device | str | None = None) -> Tensor:
    """A causal mask whose diagonal is off by one, so that each query sees the token it has to predict: [1, 1, T, T]."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril(1)[None, None]


def no_padding_mask(queries: Tensor, keys: Tensor, pad_id: int) -> Tensor:
    """Padding is a key like any other: [B, 1, 1, S]."""
    return torch.ones_like(keys, dtype=torch.bool)[:, None, None, :]


def padding_of_queries(queries: Tensor, keys: Tensor, pad_id: int) -> Tensor:
    """The padding mask on the wrong axis: padding asks nothing, but is asked: [B, 1, T, 1]."""
    return padding_mask(queries, pad_id).transpose(-2, -1)


# Other values at hook points


def large_negative(model: Transformer) -> Changes:
    """Hidden cells get -1e4 before the softmax, and nothing after it.

    exp(-1e4) is 0 in float32 too, so a row with one visible key does not change. In a row that sees nothing every
    score is the same -1e4, and the softmax shares out its 1 among keys that were to be hidden.
    """
    scores_at: dict[str, Tensor] = {}

    def fill(name: str, scores: Tensor) -> Tensor:
        scores_at[name] = scores.masked_fill(scores == -math.inf, LARGE_NEGATIVE)
        return scores_at[name]

    def weigh(name: str, pattern: Tensor) -> Tensor:
        scores = scores_at[name]
        hidden = scores == LARGE_NEGATIVE
        return torch.where(hidden, scores.softmax(dim=-1).to(pattern.dtype), pattern)

    changes: dict = {}
    for name in points(model, "hook_attn_scores"):
        pattern = name.replace("hook_attn_scores", "hook_pattern")
        changes[name] = lambda scores, name=name: fill(name, scores)
        changes[pattern] = lambda weights, name=name: weigh(name, weights)
    return changes


def unscaled(model: Transformer) -> Changes:
    """Scores stay what the products of queries and keys are, sqrt(K) times too large."""
    factor = math.sqrt(model.config.d_head)
    return dict.fromkeys(points(model, "hook_scaled_scores"), lambda scores: scores * factor)


def wrongly_split(heads: Tensor) -> Tensor:
    """What ``view(B, H, T, K)`` makes of a projection [B, T, D], from what the right split made of it [B, H, T, K].

    A head then gets all columns of some positions, cut into T rows, and not its own columns of every position.
    """
    projected = heads.transpose(1, 2).flatten(-2)  # [B, T, D] as it came out of the projection
    return projected.reshape(heads.shape)


def shifted_positions(model: Transformer) -> Changes:
    """The target's positions count from 1; the encoding goes on past the last one by one row."""
    embedding = model.tgt_embedding
    after = torch.cat([embedding.positions[1:], _one_more(embedding)])  # row p holds position p + 1

    def shift(pos_embed: Tensor) -> Tensor:
        # The value [T, D] is a stretch of the table. In a cached step it begins at the newest position, wherever.
        start = int((embedding.positions == pos_embed[0]).all(dim=-1).nonzero()[0])
        return after[start : start + len(pos_embed)]

    return {"tgt_embedding.hook_pos_embed": shift}


def _one_more(embedding: InputEmbedding) -> Tensor:
    """What would stand behind the last row of a table of positions, [1, D]; a learned one knows no more than that."""
    positions = embedding.positions
    if isinstance(positions, torch.nn.Parameter) or not bool(positions.any()):
        return positions[-1:]
    # Sines and cosines: the next row turns each pair by one more frequency, sin(a + w) = sin a cos w + cos a sin w.
    d_model = positions.shape[1]
    dims = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = len(positions) * 10000.0 ** (-dims / d_model)
    row = torch.stack([angle.sin(), angle.cos()], dim=1).flatten()[:d_model]
    return row[None].to(positions)


def unscaled_embeddings(model: Transformer) -> Changes:
    """Token vectors of length about 1 beside positions of length sqrt(D / 2)."""
    return dict.fromkeys(points(model, "hook_embed"), lambda embed: embed / math.sqrt(model.config.d_model))


def with_dropout(model: Transformer) -> Changes:
    """Dropout at the places the paper has it (section 5.4) and on the attention weights, never twice the same."""
    rate = model.config.dropout or USUAL_DROPOUT
    generator = torch.Generator(next(model.parameters()).device)
    generator.seed()

    def drop(value: Tensor) -> Tensor:
        kept = torch.rand(value.shape, generator=generator, device=value.device) >= rate
        return value * kept / (1 - rate)

    names = [
        *points(model, "hook_pattern"),
        "encoder.layers.0.hook_resid_pre", "decoder.layers.0.hook_resid_pre",  # the sums of embedding and position
        *(sublayer.out for sublayer in sublayers(model)),
    ]
    return dict.fromkeys(names, drop)


def without_norms(model: Transformer) -> Changes:
    """Every norm gives back what it was given."""
    given: dict[str, Tensor] = {}

    def keep(name: str, value: Tensor) -> Tensor:
        given[name] = value
        return value

    changes: dict = {}
    for name in points(model, "hook_norm_in"):
        changes[name] = lambda value, name=name: keep(name, value)
        changes[name.replace("hook_norm_in", "hook_norm_out")] = lambda value, name=name: given[name]
    return changes


def without_residual(model: Transformer) -> Changes:
    """What a sub-layer writes takes the place of the stream instead of being added to it."""
    written: dict[str, Tensor] = {}

    def keep(name: str, value: Tensor) -> Tensor:
        written[name] = value
        return value

    changes: dict = {}
    for sublayer in sublayers(model):
        changes[sublayer.out] = lambda value, sublayer=sublayer: keep(sublayer.out, value)
        changes[sublayer.after] = lambda value, sublayer=sublayer: sublayer.layer.after(
            sublayer.norm, written[sublayer.out]
        )
    return changes


# The faults. Those that keep what others have changed come last: changes act in this order.

FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault(
            "no_causal_mask", Conditions(causal=sees_everything, cached=False),
            ("hidden_is_zero", "future_changes_nothing", "cached_equals_uncached", "equals_reference"),
            part="causal mask",
        ),
        Fault(
            "causal_mask_off_by_one", Conditions(causal=sees_one_ahead, cached=False),
            ("hidden_is_zero", "future_changes_nothing", "cached_equals_uncached", "equals_reference"),
            part="causal mask",
        ),
        Fault(
            "no_padding_mask", Conditions(padding=no_padding_mask),
            ("hidden_is_zero", "padding_changes_nothing", "batch_equals_singles", "equals_reference"),
            part="padding mask", needs_padding=True,
        ),
        Fault(
            "padding_mask_on_queries", Conditions(padding=padding_of_queries),
            ("rows_sum_to_1", "hidden_is_zero", "padding_changes_nothing", "batch_equals_singles", "equals_reference"),
            part="padding mask", needs_padding=True,
        ),
        Fault("large_negative_for_infinity", Conditions((large_negative,)), ("hidden_is_zero",)),
        Fault(
            "no_score_scale", Conditions((unscaled,)),
            ("scores_are_scaled", "equals_torch_attention", "equals_reference"),
        ),
        Fault(
            "heads_split_wrongly",
            Conditions(tuple(everywhere(name, wrongly_split) for name in ("hook_q", "hook_k", "hook_v")), cached=False),
            (
                "future_changes_nothing", "padding_changes_nothing", "batch_equals_singles", "cached_equals_uncached",
                "equals_torch_attention", "order_is_in_the_positions", "equals_reference",
            ),
        ),
        Fault(
            "no_positions", Conditions((everywhere("hook_pos_embed", torch.zeros_like),)),
            ("positions_are_right", "equals_reference"), part="positions",
        ),
        Fault(
            "positions_shifted", Conditions((shifted_positions,)),
            ("positions_are_right", "equals_reference"), part="positions",
        ),
        Fault(
            "no_embedding_scale", Conditions((unscaled_embeddings,)), ("embeddings_are_scaled", "equals_reference"),
        ),
        Fault(
            "no_cross_attention", Conditions((everywhere("hook_cross_attn_out", torch.zeros_like),)),
            ("heads_are_joined", "equals_reference"),
        ),
        Fault("wrong_first_token", Conditions(first_token=EOS), ("starts_with_bos",)),
        Fault("no_stop", Conditions(stops=False), ("stops_at_eos",)),
        Fault(
            "dropout_left_on", Conditions((with_dropout,)),
            (
                "rows_sum_to_1", "future_changes_nothing", "padding_changes_nothing", "batch_equals_singles",
                "cached_equals_uncached", "softmax_shift_changes_nothing", "equals_torch_attention",
                "heads_are_joined", "order_is_in_the_positions", "same_seed_same_result", "equals_reference",
            ),
        ),
        Fault("no_layer_norm", Conditions((without_norms,)), ("norms_are_standard", "equals_reference")),
        Fault("no_residual", Conditions((without_residual,)), ("residual_adds_up", "equals_reference")),
    )
}


def chosen_faults(names: Sequence[str]) -> tuple[Fault, ...]:
    """The faults of these names, each once, in the order they act.

    Raises InputError for a name there is not, and for two faults that break the same part in different ways.
    """
    for name in names:
        if name not in FAULTS:
            raise InputError("fault_unknown", name=name, known=", ".join(FAULTS))
    chosen = tuple(fault for fault in FAULTS.values() if fault.name in names)
    by_part: dict[str, Fault] = {}
    for fault in chosen:
        if fault.part and fault.part in by_part:
            raise InputError("faults_contradict", first=by_part[fault.part].name, second=fault.name)
        by_part[fault.part] = fault
    return chosen


def faulty(names: Sequence[str]) -> Conditions:
    """The conditions of a run with all these faults at once. Raises InputError as ``chosen_faults`` does."""
    return together(*(fault.conditions for fault in chosen_faults(names)))
