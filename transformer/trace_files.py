"""A ``Trace`` as a file: versioned JSON with base64 arrays, written for any reader and checked when opened."""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
from pathlib import Path

import numpy as np

from transformer.checkpoints import LARGEST_SIZES
from transformer.config import TransformerConfig
from transformer.errors import InputError
from transformer.tracing import ATTENTION_KINDS, N_CANDIDATES, Trace, TraceStep

FORMAT, VERSION = "glassformer-trace", 1
MAX_FILE_BYTES = 20 * 1024 * 1024
MAX_TOKENS = LARGEST_SIZES["max_len"]  # a side

_TEXTS = ("task", "model", "text", "output_text", "device", "search", "weights_sha256")
_NUMBERS = ("log_prob", "milliseconds")
_TOKEN_LISTS = ("src_tokens", "src_pieces", "tgt_in_tokens")
_ID_LISTS = ("src_ids", "tgt_in_ids")


def trace_to_json(trace: Trace) -> str:
    """The JSON text of a trace. Weights are exact: float32, little-endian, base64."""
    names = (*_TEXTS, *_NUMBERS, *_TOKEN_LISTS, *_ID_LISTS, "finished", "n_forced", "config")
    return json.dumps(
        {
            "format": FORMAT,
            "version": VERSION,
            **{name: getattr(trace, name) for name in names},
            "steps": [
                {"token": step.token, "log_prob": step.log_prob, "candidates": step.candidates} for step in trace.steps
            ],
            "arrays": {
                kind: {
                    "dtype": "float32",
                    "shape": weights.shape,
                    "data": base64.b64encode(weights.astype("<f4").tobytes()).decode(),
                }
                for kind, weights in trace.patterns.items()
            },
        },
        ensure_ascii=False,
    )


def save_trace(trace: Trace, path: Path | str) -> None:
    """Write a trace file. Raises OSError when the place cannot be written."""
    unfinished = Path(f"{path}.unfinished")
    unfinished.write_text(trace_to_json(trace), encoding="utf-8")
    os.replace(unfinished, path)


def load_trace(path: Path | str) -> Trace:
    """The trace in a file. Raises InputError when it is too large or not a trace, OSError when it cannot be read."""
    size = Path(path).stat().st_size
    if size > MAX_FILE_BYTES:
        raise InputError("file_too_large", limit=MAX_FILE_BYTES // 2**20, size=math.ceil(size / 2**20))
    return trace_from_json(Path(path).read_bytes())


def trace_from_json(content: bytes | str) -> Trace:
    """The trace a JSON text holds. Raises InputError, with the reason, for anything but a well-formed one."""
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        raise _invalid("it is not JSON") from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise _invalid(f"it does not say that its format is {FORMAT}")
    if values.get("version") != VERSION:
        raise InputError("trace_version", version=repr(values.get("version"))[:20], expected=VERSION)
    texts = {name: _checked(values, name, str) for name in _TEXTS}
    numbers = {name: float(_checked(values, name, (int, float))) for name in _NUMBERS}
    lists = {
        name: tuple(_checked_items(values, name, str if name in _TOKEN_LISTS else int))
        for name in (*_TOKEN_LISTS, *_ID_LISTS)
    }
    config_values = _checked(values, "config", dict)
    try:
        config = TransformerConfig.from_dict(config_values)
    except (ValueError, TypeError) as error:
        raise _invalid(str(error)) from None
    for name, largest in LARGEST_SIZES.items():
        if getattr(config, name) > largest:
            raise _invalid(f"{name} is {getattr(config, name)}, at most {largest}")
    n_source, n_target = len(lists["src_ids"]), len(lists["tgt_in_ids"])
    for name, length in (("src_tokens", n_source), ("src_pieces", n_source), ("tgt_in_tokens", n_target)):
        if len(lists[name]) != length:
            raise _invalid(f"{name} has {len(lists[name])} tokens where there are {length} ids")
    for name, vocab_size in (("src_ids", config.src_vocab_size), ("tgt_in_ids", config.tgt_vocab_size)):
        if not lists[name] or not all(0 <= token_id < vocab_size for token_id in lists[name]):
            raise _invalid(f"{name} must hold ids from 0 to {vocab_size - 1}")
    steps = tuple(_step(step) for step in _checked_items(values, "steps", dict))
    if len(steps) != n_target:
        raise _invalid(f"there are {len(steps)} steps for {n_target} target tokens")
    n_forced = _checked(values, "n_forced", int) if "n_forced" in values else 0  # older files do not say
    if not 0 <= n_forced <= n_target:
        raise _invalid(f"n_forced is {n_forced}, there are {n_target} target tokens")
    lengths = {
        "encoder_self": (n_source, n_source), "decoder_self": (n_target, n_target), "cross": (n_target, n_source)
    }
    arrays = _checked(values, "arrays", dict)
    patterns = {}
    for kind, (stack, _) in ATTENTION_KINDS.items():
        n_layers = config.n_encoder_layers if stack == "encoder" else config.n_decoder_layers
        patterns[kind] = _pattern(arrays, kind, (n_layers, config.n_heads, *lengths[kind]))
    return Trace(
        **texts, **numbers, **lists, steps=steps, config=config.to_dict(), patterns=patterns,
        finished=_checked(values, "finished", bool), n_forced=n_forced,
    )


def _invalid(reason: str) -> InputError:
    return InputError("trace_invalid", reason=reason)


def _checked(values: dict, name: str, kind: type | tuple[type, ...]) -> object:
    value = values.get(name)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _invalid(f"{name} is missing or of the wrong kind")
    if isinstance(value, (int, float)) and not math.isfinite(value):
        raise _invalid(f"{name} is not a finite number")
    return value


def _checked_items(values: dict, name: str, kind: type) -> list:
    items = _checked(values, name, list)
    if len(items) > MAX_TOKENS or not all(isinstance(item, kind) and not isinstance(item, bool) for item in items):
        raise _invalid(f"{name} must be a list of at most {MAX_TOKENS} entries of one kind")
    return items


def _step(values: dict) -> TraceStep:
    candidates = []
    for candidate in _checked_items(values, "candidates", list)[:N_CANDIDATES]:
        if len(candidate) != 2 or not isinstance(candidate[0], str) or not _is_probability(candidate[1]):
            raise _invalid("a candidate must be a token and a probability from 0 to 1")
        candidates.append((candidate[0], float(candidate[1])))
    token, log_prob = _checked(values, "token", str), _checked(values, "log_prob", (int, float))
    return TraceStep(token, float(log_prob), tuple(candidates))


def _is_probability(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1.000001


def _pattern(arrays: dict, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    array = _checked(arrays, kind, dict)
    if array.get("dtype") != "float32" or array.get("shape") != list(shape):
        raise _invalid(f"{kind} should be float32 of shape {list(shape)}")
    try:
        data = base64.b64decode(_checked(array, "data", str), validate=True)
    except binascii.Error:
        raise _invalid(f"{kind} is not base64") from None
    if len(data) != 4 * math.prod(shape):
        raise _invalid(f"{kind} has {len(data)} bytes, its shape asks for {4 * math.prod(shape)}")
    weights = np.frombuffer(data, dtype="<f4").reshape(shape).astype(np.float32)
    if not (np.isfinite(weights).all() and weights.min() >= 0 and weights.max() <= 1.00001):
        raise _invalid(f"{kind} holds something other than weights from 0 to 1")
    return weights
