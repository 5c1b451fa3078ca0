"""Teacher forcing beside free running: one text, once with a reference fed to the decoder, once with its own output.

Training feeds the decoder the true target and asks for its next token at every position at once (teacher forcing;
Williams and Zipser, 1989). Nobody feeds it the truth when it is used: there it reads what it wrote, mistakes
included, which it never did in training (exposure bias; Ranzato et al., 2016).

Shape legend: B batch (1 here), S source length, R reference length and T written length, both with <eos>, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transformer.checkpoints import Checkpoint
from transformer.decoding import cached_next_logits, most_probable, write
from transformer.errors import InputError
from transformer.tracing import MAX_TEXT_LENGTH, encode_source


@dataclass(frozen=True)
class ForcedStep:
    """One token of the reference, judged by the model that was fed the true tokens before it."""

    token: str
    piece: str  # what was typed for it; differs where the token is <unk>
    log_prob: float  # natural, of this token
    rank: int  # 1: it is the model's own first choice here
    choice: str  # the model's own first choice here
    choice_log_prob: float


@dataclass(frozen=True)
class FreeStep:
    """One token that the model wrote itself, greedily, reading only what it had written before."""

    token: str
    log_prob: float  # natural, of this token
    reference_log_prob: float | None  # what it gave to the reference's token here; None past the reference's end


@dataclass(frozen=True)
class TeacherForcing:
    """A reference and the model's own output for one text, position by position."""

    forced: tuple[ForcedStep, ...]  # [R]
    free: tuple[FreeStep, ...]  # [T]
    parts_at: int | None  # the first position, from 0, at which the tokens differ; None: at none that both have
    finished: bool  # False: the length cap came before <eos>

    @property
    def forced_log_prob(self) -> float:
        """Log-probability of the whole reference: the sum over its tokens."""
        return sum(step.log_prob for step in self.forced)

    @property
    def free_log_prob(self) -> float:
        """Log-probability of the model's own output: the sum over its tokens."""
        return sum(step.log_prob for step in self.free)

    @property
    def n_first_choices(self) -> int:
        """How many tokens of the reference are the model's own first choice when the ones before them are given."""
        return sum(step.rank == 1 for step in self.forced)


def encode_reference(checkpoint: Checkpoint, reference: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Ids [R] and typed pieces [R] of a reference, ``<eos>`` included.

    Raises InputError when it is empty or too long, saying the limit and what it got.
    """
    if len(reference) > MAX_TEXT_LENGTH:
        raise InputError("reference_too_long", limit=MAX_TEXT_LENGTH, length=len(reference))
    tokenizer = checkpoint.tgt_tokenizer
    encoded = tokenizer.encode(reference)
    if not encoded.ids:
        raise InputError("reference_empty")
    limit = checkpoint.model.config.max_len - 1  # <bos> is fed before it
    if len(encoded.ids) > limit:
        raise InputError("reference_tokens", limit=limit, length=len(encoded.ids))
    (eos,) = tokenizer.tokens((tokenizer.eos_id,))
    return (*encoded.ids, tokenizer.eos_id), (*encoded.pieces, eos)


@torch.inference_mode()
def compare(
    checkpoint: Checkpoint, text: str, reference: str, *, device: str = "cpu", max_steps: int | None = None
) -> TeacherForcing:
    """How probable ``reference`` is to the model token by token, fed itself and fed what the model writes.

    Fed the reference, all positions come from one forward pass. ``max_steps`` caps the tokens that the model
    writes (default, and at most: the positions it has). Raises InputError for a text or a reference it cannot read.
    """
    src_ids, _, _ = encode_source(checkpoint, text)
    tgt_ids, pieces = encode_reference(checkpoint, reference)
    model, tokenizer = checkpoint.model_on(device), checkpoint.tgt_tokenizer
    src = torch.tensor([src_ids], device=device)  # [B, S]
    tgt_in = torch.tensor([(tokenizer.bos_id, *tgt_ids[:-1])], device=device)  # [B, R]
    fed_reference = model(src, tgt_in)[0].float().log_softmax(dim=-1).cpu()  # [R, V]

    rows: list[Tensor] = []

    def keep(log_probs: Tensor, written: Sequence[Tensor]) -> Tensor:
        rows.append(log_probs[0].cpu())  # [V]
        return most_probable(log_probs, written)

    max_len = model.config.max_len
    (decoded,) = write(
        cached_next_logits(model, src),
        keep,
        batch_size=1,
        bos_id=tokenizer.bos_id,
        eos_id=tokenizer.eos_id,
        max_steps=min(max_steps or max_len, max_len),
        device=device,
    )
    own_ids = decoded.token_ids
    parts_at = next((i for i, (true, own) in enumerate(zip(tgt_ids, own_ids, strict=False)) if true != own), None)
    return TeacherForcing(
        forced=tuple(
            _forced_step(fed_reference[i], token_id, piece, tokenizer.vocabulary)
            for i, (token_id, piece) in enumerate(zip(tgt_ids, pieces, strict=True))
        ),
        free=tuple(
            FreeStep(
                tokenizer.vocabulary[step.token_id],
                step.log_prob,
                float(rows[i][tgt_ids[i]]) if i < len(tgt_ids) else None,
            )
            for i, step in enumerate(decoded.steps)
        ),
        parts_at=parts_at,
        finished=decoded.finished,
    )


def _forced_step(log_probs: Tensor, token_id: int, piece: str, vocabulary: Sequence[str]) -> ForcedStep:
    """``log_probs`` [V] of one position. An unknown piece keeps its own spelling, a known one that of its token."""
    best = int(log_probs.argmax())
    token = vocabulary[token_id]
    return ForcedStep(
        token=token,
        piece=piece if token == "<unk>" else token,
        log_prob=float(log_probs[token_id]),
        rank=1 + int((log_probs > log_probs[token_id]).sum()),
        choice=vocabulary[best],
        choice_log_prob=float(log_probs[best]),
    )
