"""The conditions a run takes place under: the usual ones, or with something changed from outside.

A fault, a cut, a painted mask are nothing but other conditions. Values are changed at hook points (``intervene``),
masks by other rules for who may see whom, and the loop by what it feeds first and when it stops. The network itself
is never touched, so a model that is shared stays as it is.

Shape legend: B batch, S source length, T target length, D d_model, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from transformer.decoding import CachedNextLogits, NextLogits
from transformer.errors import InputError
from transformer.hooks import HookPoint, intervene
from transformer.masks import Masks, causal_mask, padding_mask
from transformer.model import Transformer
from transformer.tokenizers import BOS, SPECIAL_TOKENS

Changes = Mapping[str, Callable[[Tensor], Tensor]]  # {address: what becomes of the value there}
# Ids of queries [B, T] and keys [B, S] -> who may see whom as far as padding goes, broadcasting to [B, 1, T, S].
PaddingRule = Callable[[Tensor, Tensor, int], Tensor]
CausalRule = Callable[..., Tensor]  # a length and a device -> [1, 1, T, T]


def usual_padding(queries: Tensor, keys: Tensor, pad_id: int) -> Tensor:
    """Every query may see every key that is no padding: [B, 1, 1, S]."""
    return padding_mask(keys, pad_id)


@dataclass(frozen=True, eq=False)
class PaintedMasks:
    """Three masks painted cell by cell for one text, True = may attend. They take the place of all usual masks.

    The target grows while it is written: step t is decoded under the first t rows and columns of ``decoder`` and the
    first t rows of ``cross``. Beyond what is painted the usual rules hold: the past is seen, and all of the source.
    A painted cell that lets a query see its future starts to act once that future has been written, and then changes
    what earlier positions hold; so such a run is decoded without a cache. Raises InputError for shapes that do not fit.
    """

    encoder: np.ndarray  # bool [S, S]
    decoder: np.ndarray  # bool [T, T]
    cross: np.ndarray  # bool [T, S]

    def __post_init__(self) -> None:
        for name in ("encoder", "decoder", "cross"):
            mask = np.asarray(getattr(self, name))
            if mask.dtype != np.bool_ or mask.ndim != 2:
                raise InputError("mask_shape", name=name, expected="true or false, in rows", got=f"{mask.dtype}")
            object.__setattr__(self, name, mask)
        n_source, n_target = len(self.encoder), len(self.decoder)
        for name, shape in (
            ("encoder", (n_source, n_source)), ("decoder", (n_target, n_target)), ("cross", (n_target, n_source))
        ):
            if getattr(self, name).shape != shape:
                raise InputError("mask_shape", name=name, expected=shape, got=getattr(self, name).shape)

    @property
    def sees_the_future(self) -> bool:
        """Whether a painted cell of the decoder's mask lets a query see a later key."""
        return bool(np.triu(self.decoder, 1).any())

    def __call__(self, src: Tensor, tgt_in: Tensor, pad_id: int) -> Masks:
        """The masks of a pass over ``src`` [B, S] and ``tgt_in`` [B, T]. Raises InputError for another S."""
        n_source, n_target = src.shape[1], tgt_in.shape[1]
        if n_source != len(self.encoder):
            raise InputError("mask_shape", name="encoder", expected=(n_source, n_source), got=self.encoder.shape)
        n_painted = min(n_target, len(self.decoder))
        decoder = np.tri(n_target, dtype=bool)
        decoder[:n_painted, :n_painted] = self.decoder[:n_painted, :n_painted]
        cross = np.repeat((src[:1] != pad_id).cpu().numpy(), n_target, axis=0)
        cross[:n_painted] = self.cross[:n_painted]
        return Masks(*(torch.from_numpy(mask)[None, None].to(src.device) for mask in (self.encoder, decoder, cross)))


