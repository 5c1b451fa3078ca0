"""Proofs about single values of one pass: attention, masks, embeddings, norms, the residual stream.

Shape legend: B batch, S source length, T target length, D d_model, H heads, K d_head.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from transformer.faults import N_PADDING
from transformer.hooks import intervene
from transformer.masks import make_masks
from transformer.model import Attention
from transformer.proof_subject import Found, Subject, deviation
from transformer.reference import LAYER_NORM_EPS, position_table
from transformer.sublayers import sublayers

SCORE_SHIFT = 7.5


def _attentions(subject: Subject) -> dict[str, Attention]:
    """Address -> attention, of all three kinds."""
    modules = subject.model.named_modules()
    return {name: module for name, module in modules if isinstance(module, Attention)}


def _padded_pass(subject: Subject) -> tuple[Tensor, Tensor]:
    """A batch of two: the text with padding behind it, and a source of nothing but padding."""
    src = subject.ids(subject.src_ids + (subject.pad_id,) * N_PADDING, ())
    return src, subject.ids(subject.tgt_in_ids, subject.tgt_in_ids)


def _right_mask(name: str, src: Tensor, tgt_in: Tensor, pad_id: int) -> Tensor:
    """The mask of the attention at ``name`` as it has to be, whatever the conditions say."""
    masks = make_masks(src, tgt_in, pad_id)
    if name.startswith("encoder"):
        return masks.src_mask
    return masks.tgt_mask if "self_attn" in name else masks.memory_mask


def rows_sum_to_1(subject: Subject) -> Found:
    """Every row of every pattern that may see something sums to 1, rows of padding included."""
    src, tgt_in = _padded_pass(subject)
    acts = subject.recorded(src, tgt_in)
    largest, n_rows = 0.0, 0
    for name in _attentions(subject):
        pattern = acts[f"{name}.hook_pattern"]  # [B, H, T, S]
        sees = _right_mask(name, src, tgt_in, subject.pad_id).expand_as(pattern).any(dim=-1)  # [B, H, T]
        sums = pattern.sum(dim=-1)[sees]
        largest, n_rows = max(largest, deviation(sums, torch.ones_like(sums))), n_rows + sums.numel()
    return largest, subject.rounding, {"rows": n_rows, "padding": N_PADDING}


def hidden_is_zero(subject: Subject) -> Found:
    """Every weight that a mask hides is exactly 0, in a row that sees nothing too."""
    src, tgt_in = _padded_pass(subject)
    acts = subject.recorded(src, tgt_in)
    largest, n_cells = 0.0, 0
    for name in _attentions(subject):
        pattern = acts[f"{name}.hook_pattern"]
        cells = pattern[~_right_mask(name, src, tgt_in, subject.pad_id).expand_as(pattern)]
        largest, n_cells = max(largest, deviation(cells, torch.zeros_like(cells))), n_cells + cells.numel()
    return largest, 0.0, {"cells": n_cells, "padding": N_PADDING}


def scores_are_scaled(subject: Subject) -> Found:
    """Scaled scores are raw scores / sqrt(K)."""
    acts = subject.recorded(subject.ids(subject.src_ids), subject.ids(subject.tgt_in_ids))
    names = _attentions(subject)
    root = math.sqrt(subject.model.config.d_head)
    largest = max(
        deviation(acts[f"{name}.hook_scaled_scores"], acts[f"{name}.hook_raw_scores"] / root) for name in names
    )
    return largest, subject.rounding, {"attentions": len(names), "d_head": subject.model.config.d_head}


def softmax_shift_changes_nothing(subject: Subject) -> Found:
    """The same number added to all scores of a row leaves the logits as they are."""
    src, tgt_in = subject.ids(subject.src_ids), subject.ids(subject.tgt_in_ids)
    plain = subject.logits(src, tgt_in)
    shifts = {f"{name}.hook_attn_scores": lambda scores: scores + SCORE_SHIFT for name in _attentions(subject)}
    # The masks' -inf stays what it is; changes open inside act after those of the conditions.
    with subject.conditions.changing(subject.model), intervene(shifts):
        shifted = subject.model(src, tgt_in, subject.masks(src, tgt_in))
    return deviation(shifted, plain), subject.rounding, {"shift": SCORE_SHIFT, "attentions": len(shifts)}


def equals_torch_attention(subject: Subject) -> Found:
    """Each attention, fed what it is fed in a healthy pass, gives what torch.nn.MultiheadAttention gives."""
    src, tgt_in = subject.ids(subject.src_ids), subject.ids(subject.tgt_in_ids)
    inputs: dict[str, tuple[Tensor, Tensor]] = {}
    handles = [
        module.register_forward_pre_hook(lambda _module, given, name=name: inputs.update({name: given[:2]}))
        for name, module in _attentions(subject).items()  # of the proof's own copy of the model
    ]
    subject.model(src, tgt_in)
    for handle in handles:
        handle.remove()
    largest = 0.0
    for name, attention in _attentions(subject).items():
        x, context = inputs[name]
        mask = _right_mask(name, src, tgt_in, subject.pad_id).expand(1, 1, x.shape[1], context.shape[1])
        with subject.conditions.changing(subject.model):
            ours = attention(x, context, mask)
        theirs, _ = _torch_attention(attention)(x, context, context, attn_mask=~mask[0, 0], need_weights=False)
        largest = max(largest, deviation(ours, theirs))
    return largest, subject.rounding, {"attentions": len(inputs), "torch": torch.__version__}


def _torch_attention(ours: Attention) -> nn.MultiheadAttention:
    """Torch's own, with the same weights: it keeps q, k and v in one matrix."""
    weight = ours.q_proj.weight
    theirs = nn.MultiheadAttention(
        len(weight), ours.n_heads, batch_first=True, dtype=weight.dtype, device=weight.device
    )
    parts = (ours.q_proj, ours.k_proj, ours.v_proj)
    theirs.load_state_dict({
        "in_proj_weight": torch.cat([part.weight for part in parts]),
        "in_proj_bias": torch.cat([part.bias for part in parts]),
        "out_proj.weight": ours.out_proj.weight,
        "out_proj.bias": ours.out_proj.bias,
    })
    return theirs


