"""The whole network once more, written out plainly in numpy for one sequence, from the weights alone.

Loops in the place of batches, no mask (a query is handed only what it may see), no cache, no hook points, float64
throughout: slow, and simple enough to be believed. ``model.py`` has to give the same numbers.

Shape legend: S source length, T target length, D d_model, K d_head, V vocabulary.
"""

from __future__ import annotations

import math

import numpy as np

from transformer.model import Transformer

LAYER_NORM_EPS = 1e-5
Weights = dict[str, np.ndarray]


def reference_logits(model: Transformer, src_ids: list[int], tgt_in_ids: list[int]) -> np.ndarray:
    """Logits [T, V] of every next target token, for a source [S] without padding and what was written before."""
    weights = {name: value.double().cpu().numpy() for name, value in model.state_dict().items()}
    config = model.config
    memory = _embedded(weights, "src_embedding", src_ids, config)  # [S, D]
    for i in range(config.n_encoder_layers):
        memory = _layer(weights, f"encoder.layers.{i}", memory, None, config)
    target = _embedded(weights, "tgt_embedding", tgt_in_ids, config)  # [T, D]
    if config.norm_first:
        memory = _norm(weights, "encoder.final_norm", memory)
    for i in range(config.n_decoder_layers):
        target = _layer(weights, f"decoder.layers.{i}", target, memory, config)
    if config.norm_first:
        target = _norm(weights, "decoder.final_norm", target)
    return target @ weights["unembed.weight"].T


def position_table(model: Transformer, side: str, length: int) -> np.ndarray:
    """Positions 0 to ``length`` - 1 of ``src_embedding`` or ``tgt_embedding`` by the formula (or as learnt): [T, D].

    The network keeps its sines in float32, so they are rounded to it here.
    """
    if model.config.positional_encoding == "learned":
        return model.state_dict()[f"{side}.positions"][:length].double().cpu().numpy()
    return _sines(length, model.config)


def _embedded(weights: Weights, side: str, ids: list[int], config: object) -> np.ndarray:
    tokens = weights[f"{side}.tokens.weight"][ids] * math.sqrt(config.d_model)
    if config.positional_encoding == "learned":
        return tokens + weights[f"{side}.positions"][: len(ids)]
    return tokens + _sines(len(ids), config)


def _sines(length: int, config: object) -> np.ndarray:
    if config.positional_encoding == "none":
        return np.zeros((length, config.d_model))
    position, dim = np.meshgrid(np.arange(length), np.arange(config.d_model), indexing="ij")
    angle = position / 10000.0 ** ((dim - dim % 2) / config.d_model)
    return np.where(dim % 2 == 0, np.sin(angle), np.cos(angle)).astype(np.float32).astype(np.float64)


def _layer(weights: Weights, name: str, x: np.ndarray, memory: np.ndarray | None, config: object) -> np.ndarray:
    """One layer of the encoder (without ``memory``) or of the decoder."""
    is_causal = memory is not None
    parts = [("attn_norm", lambda y: _attention(weights, f"{name}.self_attn", y, y, is_causal, config))]
    if memory is not None:
        parts.append(("cross_norm", lambda y: _attention(weights, f"{name}.cross_attn", y, memory, False, config)))
    parts.append(("mlp_norm", lambda y: _feed_forward(weights, f"{name}.feed_forward", y)))
    for norm, write in parts:
        if config.norm_first:
            x = x + write(_norm(weights, f"{name}.{norm}", x))
        else:
            x = _norm(weights, f"{name}.{norm}", x + write(x))
    return x


def _attention(
    weights: Weights, name: str, x: np.ndarray, context: np.ndarray, is_causal: bool, config: object
) -> np.ndarray:
    """Head by head and query by query: softmax(q K^T / sqrt(d_head)) V, over the keys that the query may see."""
    q, k, v = (_linear(weights, f"{name}.{part}", of) for part, of in (("q_proj", x), ("k_proj", context),
                                                                      ("v_proj", context)))
    joined = np.zeros_like(q)
    d_head = config.d_model // config.n_heads
    for head in range(config.n_heads):
        columns = slice(head * d_head, (head + 1) * d_head)
        for query in range(len(x)):
            seen = slice(0, query + 1 if is_causal else len(context))
            scores = k[seen, columns] @ q[query, columns] / math.sqrt(d_head)
            numerators = np.exp(scores - scores.max())
            joined[query, columns] = numerators / numerators.sum() @ v[seen, columns]
    return _linear(weights, f"{name}.out_proj", joined)


def _feed_forward(weights: Weights, name: str, x: np.ndarray) -> np.ndarray:
    return _linear(weights, f"{name}.down_proj", np.maximum(0, _linear(weights, f"{name}.up_proj", x)))


def _linear(weights: Weights, name: str, x: np.ndarray) -> np.ndarray:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _norm(weights: Weights, name: str, x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + LAYER_NORM_EPS) * weights[f"{name}.weight"] + weights[f"{name}.bias"]
