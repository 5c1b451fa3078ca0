"""One decoding step in as few operations as it takes, for when nobody looks into it but at the patterns.

When a single new token comes in, a pass through ``model.py`` spends most of its time around the arithmetic: hundreds of
calls a step for products of one row. This is the same arithmetic on the same weights and the same cache, written for
that one case; that it equals a full pass is tested. Read ``model.py`` for what it means.

Shape legend: B batch, S source length, T target length so far, D d_model, H heads, K d_head, V vocabulary.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer.hooks import HookPoint, looks_only_at
from transformer.model import Attention, DecoderLayer, KeyValueCache, Transformer

Caches = list[tuple[KeyValueCache, KeyValueCache]]


class FastStep:
    """``model.decode`` for one new token a row, on the caches that ``model.decode`` works on, too.

    The weights are those the model has when this is made: what q, k and v are made by is laid side by side, so that
    one product makes all three. ``memory`` [B, S, D] and ``memory_mask`` [B, 1, 1, S] are as for ``model.decode``.
    """

    def __init__(self, model: Transformer, memory: Tensor, memory_mask: Tensor, caches: Caches) -> None:
        self._model, self._memory, self._caches = model, memory, caches
        self._norm_first = model.config.norm_first
        self._n_heads, self._d_head = model.config.n_heads, model.config.d_head
        self._scale = 1 / math.sqrt(model.config.d_head)
        self._hidden = None if bool(memory_mask.all()) else _hidden(memory_mask, model.config.n_heads, memory.dtype)
        self._ignored = memory.new_zeros(1, 1, 1)
        self._layers = [_Layer(layer) for layer in model.decoder.layers]
        self._patterns = frozenset(
            f"decoder.layers.{i}.{kind}.hook_pattern" for i in range(len(self._layers))
            for kind in ("self_attn", "cross_attn")
        )
        # Half precision needs its softmax in float32; a source of nothing but padding needs the rule for such rows.
        is_usual = memory.dtype in (torch.float32, torch.float64) and bool(memory_mask.any(dim=-1).all())
        self._is_equal = is_usual and not model.training

    def is_equal(self) -> bool:
        """Whether a step here is all that ``model.decode`` would be: no other value is recorded or changed."""
        return self._is_equal and looks_only_at(self._patterns)

    def __call__(self, last_ids: Tensor) -> Tensor:
        """Last token ids [B] -> logits [B, V]. Every token fed so far must be one that may be attended to."""
        embedding = self._model.tgt_embedding
        position = self._caches[0][0].length
        embedding.check_length(position + 1)
        embed = torch.embedding(embedding.tokens.weight, last_ids)
        x = torch.add(embedding.positions[position], embed, alpha=embedding.scale)  # [B, D]
        for layer, (self_cache, cross_cache) in zip(self._layers, self._caches, strict=True):
            attn_in = layer.attn_norm(x) if self._norm_first else x
            x = x + self._self_attention(layer, attn_in, self_cache)
            if not self._norm_first:
                x = layer.attn_norm(x)
            cross_in = layer.cross_norm(x) if self._norm_first else x
            x = x + self._cross_attention(layer, cross_in, cross_cache)
            if not self._norm_first:
                x = layer.cross_norm(x)
            mlp_in = layer.mlp_norm(x) if self._norm_first else x
            hidden = torch.addmm(layer.up_bias, mlp_in, layer.up).relu_()
            x = x + F.linear(hidden, *layer.down)
            if not self._norm_first:
                x = layer.mlp_norm(x)
        return F.linear(self._model.decoder.final_norm(x), self._model.unembed.weight)

    def select(self, rows: Tensor) -> None:
        """Go on with the given rows of the batch, in this order; the caches are selected by whoever has them."""
        self._memory = self._memory[rows]
        if self._hidden is not None:
            self._hidden = self._hidden[rows]

    def _self_attention(self, layer: _Layer, x: Tensor, cache: KeyValueCache) -> Tensor:
        heads = torch.addmm(layer.qkv_bias, x, layer.qkv).view(x.shape[0], 3, self._n_heads, 1, self._d_head)
        q, k, v = heads.unbind(1)  # [B, H, 1, K] each
        cache.append(k, v)
        z = self._gather(q.reshape(-1, 1, self._d_head), cache, self._ignored, 0, layer.self_pattern)
        return F.linear(z, *layer.self_out)

    def _cross_attention(self, layer: _Layer, x: Tensor, cache: KeyValueCache) -> Tensor:
        if cache.length == 0:
            cache.append(*layer.cross_attn.keys_values(self._memory))
        q = F.linear(x, *layer.cross_q).view(-1, 1, self._d_head)  # [B*H, 1, K]
        hidden, share = (self._ignored, 0) if self._hidden is None else (self._hidden.flatten(0, 1), 1)
        z = self._gather(q, cache, hidden, share, layer.cross_pattern)
        return F.linear(z, *layer.cross_out)

    def _gather(self, q: Tensor, cache: KeyValueCache, hidden: Tensor, share: int, hook: HookPoint) -> Tensor:
        """Values weighted by the pattern: q [B*H, 1, K] -> [B, D]. ``share`` of ``hidden`` is added to the scores."""
        keys, values = cache.flat()  # [B*H, T, K]
        scores = torch.baddbmm(hidden, q, keys.transpose(1, 2), beta=share, alpha=self._scale)  # [B*H, 1, T]
        weights = scores.softmax(dim=-1)
        pattern = weights.view(-1, self._n_heads, 1, weights.shape[2])  # [B, H, 1, T]
        hooked = hook(pattern)
        if hooked is not pattern:
            weights = hooked.reshape(weights.shape)
        return torch.bmm(weights, values).view(-1, self._n_heads * self._d_head)


class _Layer:
    """The weights of one decoder layer as plain tensors: asking a module for them at every step costs more.

    ``qkv`` [D, 3D] and ``up`` [D, d_ff] lie the other way round than in ``nn.Linear``: a product of one row that makes
    more numbers than it takes reads weights twice as fast from memory in this order.
    """

    def __init__(self, layer: DecoderLayer) -> None:
        own, cross, mlp = layer.self_attn, layer.cross_attn, layer.feed_forward
        projections = (own.q_proj, own.k_proj, own.v_proj)
        self.qkv = torch.cat([projection.weight for projection in projections]).t().contiguous()
        self.qkv_bias = torch.cat([projection.bias for projection in projections])
        self.self_out, self.cross_q, self.cross_out = map(_weights, (own.out_proj, cross.q_proj, cross.out_proj))
        self.up, self.up_bias = mlp.up_proj.weight.t().contiguous(), mlp.up_proj.bias
        self.down = _weights(mlp.down_proj)
        self.cross_attn: Attention = cross
        self.self_pattern, self.cross_pattern = own.hook_pattern, cross.hook_pattern
        self.attn_norm, self.cross_norm, self.mlp_norm = map(_norm, (layer.attn_norm, layer.cross_norm, layer.mlp_norm))


def _weights(linear: nn.Linear) -> tuple[Tensor, Tensor]:
    return linear.weight, linear.bias


def _norm(norm: nn.LayerNorm):
    weight, bias, shape, eps = norm.weight, norm.bias, norm.normalized_shape, norm.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)


def _hidden(mask: Tensor, n_heads: int, dtype: torch.dtype) -> Tensor:
    """``mask`` [B, 1, 1, S], True = may attend, as what is added to scores [B, H, 1, S]: 0 or minus infinity."""
    added = torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -math.inf)
    return added.repeat(1, n_heads, 1, 1)