def heads_are_joined(subject: Subject) -> Found:
    """What an attention adds to the stream is all its heads' z side by side, times W_O, plus the bias."""
    acts = subject.recorded(subject.ids(subject.src_ids), subject.ids(subject.tgt_in_ids))
    largest, n_attentions = 0.0, 0
    for sublayer in sublayers(subject.model):
        if sublayer.kind != "feed_forward":
            joined = acts[f"{sublayer.name}.hook_z"].transpose(1, 2).flatten(-2)  # [B, T, D]
            expected = getattr(sublayer.layer, sublayer.kind).out_proj(joined)
            largest, n_attentions = max(largest, deviation(acts[sublayer.out], expected)), n_attentions + 1
    return largest, subject.rounding, {"attentions": n_attentions, "heads": subject.model.config.n_heads}


def embeddings_are_scaled(subject: Subject) -> Found:
    """Each token's vector enters as its row of the table times sqrt(D)."""
    src, tgt_in = subject.ids(subject.src_ids), subject.ids(subject.tgt_in_ids)
    acts = subject.recorded(src, tgt_in)
    root = math.sqrt(subject.model.config.d_model)
    largest = max(
        deviation(acts[f"{side}.hook_embed"], getattr(subject.model, side).tokens.weight[ids] * root)
        for side, ids in (("src_embedding", src), ("tgt_embedding", tgt_in))
    )
    return largest, subject.rounding, {"tokens": src.numel() + tgt_in.numel(), "d_model": subject.model.config.d_model}


def positions_are_right(subject: Subject) -> Found:
    """What is added at positions 0, 1, 2 ... is the formula's row (or the learnt one) for just that position."""
    src, tgt_in = subject.ids(subject.src_ids), subject.ids(subject.tgt_in_ids)
    acts = subject.recorded(src, tgt_in)
    largest = 0.0
    for side, ids in (("src_embedding", src), ("tgt_embedding", tgt_in)):
        expected = torch.from_numpy(position_table(subject.model, side, ids.shape[1]))
        found = acts[f"{side}.hook_pos_embed"]
        largest = max(largest, deviation(found, expected.to(found)))
    # The table is kept in float32: a formula computed another way may round to its other neighbour.
    return largest, 1e-6, {"positions": src.shape[1] + tgt_in.shape[1]}


def norms_are_standard(subject: Subject) -> Found:
    """Every norm gives (x - mean) / sqrt(variance + eps) * gain + bias of what it reads."""
    acts = subject.recorded(subject.ids(subject.src_ids), subject.ids(subject.tgt_in_ids))
    norms = {name: module for name, module in subject.model.named_modules() if isinstance(module, nn.LayerNorm)}
    largest = 0.0
    for name, norm in norms.items():
        x = acts[f"{name}.hook_norm_in"]
        centred = x - x.mean(dim=-1, keepdim=True)
        variance = centred.square().mean(dim=-1, keepdim=True)
        expected = centred / (variance + LAYER_NORM_EPS).sqrt() * norm.weight + norm.bias
        largest = max(largest, deviation(acts[f"{name}.hook_norm_out"], expected))
    return largest, subject.rounding, {"norms": len(norms)}


def residual_adds_up(subject: Subject) -> Found:
    """Stream in + what the sub-layer wrote = stream out (post-LN: the norm of that sum)."""
    acts = subject.recorded(subject.ids(subject.src_ids), subject.ids(subject.tgt_in_ids))
    largest, parts = 0.0, sublayers(subject.model)
    for sublayer in parts:
        with subject.conditions.changing(subject.model):
            expected = sublayer.layer.after(sublayer.norm, acts[sublayer.before] + acts[sublayer.out])
        largest = max(largest, deviation(acts[sublayer.after], expected))
    return largest, subject.rounding, {"sublayers": len(parts)}
