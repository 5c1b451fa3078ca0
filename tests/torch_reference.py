"""The layers of ``torch.nn`` filled with our weights, to prove ours against. Torch masks are the other way round.

``nn.MultiheadAttention`` keeps q, k and v in one matrix, names differ, and True in its masks means "ignore".
The modules stay in training mode with dropout 0: in evaluation mode torch takes fused paths of its own.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transformer.model import Attention, Decoder, DecoderLayer, Encoder, EncoderLayer


def _copied(theirs: nn.Linear | nn.LayerNorm, ours: nn.Linear | nn.LayerNorm) -> None:
    theirs.load_state_dict(ours.state_dict())


@torch.no_grad()
def _fill_attention(theirs: nn.MultiheadAttention, ours: Attention) -> None:
    projections = (ours.q_proj, ours.k_proj, ours.v_proj)
    theirs.in_proj_weight.copy_(torch.cat([projection.weight for projection in projections]))
    theirs.in_proj_bias.copy_(torch.cat([projection.bias for projection in projections]))
    _copied(theirs.out_proj, ours.out_proj)


def _fill_encoder_layer(theirs: nn.TransformerEncoderLayer, ours: EncoderLayer) -> None:
    _fill_attention(theirs.self_attn, ours.self_attn)
    _copied(theirs.linear1, ours.feed_forward.up_proj)
    _copied(theirs.linear2, ours.feed_forward.down_proj)
    _copied(theirs.norm1, ours.attn_norm)
    _copied(theirs.norm2, ours.mlp_norm)


def _fill_decoder_layer(theirs: nn.TransformerDecoderLayer, ours: DecoderLayer) -> None:
    _fill_attention(theirs.self_attn, ours.self_attn)
    _fill_attention(theirs.multihead_attn, ours.cross_attn)
    _copied(theirs.linear1, ours.feed_forward.up_proj)
    _copied(theirs.linear2, ours.feed_forward.down_proj)
    _copied(theirs.norm1, ours.attn_norm)
    _copied(theirs.norm2, ours.cross_norm)
    _copied(theirs.norm3, ours.mlp_norm)


def torch_attention(ours: Attention) -> nn.MultiheadAttention:
    d_model = ours.n_heads * ours.d_head
    theirs = nn.MultiheadAttention(d_model, ours.n_heads, batch_first=True, dtype=torch.float64)
    _fill_attention(theirs, ours)
    return theirs


def _layer_arguments(ours: EncoderLayer | DecoderLayer) -> dict:
    return {
        "d_model": ours.self_attn.n_heads * ours.self_attn.d_head,
        "nhead": ours.self_attn.n_heads,
        "dim_feedforward": ours.feed_forward.up_proj.out_features,
        "dropout": 0.0,
        "batch_first": True,
        "norm_first": ours.norm_first,
        "dtype": torch.float64,
    }


def torch_encoder_layer(ours: EncoderLayer) -> nn.TransformerEncoderLayer:
    theirs = nn.TransformerEncoderLayer(**_layer_arguments(ours))
    _fill_encoder_layer(theirs, ours)
    return theirs


def torch_decoder_layer(ours: DecoderLayer) -> nn.TransformerDecoderLayer:
    theirs = nn.TransformerDecoderLayer(**_layer_arguments(ours))
    _fill_decoder_layer(theirs, ours)
    return theirs


def torch_transformer(encoder: Encoder, decoder: Decoder) -> nn.Transformer:
    """Both stacks. Torch would always add a final norm; as in the paper, post-LN here has none, so it gets None."""
    arguments = _layer_arguments(encoder.layers[0])
    norms = (None, None)
    if arguments["norm_first"]:
        norms = tuple(nn.LayerNorm(arguments["d_model"], dtype=torch.float64) for _ in range(2))
        _copied(norms[0], encoder.final_norm)
        _copied(norms[1], decoder.final_norm)
    theirs = nn.Transformer(
        custom_encoder=nn.TransformerEncoder(
            nn.TransformerEncoderLayer(**arguments), len(encoder.layers), norms[0], enable_nested_tensor=False
        ),
        custom_decoder=nn.TransformerDecoder(
            nn.TransformerDecoderLayer(**arguments), len(decoder.layers), norms[1]
        ),
        **arguments,
    )
    for their_layer, our_layer in zip(theirs.encoder.layers, encoder.layers, strict=True):
        _fill_encoder_layer(their_layer, our_layer)
    for their_layer, our_layer in zip(theirs.decoder.layers, decoder.layers, strict=True):
        _fill_decoder_layer(their_layer, our_layer)
    return theirs


def ignored_keys(padding_mask: Tensor) -> Tensor:
    """Our [B, 1, 1, S], True = may attend, as torch's key_padding_mask [B, S], True = ignore."""
    return ~padding_mask[:, 0, 0]


def ignored_future(length: int) -> Tensor:
    """Torch's causal attn_mask [T, T], True = ignore."""
    return torch.ones(length, length, dtype=torch.bool).triu(1)
