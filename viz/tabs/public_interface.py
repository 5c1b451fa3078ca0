"""The endpoints for programs: decode, attention and evaluate with the shipped models. They know no visitor.

All other endpoints serve the page itself and change without notice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import gradio as gr

from transformer.checkpoints import shipped_checkpoint
from transformer.errors import InputError
from transformer.evaluation import write_all
from transformer.reports import evaluation_report, run_report
from transformer.tasks import task as find_task
from transformer.tracing import ATTENTION_KINDS, trace_text
from viz.tabs.action_log import note

Answer = TypeVar("Answer")
MOST_EVALUATED = 200  # sequences a call; all of them take about a second


def decode(task: str, text: str) -> dict:
    """Decode a text with the shipped model of a task ("copy", "en-zh" ...): tokens, log-probabilities, output."""
    return run_report(_answer(lambda: trace_text(shipped_checkpoint(_word(task)), _word(text))))


def attention(task: str, text: str, kind: str, layer: int, head: int) -> dict:
    """The attention weights of one head (layer and head count from 1) while a text is decoded.

    ``kind`` is encoder_self, decoder_self or cross; ``weights`` has a row for each query token.
    """
    trace = _answer(lambda: trace_text(shipped_checkpoint(_word(task)), _word(text)))
    if not isinstance(kind, str) or kind not in ATTENTION_KINDS:
        raise gr.Error(f"kind must be one of {', '.join(ATTENTION_KINDS)}, got {kind!r}", print_exception=False)
    n_layers, n_heads = trace.patterns[kind].shape[:2]
    for name, number, most in (("layer", layer, n_layers), ("head", head, n_heads)):
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= most:
            raise gr.Error(f"{name} must be a whole number from 1 to {most}, got {number!r}", print_exception=False)
    return {
        "kind": kind,
        "layer": layer,
        "head": head,
        "query_tokens": list(trace.query_tokens(kind)),
        "key_tokens": list(trace.key_tokens(kind)),
        "weights": trace.patterns[kind][layer - 1, head - 1].tolist(),
    }


def evaluate(task: str, n: int) -> dict:
    """How good a shipped model is on n unseen pairs (1 to 200): exact match, for translations also BLEU and chrF."""
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MOST_EVALUATED:
        raise gr.Error(f"n must be a whole number from 1 to {MOST_EVALUATED}, got {n!r}", print_exception=False)
    checkpoint = _answer(lambda: shipped_checkpoint(_word(task)))
    of_task = _answer(lambda: find_task(task).with_pairs(None))
    of_task = of_task.with_vocabularies(checkpoint.src_tokenizer, checkpoint.tgt_tokenizer)
    started = time.perf_counter()
    results = write_all(checkpoint.model, of_task, of_task.pairs("test", n, seed=0))
    return evaluation_report(of_task, results, "cpu", time.perf_counter() - started)


def build_public_interface(concurrency_id: str) -> None:
    """Offer the three endpoints by name, in the lane of everything that computes."""
    for endpoint in (decode, attention, evaluate):
        gr.api(endpoint, api_name=endpoint.__name__, concurrency_id=concurrency_id, concurrency_limit=1)


def _word(value: object) -> str:
    if not isinstance(value, str):
        raise gr.Error(f"a text was expected, got {type(value).__name__}", print_exception=False)
    return value


def _answer(compute: Callable[[], Answer]) -> Answer:
    """What ``compute`` gives, or a sentence for the caller when the input cannot be used."""
    try:
        return compute()
    except InputError as error:
        note(outcome="refused", code=error.code)
        raise gr.Error(str(error), print_exception=False) from None
