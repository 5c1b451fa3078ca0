"""Cut into a trained network from outside: heads off, evened out, scaled or pinned; sub-layers silenced.

A cut is a small value; ``surgery`` turns any number of them into the ``Conditions`` of a run. How much each head
matters is measured by ``head_importance`` (``importance.py``).

Shape legend: B batch, S source length, T target length, H heads, K d_head.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transformer.conditions import Changes, Conditions, together
from transformer.config import TransformerConfig
from transformer.errors import InputError
from transformer.model import Transformer
from transformer.sublayers import sublayers
from transformer.tracing import ATTENTION_KINDS, address

ACTS = ("off", "uniform", "scale", "pin")
LARGEST_FACTOR = 10.0


@dataclass(frozen=True)
class HeadCut:
    """One change to one head; layers, heads, queries and keys count from 0.

    ``off``: its weights are 0, so it adds nothing. ``uniform``: equal weights over all that it may see. ``scale``:
    what it adds is multiplied by ``factor``. ``pin``: query ``query`` gives key ``key`` the weight ``weight``, and the
    rest of the row is scaled so that the row still sums to 1 (see ``pinned``).
    """

    kind: str  # "encoder_self", "decoder_self" or "cross"
    layer: int
    head: int
    act: str = "off"
    factor: float = 1.0
    query: int = 0
    key: int = 0
    weight: float = 1.0


@dataclass(frozen=True)
class SubLayerCut:
    """What one sub-layer writes becomes 0: the residual stream passes by it."""

    stack: str  # "encoder" or "decoder"
    layer: int
    kind: str  # "self_attn", "cross_attn" or "feed_forward"


Cut = HeadCut | SubLayerCut


def surgery(cuts: Sequence[Cut], config: TransformerConfig) -> Conditions:
    """The conditions of a run with all these cuts.

    Raises InputError for a part that the network does not have, a number out of range, or a head that is changed in
    two ways at once (several cells of one head may be pinned, one a row).
    """
    rows_taken: dict[tuple, list[int | None]] = {}  # of each head: the pinned rows, or None for all of it
    for cut in cuts:
        _check(cut, config)
        if isinstance(cut, HeadCut):
            taken = rows_taken.setdefault((cut.kind, cut.layer, cut.head), [])
            row = cut.query if cut.act == "pin" else None
            if taken and (row is None or None in taken or row in taken):
                raise InputError("surgery_twice", kind=cut.kind, layer=cut.layer + 1, head=cut.head + 1)
            taken.append(row)
    return together(*map(_conditions, cuts))


def head_off(pattern: Tensor, head: int) -> Tensor:
    """``pattern`` [B, H, T, S] with weights 0 in one head."""
    return _with_head(pattern, head, torch.zeros_like)


def uniform_scores(scores: Tensor, head: int) -> Tensor:
    """Scores [B, H, T, S] that are all 0 in one head, but where a mask hides: the softmax makes equal weights."""
    return _with_head(scores, head, lambda own: own.masked_fill(own > -math.inf, 0.0))


def pinned(pattern: Tensor, head: int, query: int, key: int, weight: float) -> Tensor:
    """``pattern`` [B, H, T, S] in which one cell of one head is ``weight``; a row that is not there is not pinned.

    The other weights of the row keep their proportions and share 1 - ``weight``. Where they are all 0, none of them
    has a share to keep, and the row is left with the pinned cell alone: it then sums to ``weight``.
    """
    if query >= pattern.shape[2] or key >= pattern.shape[3]:
        return pattern
    row = pattern[:, head, query].clone()  # [B, S]
    row[:, key] = 0.0
    rest = row.sum(dim=-1, keepdim=True)
    row = torch.where(rest > 0, row * (1 - weight) / rest.clamp(min=torch.finfo(row.dtype).tiny), row)
    row[:, key] = weight
    changed = pattern.clone()
    changed[:, head, query] = row
    return changed


def _with_head(value: Tensor, head: int, function: Callable[[Tensor], Tensor]) -> Tensor:
    changed = value.clone()
    changed[:, head] = function(value[:, head])
    return changed


def _conditions(cut: Cut) -> Conditions:
    if isinstance(cut, SubLayerCut):
        return Conditions((lambda model: _silenced(model, cut),))
    hook, function = {
        "off": ("hook_pattern", lambda pattern: head_off(pattern, cut.head)),
        "uniform": ("hook_attn_scores", lambda scores: uniform_scores(scores, cut.head)),
        "scale": ("hook_z", lambda z: _with_head(z, cut.head, lambda own: own * cut.factor)),
        "pin": ("hook_pattern", lambda pattern: pinned(pattern, cut.head, cut.query, cut.key, cut.weight)),
    }[cut.act]
    # A cached step has one row, whichever query it is; to pin a certain one, all rows must be there.
    cached = cut.act != "pin" or cut.kind == "encoder_self"
    return Conditions((lambda model: {address(cut.kind, cut.layer, hook): function},), cached=cached)


def _silenced(model: Transformer, cut: SubLayerCut) -> Changes:
    parts = (part for part in sublayers(model, cut.stack) if (part.index, part.kind) == (cut.layer, cut.kind))
    return {part.out: torch.zeros_like for part in parts}


def _check(cut: Cut, config: TransformerConfig) -> None:
    if isinstance(cut, SubLayerCut):
        kinds = ("self_attn", "feed_forward") if cut.stack == "encoder" else ("self_attn", "cross_attn", "feed_forward")
        _check_choice("stack", cut.stack, ("encoder", "decoder"))
        _check_choice("kind", cut.kind, kinds)
        _check_whole("layer", cut.layer, _n_layers(cut.stack, config))
        return
    _check_choice("kind", cut.kind, tuple(ATTENTION_KINDS))
    _check_choice("act", cut.act, ACTS)
    _check_whole("layer", cut.layer, _n_layers(ATTENTION_KINDS[cut.kind][0], config))
    _check_whole("head", cut.head, config.n_heads)
    if cut.act == "scale":
        _check_number("factor", cut.factor, -LARGEST_FACTOR, LARGEST_FACTOR)
    if cut.act == "pin":
        _check_whole("query", cut.query, config.max_len)
        _check_whole("key", cut.key, config.max_len)
        _check_number("weight", cut.weight, 0.0, 1.0)
        if cut.kind == "decoder_self" and cut.key > cut.query:
            raise InputError("surgery_future", query=cut.query + 1, key=cut.key + 1)


def _n_layers(stack: str, config: TransformerConfig) -> int:
    return config.n_encoder_layers if stack == "encoder" else config.n_decoder_layers


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InputError("setting_choice", name=name, choices=", ".join(choices), value=value)


def _check_whole(name: str, value: int, n: int) -> None:
    """``value`` counts from 0; the sentence, as all that is shown, counts from 1."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < n:
        shown = value + 1 if isinstance(value, int) else value
        raise InputError("setting_whole", name=name, lowest=1, highest=n, value=shown)


def _check_number(name: str, value: float, lowest: float, highest: float) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not lowest <= value <= highest:
        raise InputError("setting_range", name=name, lowest=lowest, highest=highest, value=value)
