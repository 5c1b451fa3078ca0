"""Every sub-layer of a network by name: what it reads, what it writes, and the residual stream before and after it."""

from __future__ import annotations

from dataclasses import dataclass

from transformer.model import EncoderLayer, Layer, LayerNorm, Transformer

# Kind of sub-layer -> its norm, and the hook points of the stream before it, of what it writes, of the stream after it.
_ENCODER = {
    "self_attn": ("attn_norm", "hook_resid_pre", "hook_attn_out", "hook_resid_mid"),
    "feed_forward": ("mlp_norm", "hook_resid_mid", "hook_mlp_out", "hook_resid_post"),
}
_DECODER = {
    "self_attn": ("attn_norm", "hook_resid_pre", "hook_attn_out", "hook_resid_mid"),
    "cross_attn": ("cross_norm", "hook_resid_mid", "hook_cross_attn_out", "hook_resid_mid_cross"),
    "feed_forward": ("mlp_norm", "hook_resid_mid_cross", "hook_mlp_out", "hook_resid_post"),
}


@dataclass(frozen=True, eq=False)
class SubLayer:
    """One sub-layer. ``before``, ``out`` and ``after`` are addresses: stream in, what it adds, stream out."""

    stack: str  # "encoder" or "decoder"
    index: int  # of its layer, from 0
    kind: str  # "self_attn", "cross_attn" or "feed_forward"
    layer: Layer
    norm: LayerNorm
    before: str
    out: str
    after: str

    @property
    def name(self) -> str:
        """E.g. ``decoder.layers.0.cross_attn``."""
        return f"{self.stack}.layers.{self.index}.{self.kind}"


def sublayers(model: Transformer, *stacks: str) -> list[SubLayer]:
    """The sub-layers of the named stacks (of both when none is named), in the order they work."""
    found = []
    for stack in stacks or ("encoder", "decoder"):
        for index, layer in enumerate(getattr(model, stack).layers):
            for kind, (norm, *hooks) in (_ENCODER if isinstance(layer, EncoderLayer) else _DECODER).items():
                addresses = (f"{stack}.layers.{index}.{hook}" for hook in hooks)
                found.append(SubLayer(stack, index, kind, layer, getattr(layer, norm), *addresses))
    return found
