"""Our network's very weights in other people's programs, to be measured against: the same function, so the same tokens.

Marian of Hugging Face's transformers and CTranslate2 both have the network of the paper, post-LN. Both lay sines and
cosines out another way than the paper (all sines first); ours are written over them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import ctranslate2
import numpy as np
import torch
from ctranslate2.converters import utils
from ctranslate2.specs import common_spec, transformer_spec
from torch import nn
from transformers import MarianConfig, MarianMTModel

from transformer.checkpoints import Checkpoint
from transformer.model import Attention, LayerNorm, Transformer
from transformer.tokenizers import BOS, EOS, UNK

# What decodes ids [S] of one source into so many ids, <eos> never coming.
Decoder = Callable[[Sequence[int], int], tuple[int, ...]]


def _linear(theirs: nn.Linear, ours: nn.Linear) -> None:
    theirs.load_state_dict(ours.state_dict())


def _attention(theirs: nn.Module, ours: Attention) -> None:
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        _linear(getattr(theirs, name), getattr(ours, name))


@torch.no_grad()
def marian(ours: Transformer, attention: str = "sdpa") -> MarianMTModel:
    """``ours``, which must be post-LN, as a MarianMTModel with equal logits.

    ``attention`` is which of its attentions it uses: "eager" is the only one that can return its weights.
    """
    config = ours.config
    if config.norm_first:
        raise ValueError("Marian is post-LN")
    theirs = MarianMTModel(
        MarianConfig(
            vocab_size=config.src_vocab_size,
            decoder_vocab_size=config.tgt_vocab_size,
            d_model=config.d_model,
            encoder_layers=config.n_encoder_layers,
            decoder_layers=config.n_decoder_layers,
            encoder_attention_heads=config.n_heads,
            decoder_attention_heads=config.n_heads,
            encoder_ffn_dim=config.d_ff,
            decoder_ffn_dim=config.d_ff,
            max_position_embeddings=config.max_len,
            activation_function="relu",
            dropout=0.0,
            scale_embedding=True,
            share_encoder_decoder_embeddings=False,
            tie_word_embeddings=False,
            pad_token_id=config.pad_id,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
            forced_eos_token_id=None,
            attn_implementation=attention,
        )
    ).eval()
    for their_stack, our_stack, embedding in (
        (theirs.model.encoder, ours.encoder, ours.src_embedding),
        (theirs.model.decoder, ours.decoder, ours.tgt_embedding),
    ):
        their_stack.embed_tokens.weight.copy_(embedding.tokens.weight)
        their_stack.embed_positions.weight.copy_(embedding.positions)
        for their_layer, our_layer in zip(their_stack.layers, our_stack.layers, strict=True):
            _attention(their_layer.self_attn, our_layer.self_attn)
            _linear(their_layer.self_attn_layer_norm, our_layer.attn_norm)
            if our_stack is ours.decoder:
                _attention(their_layer.encoder_attn, our_layer.cross_attn)
                _linear(their_layer.encoder_attn_layer_norm, our_layer.cross_norm)
            _linear(their_layer.fc1, our_layer.feed_forward.up_proj)
            _linear(their_layer.fc2, our_layer.feed_forward.down_proj)
            _linear(their_layer.final_layer_norm, our_layer.mlp_norm)
    theirs.lm_head.weight.copy_(ours.unembed.weight)
    return theirs


def marian_decoder(theirs: MarianMTModel, captured: bool) -> Decoder:
    """Greedy ``generate``; ``captured`` asks for all attention weights and the scores of every step."""
    wanted = {"output_attentions": True, "output_scores": True, "return_dict_in_generate": True} if captured else {}

    @torch.inference_mode()
    def decode(source: Sequence[int], n_steps: int) -> tuple[int, ...]:
        ids = torch.tensor([source])
        answer = theirs.generate(
            ids, attention_mask=torch.ones_like(ids), num_beams=1, do_sample=False, max_new_tokens=n_steps,
            **wanted,
        )
        if not captured:
            return tuple(answer[0, 1:].tolist())
        shape = answer.cross_attentions[-1][-1].shape
        if len(answer.scores) != n_steps or shape[-1] != len(source):
            raise ValueError(f"expected the attention of {n_steps} steps over {len(source)} tokens, got {shape}")
        return tuple(answer.sequences[0, 1:].tolist())

    return decode


def _ct2_linear(spec: common_spec.LinearSpec, ours: nn.Linear) -> None:
    spec.weight = ours.weight.detach().numpy()
    if ours.bias is not None:
        spec.bias = ours.bias.detach().numpy()


def _ct2_norm(spec: common_spec.LayerNormSpec, ours: LayerNorm) -> None:
    spec.gamma, spec.beta = ours.weight.detach().numpy(), ours.bias.detach().numpy()


def _ct2_attention(spec: object, ours: Attention, norm: LayerNorm, is_cross: bool) -> None:
    parts = [common_spec.LinearSpec() for _ in range(3)]
    for part, projection in zip(parts, (ours.q_proj, ours.k_proj, ours.v_proj), strict=True):
        _ct2_linear(part, projection)
    if is_cross:
        utils.fuse_linear(spec.linear[0], parts[:1])
        utils.fuse_linear(spec.linear[1], parts[1:])
    else:
        utils.fuse_linear(spec.linear[0], parts)
    _ct2_linear(spec.linear[-1], ours.out_proj)
    _ct2_norm(spec.layer_norm, norm)


def ctranslate2_decoder(checkpoint: Checkpoint) -> Decoder:
    """Greedy decoding by CTranslate2 in float32 on one thread, from weights written to a folder for a moment."""
    ours, config = checkpoint.model, checkpoint.model.config
    spec = transformer_spec.TransformerSpec.from_config(
        (config.n_encoder_layers, config.n_decoder_layers), config.n_heads, pre_norm=config.norm_first
    )
    for part, embedding, stack in (
        (spec.encoder, ours.src_embedding, ours.encoder), (spec.decoder, ours.tgt_embedding, ours.decoder)
    ):
        part.scale_embeddings = np.float32(embedding.scale)
        tokens = part.embeddings[0] if isinstance(part.embeddings, list) else part.embeddings
        tokens.weight = embedding.tokens.weight.detach().numpy()
        part.position_encodings.encodings = embedding.positions.detach().numpy()
        for layer_spec, layer in zip(part.layer, stack.layers, strict=True):
            _ct2_attention(layer_spec.self_attention, layer.self_attn, layer.attn_norm, False)
            if stack is ours.decoder:
                _ct2_attention(layer_spec.attention, layer.cross_attn, layer.cross_norm, True)
            _ct2_linear(layer_spec.ffn.linear_0, layer.feed_forward.up_proj)
            _ct2_linear(layer_spec.ffn.linear_1, layer.feed_forward.down_proj)
            _ct2_norm(layer_spec.ffn.layer_norm, layer.mlp_norm)
    _ct2_linear(spec.decoder.projection, ours.unembed)
    source, target = checkpoint.src_tokenizer.vocabulary, checkpoint.tgt_tokenizer.vocabulary
    spec.register_source_vocabulary(list(source))
    spec.register_target_vocabulary(list(target))
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = BOS, EOS, UNK
    spec.config.decoder_start_token = BOS
    with tempfile.TemporaryDirectory() as folder:
        spec.validate()
        spec.optimize(quantization="float32")
        path = Path(folder) / "model"
        path.mkdir()
        spec.save(str(path))
        translator = ctranslate2.Translator(
            str(path), device="cpu", inter_threads=1, intra_threads=1, compute_type="float32"
        )

    def decode(source_ids: Sequence[int], n_steps: int) -> tuple[int, ...]:
        (answer,) = translator.translate_batch(
            [[source[token_id] for token_id in source_ids]], beam_size=1, max_decoding_length=n_steps
        )
        return tuple(checkpoint.tgt_tokenizer.encode(" ".join(answer.hypotheses[0])).ids)

    return decode
