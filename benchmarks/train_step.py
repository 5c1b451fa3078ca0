"""One step of a training, forward, backward and Adam, against ``torch.nn.Transformer`` of the same sizes.

Both meet the same batches, masks and loss, and update alike. The steps of both are those of the page's small model
(copy) and of the shipped English-to-German one, whose batches are drawn at random in the lengths of its sentences.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from benchmarks.measuring import BenchmarkFailed, Result, at_most, interleaved, medians, processor_clock, ratio
from benchmarks.torch_peer import TorchTransformer
from transformer.config import TransformerConfig
from transformer.evaluation import sequence_loss
from transformer.model import Transformer
from transformer.tasks import TASKS
from transformer.tasks.base import Batch, make_batch
from transformer.training import ADAM_BETAS, ADAM_EPS, seed_dropout
from transformer.training_config import TrainingConfig

N_BATCHES = 8
EN_DE_TOKENS = (3480, 6152)  # as many as the shipped en-de knows, source and target
EN_DE_LENGTHS = (5, 10)  # tokens of a sentence, at least and at most: within a batch they differ little
ROUNDS = {"mini": 9, "en-de": 5}


def mini() -> tuple[TransformerConfig, TrainingConfig, list[Batch]]:
    """The page's defaults."""
    preset, generator = TASKS["copy"].mini_preset, torch.Generator().manual_seed(0)
    size, longest = preset.training.batch_size, preset.training.max_length
    return preset.model, preset.training, [TASKS["copy"].batch(generator, size, longest) for _ in range(N_BATCHES)]


def en_de() -> tuple[TransformerConfig, TrainingConfig, list[Batch]]:
    """The sizes of the shipped en-de; its sentences are no part of the project, so ids are drawn at random."""
    task, generator = TASKS["en-de"], torch.Generator().manual_seed(0)
    preset = task.preset
    n_source, n_target = EN_DE_TOKENS
    model = TransformerConfig(**{**preset.model.to_dict(), "src_vocab_size": n_source, "tgt_vocab_size": n_target})
    batches = []
    for _ in range(1):
        lengths = torch.randint(EN_DE_LENGTHS[0], EN_DE_LENGTHS[1] + 1, (preset.training.batch_size,),
                                generator=generator).tolist()
        rows = [
            [tuple(torch.randint(4, n_tokens, (length,), generator=generator).tolist()) for length in lengths]
            for n_tokens in (n_source, n_target)
        ]
        batches.append(make_batch(*rows, task.src_tokenizer, task.tgt_tokenizer))
    return model, preset.training, batches


def stepper(model: nn.Module, training: TrainingConfig, batches: list[Batch]) -> Callable[[], list[float]]:
    """What takes one step with each of ``batches`` and returns their losses."""
    pad_id = model.config.pad_id
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-4, betas=ADAM_BETAS, eps=ADAM_EPS, weight_decay=training.weight_decay, fused=True
    )
    model.train()

    def step() -> list[float]:
        losses = []
        for batch in batches:
            optimizer.zero_grad()
            logits = model(batch.src, batch.tgt_in)
            loss = sequence_loss(logits, batch.tgt_out, pad_id, training.label_smoothing)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), training.clip_norm)
            optimizer.step()
            losses.append(loss.item())
        return losses

    return step


def check_equal(ours: Transformer, theirs: TorchTransformer, batch: Batch) -> None:
    """Raise BenchmarkFailed unless both compute the same; dropout off."""
    ours.eval()
    theirs.eval()
    with torch.no_grad():
        difference = (ours(batch.src, batch.tgt_in) - theirs(batch.src, batch.tgt_in)).abs()
    largest = difference[batch.tgt_in != ours.config.pad_id].max().item()
    if not largest < 1e-3:
        raise BenchmarkFailed(f"the logits of both networks differ by {largest:.3g}, so there is nothing to compare")


def run() -> Result:
    torch.set_num_threads(1)
    details, ratios = {}, {}
    for name, make in {"mini": mini, "en-de": en_de}.items():
        config, training, batches = make()
        ours = Transformer(config).initialize(torch.Generator().manual_seed(0))
        theirs = TorchTransformer(config).copy_weights(ours)
        check_equal(ours, theirs, batches[0])
        seed_dropout(ours, torch.Generator().manual_seed(0))  # as a training does it
        tasks = {"ours": stepper(ours, training, batches), "torch": stepper(theirs, training, batches)}
        seconds = interleaved(tasks, ROUNDS[name], clock=processor_clock)
        ratios[name] = ratio(seconds, "ours", "torch")
        details[f"ms a step, {name}"] = {key: 1000 * value / len(batches) for key, value in medians(seconds).items()}
    return at_most(
        "train-step", max(ratios.values()), 1.0,
        "the larger of two ratios: our time of a step over that of torch.nn.Transformer",
        **details, ratios=ratios,
    )
