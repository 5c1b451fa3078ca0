"""Who may look at whom. Boolean masks, True = may attend.

Shape legend: B batch, S source length, T target length. A mask broadcasts against scores [B, H, T, S]:
the third axis is the query that asks, the fourth the key that is asked.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Masks(NamedTuple):
    """The three masks of one forward pass, True = may attend. None lets everything be seen."""

    src_mask: Tensor | None  # [B, 1, 1, S] encoder self-attention: hides padding keys
    tgt_mask: Tensor | None  # [B, 1, T, T] decoder self-attention: hides padding keys and the future
    memory_mask: Tensor | None  # [B, 1, 1, S] cross-attention: hides padding keys of the source


def padding_mask(token_ids: Tensor, pad_id: int) -> Tensor:
    """True where a key is a real token. ``token_ids`` [B, S] -> [B, 1, 1, S].

    It hides keys, never queries: the two middle axes are 1, so every head and every query sees the same keys.
    """
    return (token_ids != pad_id)[:, None, None, :]


def causal_mask(length: int, device: torch.device | str | None = None) -> Tensor:
    """True where the key is not in the query's future -> [1, 1, T, T] (paper, section 3.2.3)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]


def make_masks(src: Tensor, tgt_in: Tensor, pad_id: int) -> Masks:
    """The masks of a forward pass over ``src`` [B, S] and ``tgt_in`` [B, T]."""
    src_mask = padding_mask(src, pad_id)
    tgt_mask = padding_mask(tgt_in, pad_id) & causal_mask(tgt_in.shape[1], tgt_in.device)  # [B,1,1,T] & [1,1,T,T]
    return Masks(src_mask, tgt_mask, src_mask)
