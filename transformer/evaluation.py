"""How good a model is: it writes unseen sequences itself, token by token, and each is right as a whole or not at all.

Shape legend: B batch, S source length, T target length, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer.conditions import USUAL, Conditions
from transformer.decoding import Decoded
from transformer.metrics import Written, exact_match
from transformer.model import Transformer
from transformer.search import GREEDY, Search
from transformer.tasks.base import Pair, Task

BATCH_SIZE = 250  # sequences decoded at once


def sequence_loss(logits: Tensor, tgt_out: Tensor, pad_id: int, label_smoothing: float = 0.0) -> Tensor:
    """Mean cross-entropy over the real tokens of ``tgt_out`` [B, T]; padding counts for nothing.

    ``logits`` [B, T, V] -> [] (natural logarithm). Label smoothing (paper, section 5.4) takes this much
    probability from the right token and spreads it evenly over the vocabulary.
    """
    return F.cross_entropy(
        logits.flatten(0, 1), tgt_out.flatten(), ignore_index=pad_id, label_smoothing=label_smoothing
    )


def count_right(logits: Tensor, tgt_out: Tensor, pad_id: int) -> tuple[int, int]:
    """How many real tokens of ``tgt_out`` [B, T] the ``logits`` [B, T, V] rank first, and how many there are."""
    is_real = tgt_out != pad_id  # [B, T]
    is_right = (logits.argmax(dim=-1) == tgt_out) & is_real  # [B, T]
    return int(is_right.sum()), int(is_real.sum())


@torch.inference_mode()
def loss_and_accuracy(
    model: Transformer, task: Task, pairs: Sequence[Pair], device: str = "cpu", conditions: Conditions = USUAL
) -> tuple[float, float]:
    """Mean loss of a token, and the share of tokens that are right when the true ones before them are given."""
    pad_id = model.config.pad_id
    total_loss, total_right, total_tokens = 0.0, 0, 0
    for start in range(0, len(pairs), BATCH_SIZE):
        batch = task.encode(pairs[start : start + BATCH_SIZE]).to(device)
        with conditions.changing(model):
            logits = model(batch.src, batch.tgt_in, conditions.masks(batch.src, batch.tgt_in, pad_id))  # [B, T, V]
        right, tokens = count_right(logits, batch.tgt_out, pad_id)
        total_loss += float(sequence_loss(logits, batch.tgt_out, pad_id)) * tokens
        total_right += right
        total_tokens += tokens
    return total_loss / total_tokens, total_right / total_tokens


@torch.inference_mode()
def write_all(
    model: Transformer,
    task: Task,
    pairs: Sequence[Pair],
    device: str = "cpu",
    search: Search = GREEDY,
    conditions: Conditions = USUAL,
) -> list[Written]:
    """Let the model write the target of each pair, many at once, and compare.

    The targets are only compared with; how long the model may write is said by ``Task.most_steps``.
    """
    results: list[Written] = []
    for start in range(0, len(pairs), BATCH_SIZE):
        part = pairs[start : start + BATCH_SIZE]
        batch = task.encode(part).to(device)
        with conditions.changing(model):
            decoded = search.write(
                model,
                batch.src,
                conditions,
                max_steps=min(task.most_steps(batch), model.config.max_len),
                device=device,
                **conditions.limits(task.tgt_tokenizer.eos_id),
            )
        results += [_compare(task, pair, row) for pair, row in zip(part, decoded, strict=True)]
    return results


def _compare(task: Task, pair: Pair, decoded: Decoded) -> Written:
    tokenizer = task.tgt_tokenizer
    written = tokenizer.decode(decoded.token_ids)
    # Both texts are cut and joined in the same way, so that a space more or less in a file makes no difference.
    return Written(*pair, written, decoded.finished and written == tokenizer.join(tokenizer.split(pair[1])))


def exact_match_by_length(task: Task, results: Sequence[Written]) -> dict[int, tuple[float, int]]:
    """Length of the source in tokens -> (exact match, number of sequences), shortest first."""
    groups: dict[int, list[Written]] = {}
    for result in results:
        groups.setdefault(len(task.src_tokenizer.encode(result.source).ids), []).append(result)
    return {length: (exact_match(groups[length]), len(groups[length])) for length in sorted(groups)}
