"""What the command line prints and the public endpoints answer: plain dicts, ready for JSON."""

from __future__ import annotations

from collections.abc import Sequence

from transformer.evaluation import exact_match_by_length
from transformer.metrics import Written
from transformer.tasks.base import Task
from transformer.tracing import Trace


def run_report(trace: Trace) -> dict:
    """One decoded text. The log-probabilities (natural) of ``tgt_tokens`` add up to ``log_prob``."""
    return {
        "task": trace.task,
        "text": trace.output_text,
        "src_tokens": list(trace.src_tokens),
        "tgt_tokens": [step.token for step in trace.steps],
        "finished": trace.finished,
        "log_prob": trace.log_prob,
        "log_probs": [step.log_prob for step in trace.steps],
        "search": trace.search,
        "device": trace.device,
        "milliseconds": round(trace.milliseconds, 3),
    }


def evaluation_report(
    task: Task, results: Sequence[Written], device: str, seconds: float, split: str = "test"
) -> dict:
    """How good the results on unseen pairs are: every score, and exact matches by length of the source in tokens."""
    scores = task.scores(results)
    return {
        "task": task.name,
        "metric": task.metric,
        "value": scores[task.metric],
        "scores": scores,
        "n": len(results),
        "split": split,
        "by_length": {
            str(length): {"value": value, "n": n} for length, (value, n) in exact_match_by_length(task, results).items()
        },
        "device": device,
        "seconds": round(seconds, 3),
    }
