"""Proofs about whole passes and decodes: what may make a difference, and what must not.

Shape legend: B batch, S source length, T target length, D d_model, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from transformer.decoding import greedy_decode
from transformer.faults import N_PADDING
from transformer.hooks import intervene
from transformer.proof_subject import Found, Subject, deviation
from transformer.reference import reference_logits

DEVICE_TOLERANCE = 1e-2  # of log-probabilities in float32; a GPU may round products to fewer digits


def future_changes_nothing(subject: Subject) -> Found:
    """With the second half of the target replaced, the logits of the first half are the same to the last bit."""
    src, tgt_in = subject.ids(subject.src_ids), subject.ids(subject.tgt_in_ids)
    first = tgt_in.shape[1] // 2
    changed = tgt_in.clone()
    changed[:, first:] = 3 + (tgt_in[:, first:] - 2) % (subject.model.config.tgt_vocab_size - 3)  # another real token
    before, after = subject.logits(src, tgt_in)[:, :first], subject.logits(src, changed)[:, :first]
    return deviation(after, before), 0.0, {"kept": first, "changed": tgt_in.shape[1] - first}


def padding_changes_nothing(subject: Subject) -> Found:
    """With padding behind the source the logits are the same."""
    tgt_in = subject.ids(subject.tgt_in_ids)
    plain = subject.logits(subject.ids(subject.src_ids), tgt_in)
    padded = subject.logits(subject.ids(subject.src_ids + (subject.pad_id,) * N_PADDING), tgt_in)
    return deviation(padded, plain), subject.rounding, {"padding": N_PADDING}


def batch_equals_singles(subject: Subject) -> Found:
    """Three pairs of different lengths in one batch give what each gives alone."""
    src, tgt_in = subject.src_ids, subject.tgt_in_ids
    longer = (src * N_PADDING)[: min(len(src) + N_PADDING, subject.model.config.max_len)]
    rows = [(src, tgt_in), (longer, tgt_in[:-2]), (src[-1:], tgt_in[:1])]
    together = subject.logits(subject.ids(*(row for row, _ in rows)), subject.ids(*(row for _, row in rows)))
    largest = max(
        deviation(together[i : i + 1, : len(target)], subject.logits(subject.ids(source), subject.ids(target)))
        for i, (source, target) in enumerate(rows)
    )
    return largest, subject.rounding, {"rows": len(rows), "lengths": [len(source) for source, _ in rows]}


def cached_equals_uncached(subject: Subject) -> Found:
    """Written token by token with kept keys and values, the logits are those of one pass over everything."""
    src, tgt_in = subject.ids(subject.src_ids), subject.ids(subject.tgt_in_ids)
    whole, stepwise = subject.logits(src, tgt_in), subject.step_by_step(src, tgt_in)
    return deviation(stepwise, whole), subject.rounding, {"steps": tgt_in.shape[1]}


def order_is_in_the_positions(subject: Subject) -> Found:
    """Without positions, turning the source around only turns the memory around: attention itself knows no order."""
    src = subject.ids(subject.src_ids)
    no_positions = {"src_embedding.hook_pos_embed": torch.zeros_like}
    plain, turned = subject.memory(src, no_positions), subject.memory(src.flip(1), no_positions)
    return deviation(turned.flip(1), plain), subject.rounding, {"tokens": src.shape[1]}


def same_seed_same_result(subject: Subject) -> Found:
    """The same pass a second time gives the same logits to the last bit."""
    src, tgt_in = subject.ids(subject.src_ids), subject.ids(subject.tgt_in_ids)
    return deviation(subject.logits(src, tgt_in), subject.logits(src, tgt_in)), 0.0, {"passes": 2}


def starts_with_bos(subject: Subject) -> Found:
    """The first token that the decoding loop feeds is <bos>; the deviation counts tokens that are not."""
    fed: list[Tensor] = []
    _decode(subject, steps=1, fed=fed)
    bos_id = subject.checkpoint.tgt_tokenizer.bos_id
    return float((fed[0] != bos_id).sum()), 0.0, {"fed": int(fed[0]), "expected": bos_id}


def stops_at_eos(subject: Subject) -> Found:
    """When <eos> is made the most probable token of the third step, nothing is written after it.

    The deviation counts the tokens that are.
    """
    eos_id, at_step = subject.checkpoint.tgt_tokenizer.eos_id, 3
    n_written = len(_decode(subject, steps=at_step + 3, eos_at=at_step, eos_id=eos_id))
    return float(abs(n_written - at_step)), 0.0, {"eos_at": at_step, "written": n_written}


def _decode(
    subject: Subject, steps: int, fed: list[Tensor] | None = None, eos_at: int = 0, eos_id: int = -1
) -> tuple[int, ...]:
    """Ids that the decoding loop writes in at most ``steps``, <eos> being the most probable only in step ``eos_at``."""
    n_passes = 0

    def with_eos(logits: Tensor) -> Tensor:
        nonlocal n_passes
        n_passes += 1
        logits = logits.clone()
        logits[..., eos_id] = logits.abs().max() + 1 if n_passes == eos_at else -logits.abs().max() - 1
        return logits

    changes = {"hook_logits": with_eos} if eos_at else {}
    with subject.conditions.changing(subject.model), intervene(changes):
        next_logits = subject.conditions.next_logits(subject.model, subject.ids(subject.src_ids))

        def listening(last_ids: Tensor) -> Tensor:
            if fed is not None:
                fed.append(last_ids)
            return next_logits(last_ids)

        limits = subject.conditions.limits(subject.checkpoint.tgt_tokenizer.eos_id)
        steps = min(steps, subject.model.config.max_len)
        (decoded,) = greedy_decode(listening, batch_size=1, max_steps=steps, device=subject.device, **limits)
    return decoded.token_ids


def equals_reference(subject: Subject) -> Found:
    """The logits are those of the network written out plainly, query by query, from the same weights.

    The network is given the source with padding behind it, the plain one without.
    """
    src = subject.ids(subject.src_ids + (subject.pad_id,) * N_PADDING)
    ours = subject.logits(src, subject.ids(subject.tgt_in_ids))[0]
    plain = reference_logits(subject.model, list(subject.src_ids), list(subject.tgt_in_ids))
    tolerance = max(1e-6, subject.rounding)  # the sines are kept in float32, see positions_are_right
    return deviation(ours, torch.from_numpy(plain).to(ours)), tolerance, {"logits": plain.size}


def cpu_equals_device(subject: Subject) -> Found:
    """In float32, as it runs, the model gives the same log-probabilities on the CPU and on the other device."""
    found = []
    for device in ("cpu", subject.device):
        model = subject.checkpoint.model_on(device)
        src, tgt_in = (subject.ids(ids).to(device) for ids in (subject.src_ids, subject.tgt_in_ids))
        with subject.conditions.changing(model):
            logits = model(src, tgt_in, subject.masks(src, tgt_in))
        found.append(logits.cpu().double().log_softmax(dim=-1))
    return deviation(found[1], found[0]), DEVICE_TOLERANCE, {"device": subject.device}