@dataclass(frozen=True, eq=False)
class Conditions:
    """What is other than usual in a run; ``Conditions()`` is the usual.

    ``changes`` are made for a model when a run begins, and act in their order. ``cached`` says whether keys and
    values kept from earlier steps are still right under these conditions; where they are not, every step passes over
    the whole target again. ``first_token`` is fed first; without ``stops`` the loop goes on after ``<eos>``.
    """

    changes: tuple[Callable[[Transformer], Changes], ...] = ()
    padding: PaddingRule = usual_padding
    causal: CausalRule = causal_mask
    painted: PaintedMasks | None = None
    cached: bool = True
    first_token: str = BOS
    stops: bool = True

    @property
    def usual_masks(self) -> bool:
        """Whether the masks are those of ``make_masks``."""
        return self.painted is None and self.padding is usual_padding and self.causal is causal_mask

    @property
    def first_id(self) -> int:
        """The id fed first; special tokens have the same id in every vocabulary."""
        return SPECIAL_TOKENS.index(self.first_token)

    def masks(self, src: Tensor, tgt_in: Tensor, pad_id: int) -> Masks:
        """The masks of a pass over ``src`` [B, S] and ``tgt_in`` [B, T] under these conditions."""
        if self.painted is not None:
            return self.painted(src, tgt_in, pad_id)
        causal = self.causal(tgt_in.shape[1], tgt_in.device)
        return Masks(
            self.padding(src, src, pad_id),
            self.padding(tgt_in, tgt_in, pad_id) & causal,
            self.padding(tgt_in, src, pad_id),
        )

    @contextmanager
    def changing(self, model: Transformer) -> Iterator[None]:
        """Within the block, and in this context alone, the values of ``model`` are changed."""
        with ExitStack() as stack:
            for make_changes in self.changes:
                stack.enter_context(intervene(make_changes(model)))
            yield

    def next_logits(self, model: Transformer, src: Tensor) -> NextLogits:
        """``model`` reading ``src`` [B, S] as ``decoding.write`` sees it. Call it within ``changing``."""
        if self.cached and self.usual_masks:
            return CachedNextLogits(model, src)
        return NextLogitsUnder(self, model, src)

    def limits(self, eos_id: int) -> dict[str, int]:
        """What ``decoding.write`` is told: no id is -1, so a loop that waits for it never stops by itself."""
        return {"bos_id": self.first_id, "eos_id": eos_id if self.stops else -1}


USUAL = Conditions()


def together(*parts: Conditions) -> Conditions:
    """All of ``parts`` at once, acting in their order; where two name different rules for one mask, the last holds."""
    changed: dict[str, object] = {
        entry.name: getattr(part, entry.name)
        for part in parts
        for entry in fields(Conditions)
        if getattr(part, entry.name) != entry.default
    }
    changed["changes"] = tuple(change for part in parts for change in part.changes)
    return replace(USUAL, **changed)


class NextLogitsUnder:
    """The network as ``NextLogits`` under other conditions, with a cache where they allow one."""

    def __init__(self, conditions: Conditions, model: Transformer, src: Tensor) -> None:
        self._conditions, self._model, self._src = conditions, model, src
        self._tgt_in = src.new_empty(len(src), 0)  # [B, T] what was fed so far
        self._memory = model.encode(src, self._masks().src_mask)  # [B, S, D]
        self._cache = model.new_cache() if conditions.cached else None

    def __call__(self, last_ids: Tensor) -> Tensor:
        self._tgt_in = torch.cat([self._tgt_in, last_ids[:, None]], dim=1)
        masks = self._masks()
        if self._cache is None:
            return self._model.decode(self._tgt_in, self._memory, masks.tgt_mask, masks.memory_mask)[:, -1]
        # The last row of a mask is that of the newest query (a mask with one row has the same for all).
        newest = (mask[:, :, -1:] for mask in (masks.tgt_mask, masks.memory_mask))
        return self._model.decode(last_ids[:, None], self._memory, *newest, self._cache)[:, -1]

    def select(self, rows: Tensor) -> None:
        """Go on with the given rows of the batch, in this order."""
        self._src, self._tgt_in, self._memory = self._src[rows], self._tgt_in[rows], self._memory[rows]
        for pair in self._cache or ():
            for cache in pair:
                cache.select(rows)

    def _masks(self) -> Masks:
        return self._conditions.masks(self._src, self._tgt_in, self._model.config.pad_id)


def points(model: Transformer, name: str) -> list[str]:
    """Every address whose last part is ``name``, e.g. all three kinds of ``hook_pattern``."""
    return [
        address for address, module in model.named_modules()
        if isinstance(module, HookPoint) and address.rsplit(".", 1)[-1] == name
    ]


def everywhere(name: str, function: Callable[[Tensor], Tensor]) -> Callable[[Transformer], Changes]:
    """The changes that do the same at every hook point called ``name``."""
    return lambda model: dict.fromkeys(points(model, name), function)


def paint(masks: PaintedMasks) -> Conditions:
    """Decode under painted masks."""
    return Conditions(painted=masks, cached=not masks.sees_the_future)
