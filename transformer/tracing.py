"""Turn a text into a ``Trace``: one decoded run with every pattern of the three attentions, as plain numpy.

A trace is the only thing that crosses from the network to the page. It is saved as versioned JSON
(``trace_files.py``). Any other value of the run is recomputed from it on request by ``record_values``.

Shape legend: S source length, T steps (one written token each), L layers, H heads.
"""

from __future__ import annotations

import time
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from transformer.checkpoints import Checkpoint
from transformer.conditions import USUAL, Conditions
from transformer.decoding import NextLogits, forced, write
from transformer.errors import InputError
from transformer.hooks import record
from transformer.masks import Masks
from transformer.search import GREEDY, Search

MAX_TEXT_LENGTH = 256  # characters
N_CANDIDATES = 10

# The three attentions and where each lives in the network.
ATTENTION_KINDS = {
    "encoder_self": ("encoder", "self_attn"),
    "decoder_self": ("decoder", "self_attn"),
    "cross": ("decoder", "cross_attn"),
}


def address(kind: str, layer: int, hook: str = "hook_pattern") -> str:
    """Where a value of one attention lives, e.g. ``decoder.layers.0.cross_attn.hook_pattern``. Layers count from 0."""
    stack, attention = ATTENTION_KINDS[kind]
    return f"{stack}.layers.{layer}.{attention}.{hook}"


@dataclass(frozen=True)
class TraceStep:
    """One written token, its natural log-probability, and the candidates (token, probability), best first."""

    token: str
    log_prob: float
    candidates: tuple[tuple[str, float], ...]


@dataclass(frozen=True, eq=False)
class Trace:
    """One decoded run.

    Rows of a decoder pattern are what was fed (``tgt_in_tokens``: ``<bos>``, then each written token but the
    last); the token written at step t, ``steps[t].token``, is predicted from row t.
    """

    task: str
    model: str  # the name a person knows the weights by
    config: dict  # TransformerConfig.to_dict()
    text: str  # as typed
    src_ids: tuple[int, ...]
    src_tokens: tuple[str, ...]  # [S]
    src_pieces: tuple[str, ...]  # [S] what was typed for each token; differs where the token is <unk>
    tgt_in_ids: tuple[int, ...]
    tgt_in_tokens: tuple[str, ...]  # [T]
    steps: tuple[TraceStep, ...]  # [T]
    output_text: str
    finished: bool  # False: the length cap came before <eos>
    log_prob: float
    device: str
    milliseconds: float
    patterns: dict[str, np.ndarray] = field(repr=False)  # kind -> float32 [L, H, T or S, T or S]
    search: str = "greedy"  # which search chose the tokens
    n_forced: int = 0  # how many of them, from the first on, were given as a prefix and not chosen
    weights_sha256: str = ""  # which weights file the run came from; empty for weights that were never saved
    id: str = field(default_factory=lambda: uuid4().hex)  # tells runs apart within the page

    def query_tokens(self, kind: str) -> tuple[str, ...]:
        """The tokens that ask: the rows of a pattern of this kind."""
        return self.src_tokens if kind == "encoder_self" else self.tgt_in_tokens

    def key_tokens(self, kind: str) -> tuple[str, ...]:
        """The tokens that are asked: the columns of a pattern of this kind."""
        return self.tgt_in_tokens if kind == "decoder_self" else self.src_tokens


def encode_source(checkpoint: Checkpoint, text: str, n_padding: int = 0) -> tuple[tuple, tuple, tuple]:
    """Ids, tokens and typed pieces of ``text``, with ``n_padding`` pads after it.

    Raises InputError when the text is empty or too long, saying the limit and what it got.
    """
    if len(text) > MAX_TEXT_LENGTH:
        raise InputError("text_too_long", limit=MAX_TEXT_LENGTH, length=len(text))
    tokenizer = checkpoint.src_tokenizer
    encoded = tokenizer.encode(text)
    if not encoded.ids:
        raise InputError("text_empty")
    max_len = checkpoint.model.config.max_len
    ids = (*encoded.ids, tokenizer.eos_id, *[tokenizer.pad_id] * n_padding)
    if len(ids) > max_len:
        raise InputError("tokens_too_many", limit=max_len - 1 - n_padding, length=len(encoded.ids))
    extra = tokenizer.tokens(ids[len(encoded.ids) :])
    return ids, (*encoded.tokens, *extra), (*encoded.pieces, *extra)


