"""How well a model translates somebody's own pairs: BLEU, chrF and exact match, within a bounded time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from transformer.checkpoints import Checkpoint
from transformer.evaluation import write_all
from transformer.metrics import Written, exact_match, sentence_chrf, translation_scores
from transformer.tasks import TASKS
from transformer.tasks.base import Pair, Task

PAIRS_AT_ONCE = 25  # between two looks at the clock


@dataclass(frozen=True)
class PairScores:
    """What the model wrote for each pair, and how good that is."""

    results: tuple[Written, ...]
    chrf_of_each: tuple[float, ...]  # 0 to 100
    bleu: float  # 0 to 100
    chrf: float  # 0 to 100
    exact_match: float  # 0 to 1
    tokenizer: str  # how BLEU cut the texts, by sacrebleu's name
    n_unreadable: int  # pairs whose source has no tokens, or more than the model has positions for
    n_not_reached: int  # pairs that there was no time for
    seconds: float


def task_of(checkpoint: Checkpoint) -> Task:
    """The task that a model's pairs are encoded and judged by; one not known here is taken for a translation."""
    of_task = TASKS.get(checkpoint.task, TASKS["en-de"])
    return of_task.with_vocabularies(checkpoint.src_tokenizer, checkpoint.tgt_tokenizer)


def bleu_tokenizer(of_task: Task) -> str:
    """sacrebleu's name for how BLEU cuts texts of a task: "zh" for Chinese, "13a" for all else."""
    return getattr(of_task, "sacrebleu_tokenizer", "13a")


def score_pairs(
    checkpoint: Checkpoint, pairs: Sequence[Pair], *, device: str = "cpu", seconds: float = 8.0
) -> PairScores | None:
    """Let the model write, greedily, the target of each pair, in their order, until the time is up; then compare.

    The first PAIRS_AT_ONCE pairs are always written. None when the model can read no source of them.
    """
    of_task = task_of(checkpoint)
    model = checkpoint.model_on(device)
    most = model.config.max_len - 1  # <eos> comes after the source
    readable = [pair for pair in pairs if 1 <= len(of_task.src_tokenizer.encode(pair[0]).ids) <= most]
    if not readable:
        return None
    started = time.perf_counter()
    results: list[Written] = []
    for start in range(0, len(readable), PAIRS_AT_ONCE):
        if results and time.perf_counter() - started > seconds:
            break
        results += write_all(model, of_task, readable[start : start + PAIRS_AT_ONCE], device)
    tokenizer = bleu_tokenizer(of_task)
    corpus = translation_scores(results, tokenizer)
    return PairScores(
        results=tuple(results),
        chrf_of_each=tuple(sentence_chrf(results)),
        bleu=corpus["bleu"],
        chrf=corpus["chrf"],
        exact_match=exact_match(results),
        tokenizer=tokenizer,
        n_unreadable=len(pairs) - len(readable),
        n_not_reached=len(readable) - len(results),
        seconds=time.perf_counter() - started,
    )
