"""The same network, and the same training of it, with ``torch.nn.Transformer`` in the place of our layers."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from transformer.config import TransformerConfig
from transformer.model import Attention, Transformer, sinusoidal_encoding


class TorchTransformer(nn.Module):
    """Embeddings, positions and output head around ``torch.nn.Transformer``, sizes and choices those of ``config``."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.src_tokens = nn.Embedding(config.src_vocab_size, config.d_model)
        self.tgt_tokens = nn.Embedding(config.tgt_vocab_size, config.d_model)
        self.register_buffer("positions", sinusoidal_encoding(config.max_len, config.d_model))
        self.dropout = nn.Dropout(config.dropout)
        sizes = {
            "d_model": config.d_model, "nhead": config.n_heads, "dim_feedforward": config.d_ff,
            "dropout": config.dropout, "batch_first": True, "norm_first": config.norm_first,
        }
        # As nn.Transformer makes its stacks, but for the nested tensors that it warns it would not use in them, and
        # without the last norm of post-LN, which the paper does not have.
        norms = [nn.LayerNorm(config.d_model) if config.norm_first else None for _ in range(2)]
        self.layers = nn.Transformer(
            custom_encoder=nn.TransformerEncoder(
                nn.TransformerEncoderLayer(**sizes), config.n_encoder_layers, norms[0], enable_nested_tensor=False
            ),
            custom_decoder=nn.TransformerDecoder(
                nn.TransformerDecoderLayer(**sizes), config.n_decoder_layers, norms[1]
            ),
            **sizes,
        )
        self.unembed = nn.Linear(config.d_model, config.tgt_vocab_size, bias=False)
        if config.tie_output:
            self.unembed.weight = self.tgt_tokens.weight

    def embed(self, tokens: nn.Embedding, ids: Tensor) -> Tensor:
        """[B, T] -> [B, T, D]"""
        return self.dropout(tokens(ids) * math.sqrt(self.config.d_model) + self.positions[: ids.shape[1]])

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """``src`` [B, S], ``tgt_in`` [B, T] -> logits [B, T, V], under the usual masks (here True = ignore)."""
        src_ignored, tgt_ignored = src == self.config.pad_id, tgt_in == self.config.pad_id
        future = torch.ones(tgt_in.shape[1], tgt_in.shape[1], dtype=torch.bool, device=src.device).triu(1)
        decoded = self.layers(
            self.embed(self.src_tokens, src), self.embed(self.tgt_tokens, tgt_in), tgt_mask=future,
            src_key_padding_mask=src_ignored, tgt_key_padding_mask=tgt_ignored, memory_key_padding_mask=src_ignored,
        )
        return self.unembed(decoded)

    @torch.no_grad()
    def copy_weights(self, ours: Transformer) -> TorchTransformer:
        """Take over the weights of ``ours``, and return self."""
        self.src_tokens.weight.copy_(ours.src_embedding.tokens.weight)
        self.tgt_tokens.weight.copy_(ours.tgt_embedding.tokens.weight)
        self.unembed.weight.copy_(ours.unembed.weight)
        for their_stack, our_stack in ((self.layers.encoder, ours.encoder), (self.layers.decoder, ours.decoder)):
            for theirs, mine in zip(their_stack.layers, our_stack.layers, strict=True):
                _copy_attention(theirs.self_attn, mine.self_attn)
                norms = [mine.attn_norm, mine.mlp_norm]
                if our_stack is ours.decoder:
                    _copy_attention(theirs.multihead_attn, mine.cross_attn)
                    norms.insert(1, mine.cross_norm)
                for number, norm in enumerate(norms, start=1):
                    getattr(theirs, f"norm{number}").load_state_dict(norm.state_dict())
                theirs.linear1.load_state_dict(mine.feed_forward.up_proj.state_dict())
                theirs.linear2.load_state_dict(mine.feed_forward.down_proj.state_dict())
            if self.config.norm_first:
                their_stack.norm.load_state_dict(our_stack.final_norm.state_dict())
        return self


def _copy_attention(theirs: nn.MultiheadAttention, ours: Attention) -> None:
    projections = (ours.q_proj, ours.k_proj, ours.v_proj)
    theirs.in_proj_weight.copy_(torch.cat([projection.weight for projection in projections]))
    theirs.in_proj_bias.copy_(torch.cat([projection.bias for projection in projections]))
    theirs.out_proj.load_state_dict(ours.out_proj.state_dict())