def trace_text(
    checkpoint: Checkpoint,
    text: str,
    *,
    search: Search = GREEDY,
    prefix: Sequence[int] = (),
    device: str = "cpu",
    n_padding: int = 0,
    max_steps: int | None = None,
    conditions: Conditions = USUAL,
) -> Trace:
    """Decode ``text`` with everything on the way recorded, one step at a time.

    ``prefix`` is written first, whatever the model thinks of it, and the search goes on from there (a beam search
    does not: after a prefix it is greedy, and the trace says so). ``max_steps`` caps the written tokens (default,
    and at most: the positions the model has). Under other ``conditions`` (``faults.py``, ``surgery.py``) the trace is
    one like any other; where they allow no cache, its patterns are those of the last step's pass over the whole
    target. Raises InputError for a text the model cannot read.
    """
    ids, tokens, pieces = encode_source(checkpoint, text, n_padding)
    model = checkpoint.model_on(device)
    config, tgt_tokenizer = model.config, checkpoint.tgt_tokenizer
    addresses = {
        kind: [address(kind, layer) for layer in range(n_layers)]
        for kind, n_layers in (
            ("encoder_self", config.n_encoder_layers),
            ("decoder_self", config.n_decoder_layers),
            ("cross", config.n_decoder_layers),
        )
    }
    started = time.perf_counter()
    with torch.inference_mode(), conditions.changing(model):
        src = torch.tensor([ids], device=device)
        with record(set(addresses["encoder_self"])) as encoder_acts:
            next_logits = conditions.next_logits(model, src)
        limits = {
            **conditions.limits(tgt_tokenizer.eos_id),
            "max_steps": min(max_steps or config.max_len, config.max_len),
            "device": device,
        }
        method, path = search.method, prefix
        if search.method == "beam" and prefix:
            method = "greedy"
        elif search.method == "beam":
            (best,) = search.write(model, src, conditions, **limits)
            path = best.token_ids
        decoder_acts: list[dict[str, Tensor]] = []
        (decoded,) = write(
            _recording(next_logits, {*addresses["decoder_self"], *addresses["cross"]}, decoder_acts),
            forced(path, search.choice()),
            batch_size=1,
            n_candidates=N_CANDIDATES,
            **limits,
        )
        n_steps = len(decoded.steps)
        # A cached step adds a row to each pattern; a pass over the whole target makes all rows anew.
        row_acts = decoder_acts[:n_steps] if conditions.cached else decoder_acts[n_steps - 1 : n_steps]
        patterns = {
            "encoder_self": _stack([encoder_acts[name] for name in addresses["encoder_self"]]),
            **{
                kind: np.stack([_join_rows([acts[name] for acts in row_acts]) for name in addresses[kind]])
                for kind in ("decoder_self", "cross")
            },
        }
    milliseconds = (time.perf_counter() - started) * 1000
    tgt_in_ids = (conditions.first_id, *decoded.token_ids[:-1])
    # Of a run that does not stop at <eos>, all that it wrote is the output.
    output_ids = [i for i in decoded.token_ids if conditions.stops or i != tgt_tokenizer.eos_id]
    return Trace(
        task=checkpoint.task,
        model=checkpoint.name,
        config=config.to_dict(),
        text=text,
        src_ids=ids,
        src_tokens=tokens,
        src_pieces=pieces,
        tgt_in_ids=tgt_in_ids,
        tgt_in_tokens=tgt_tokenizer.tokens(tgt_in_ids),
        steps=tuple(
            TraceStep(
                tgt_tokenizer.vocabulary[step.token_id],
                step.log_prob,
                tuple((tgt_tokenizer.vocabulary[c.token_id], c.probability) for c in step.candidates),
            )
            for step in decoded.steps
        ),
        output_text=tgt_tokenizer.decode(output_ids),
        finished=decoded.finished,
        log_prob=decoded.log_prob,
        device=device,
        milliseconds=milliseconds,
        patterns=patterns,
        search=method,
        n_forced=min(len(prefix), n_steps),
        weights_sha256=checkpoint.meta.get("sha256", ""),
    )


def written_ids(checkpoint: Checkpoint, trace: Trace) -> list[int]:
    """The id written at each step [T]: what was fed next, and the last one, which never was."""
    last_id = checkpoint.tgt_tokenizer.vocabulary.index(trace.steps[-1].token)
    return [*trace.tgt_in_ids[1 : len(trace.steps)], last_id]


def record_values(
    checkpoint: Checkpoint,
    trace: Trace,
    names: Container[str] | None = None,
    masks: Masks | None = None,
    conditions: Conditions = USUAL,
) -> dict[str, np.ndarray]:
    """Any named values of the run (``None``: all of them), by one full forward pass over the same tokens.

    The batch axis is dropped: [1, H, T, S] -> [H, T, S]. ``masks`` replace those of the ``conditions``,
    True = may attend.
    """
    model = checkpoint.model_on("cpu")
    src, tgt_in = torch.tensor([trace.src_ids]), torch.tensor([trace.tgt_in_ids])
    with torch.inference_mode(), conditions.changing(model), record(names) as acts:
        model(src, tgt_in, masks or conditions.masks(src, tgt_in, model.config.pad_id))
    return {name: (value[0] if value.dim() > 2 else value).numpy() for name, value in acts.items()}


def _recording(next_logits: NextLogits, names: set[str], rows: list[dict[str, Tensor]]) -> NextLogits:
    """``next_logits`` that also puts what ``names`` held in this step at the end of ``rows``."""

    def recorded(last_ids: Tensor) -> Tensor:
        with record(names) as acts:
            logits = next_logits(last_ids)
        rows.append(acts)
        return logits

    return recorded


def _stack(patterns: list[Tensor]) -> np.ndarray:
    """One [1, H, T, S] a layer -> [L, H, T, S]"""
    return torch.cat(patterns).float().cpu().numpy()


def _join_rows(rows: list[Tensor]) -> np.ndarray:
    """One [1, H, 1, n] a step, or one of all steps, -> [H, T, n]. Short rows are filled up: the future has weight 0."""
    joined = rows[0][0] if len(rows) == 1 else pad_sequence([row[0, :, 0].T for row in rows]).permute(2, 1, 0)
    return joined.float().cpu().numpy()
