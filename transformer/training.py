"""Train a network from nothing. ``Trainer`` reads from top to bottom: set up, one step, one evaluation, the loop.

Shape legend: B batch, T target length, V vocabulary.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from transformer.checkpoints import Checkpoint
from transformer.config import TransformerConfig
from transformer.errors import InputError
from transformer.evaluation import count_right, loss_and_accuracy, write_all
from transformer.history import Evaluation, History, Sample, StepRecord
from transformer.metrics import exact_match
from transformer.model import Transformer
from transformer.practice import USUAL_PRACTICE, Practice
from transformer.tasks.base import Batch, Task
from transformer.training_config import TrainingConfig, average_share_at, learning_rate_at

__all__ = [
    "Evaluation", "History", "Sample", "StepRecord", "Trainer", "TrainingConfig", "TrainingDiverged",
    "learning_rate_at",
]

ADAM_BETAS, ADAM_EPS = (0.9, 0.98), 1e-9  # paper, section 5.3
N_SAMPLES = 5
FIXED_BATCH_LOSS = 0.01  # with one and the same batch, "near 0" is reached below this
DIVERGED_FACTOR = 20  # times the loss of guessing: an untrained network starts near 1


class TrainingDiverged(InputError):
    """The loss is no number any more, or far above that of guessing. The best weights so far are kept."""


class Dropout(nn.Dropout):
    """Dropout that draws from a generator of its own, so that a training can be repeated and resumed exactly."""

    def __init__(self, p: float, generator: torch.Generator) -> None:
        super().__init__(p)
        self.generator = generator

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        keep = torch.rand(x.shape, generator=self.generator, device=x.device) >= self.p
        return x * keep.to(x.dtype).div_(1 - self.p)  # what is kept is scaled first: one product forth, one back


class Trainer:
    """One training of one network. It draws every random number from generators seeded by ``training_config.seed``.

    With ``fixed_batch`` it meets one and the same batch at every step, without label smoothing, until the loss is
    near 0: the classic check that network, loss and optimizer work together; evaluations are then of that batch.
    Another ``practice`` than the usual is for showing what goes wrong with it; a saved state does not hold it.
    Raises ValueError when the network does not fit the task.
    """

    def __init__(
        self,
        task: Task,
        model_config: TransformerConfig,
        training_config: TrainingConfig,
        *,
        device: str = "cpu",
        fixed_batch: bool = False,
        practice: Practice = USUAL_PRACTICE,
    ) -> None:
        _check_fit(task, model_config, training_config)
        if fixed_batch:
            training_config = replace(training_config, label_smoothing=0.0)
        self.task, self.device, self.fixed_batch, self.practice = task, device, fixed_batch, practice
        self.model_config, self.training_config = model_config, training_config
        seed = training_config.seed
        weight_seed, batch_seed, dropout_seed = np.random.SeedSequence(seed).generate_state(3).tolist()
        self.batch_generator = torch.Generator().manual_seed(batch_seed)
        self.dropout_generator = torch.Generator(device).manual_seed(dropout_seed)

        # ``learner`` meets the batches; ``model``, which is measured, shown and kept, is the mean of its latest states.
        self.learner = Transformer(model_config).initialize(torch.Generator().manual_seed(weight_seed)).to(device)
        self.model = copy.deepcopy(self.learner).eval() if training_config.average_weights else self.learner
        seed_dropout(self.learner, self.dropout_generator)
        self.optimizer = torch.optim.AdamW(
            self.learner.parameters(),
            betas=ADAM_BETAS,
            eps=ADAM_EPS,
            weight_decay=training_config.weight_decay,
            fused=True,
        )
        self.step = 0
        self.seconds = 0.0  # spent in steps and evaluations
        self.history = History(judged_by=training_config.judged_by)
        self.best_weights = self._copy_of_weights()
        self._has_best_weights = False
        if fixed_batch:
            self.evaluation_pairs = task.pairs("train", training_config.batch_size, seed, training_config.max_length)
            self.batch = task.encode(self.evaluation_pairs).to(device)
        else:
            size = training_config.evaluation_size
            self.evaluation_pairs = task.pairs("valid", size, seed, training_config.max_length)

    def run(self) -> Iterator[StepRecord | Evaluation]:
        """Train until there is a reason to stop, yielding every step and every evaluation as it happens.

        The first is an evaluation of the untrained network. The caller may stop between any two, save, and go on
        later. Raises TrainingDiverged; the model then has the weights of the best evaluation.
        """
        while True:
            if self._evaluation_is_due():
                yield self.evaluate()
            if self.reason_to_stop():
                return
            yield self.train_step()

    def train_step(self) -> StepRecord:
        """Learn from one batch, or from ``accumulate`` of them whose gradients are averaged."""
        started = time.perf_counter()
        config, practice, pad_id = self.training_config, self.practice, self.model_config.pad_id
        learning_rate = learning_rate_at(self.step + 1, config)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate

        self.learner.train()
        self.optimizer.zero_grad()
        loss_now, right, tokens = 0.0, 0, 0
        for _ in range(config.accumulate):
            batch = practice.prepare(self._next_batch())
            # Teacher forcing: the decoder reads the true tokens, not its own, and predicts each from those before it.
            with practice.conditions.changing(self.learner):
                logits = self.learner(batch.src, batch.tgt_in, practice.masks(batch, pad_id))  # [B, T, V]
            loss = practice.loss(logits, batch.tgt_out, pad_id, config.label_smoothing)
            (loss / config.accumulate).backward()
            loss_now += loss.item() / config.accumulate
            right_here, tokens_here = count_right(logits.detach(), batch.tgt_out, pad_id)
            right, tokens = right + right_here, tokens + tokens_here
        gradient_norm = nn.utils.clip_grad_norm_(self.learner.parameters(), config.clip_norm or math.inf)
        gradient_norm_now = gradient_norm.item()
        self._check_sound(loss_now, gradient_norm_now, learning_rate)
        self.optimizer.step()

        self.step += 1
        self._average_weights()
        self._has_best_weights = False
        self.seconds += time.perf_counter() - started
        record = StepRecord(
            self.step, loss_now, right / tokens, learning_rate, gradient_norm_now, round(self.seconds, 3)
        )
        self.history.steps.append(record)
        return record

    def evaluate(self) -> Evaluation:
        """Measure the model as it is on sequences it never trains on, and keep its weights if none were better."""
        started = time.perf_counter()
        self.model.eval()
        of_model = (self.model, self.task, self.evaluation_pairs, self.device)
        loss, token_accuracy = loss_and_accuracy(*of_model, conditions=self.practice.conditions)
        results = write_all(*of_model, conditions=self.practice.conditions)
        by_length = sorted(results, key=lambda result: len(result.source.split()))
        shown = [by_length[round(i)] for i in np.linspace(0, len(results) - 1, min(N_SAMPLES, len(results)))]
        self.seconds += time.perf_counter() - started
        evaluation = Evaluation(
            self.step, loss, token_accuracy, exact_match(results), len(results),
            tuple(Sample(result.source, result.expected, result.written) for result in shown), round(self.seconds, 3),
        )
        self.history.evaluations.append(evaluation)
        if self.history.best is evaluation:
            self.best_weights = self._copy_of_weights()
        return evaluation

    def reason_to_stop(self) -> str | None:
        """Why the training is over: ``steps``, ``target``, ``patience`` or ``fitted``; None while it is not."""
        config, evaluations = self.training_config, self.history.evaluations
        if self.fixed_batch and self.history.steps and self.history.steps[-1].loss < FIXED_BATCH_LOSS:
            return "fitted"
        if evaluations and evaluations[-1].step == self.step:
            since_best = len(evaluations) - 1 - evaluations.index(self.history.best)
            if 0 < config.target_exact_match <= evaluations[-1].exact_match:
                return "target"
            if 0 < config.patience <= since_best:
                return "patience"
        return "steps" if self.step >= config.steps else None

    def restore_best(self) -> None:
        """Put back the weights of the best evaluation (those of the start when there was none)."""
        self.model.load_state_dict(self.best_weights)
        self._has_best_weights = True

    def checkpoint(self, name: str, **more: object) -> Checkpoint:
        """A copy of the weights as they are now, with a meta that tells how they came about.

        ``steps`` in the meta counts the steps these weights have seen, ``validation`` is the newest evaluation on
        the way to them; ``more`` is added. The copy stays as it is while the training goes on.
        """
        model = Transformer(self.model_config)
        model.load_state_dict({key: value.detach().cpu() for key, value in self.model.state_dict().items()})
        best, evaluations = self.history.best, self.history.evaluations
        if self._has_best_weights:
            step, measured = (best.step, best) if best else (0, None)
        else:
            step, measured = self.step, evaluations[-1] if evaluations else None
        meta = {
            "seed": self.training_config.seed,
            "steps": step,
            "training": self.training_config.to_dict(),
            "fixed_batch": self.fixed_batch,
            **self.task.facts(),
            "trained_lengths": [self.task.min_length, self.training_config.max_length],
            "training_seconds": round(self.seconds, 1),
            "device": self.device,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "validation": None if measured is None else {
                "step": measured.step, "loss": measured.loss, "token_accuracy": measured.token_accuracy,
                "exact_match": measured.exact_match, "n": measured.n,
            },
            "exact_match_by_step": [[entry.step, entry.exact_match] for entry in evaluations],
            **more,
        }
        return Checkpoint(name, self.task.name, model, self.task.src_tokenizer, self.task.tgt_tokenizer, meta)

    def _next_batch(self) -> Batch:
        if self.fixed_batch:
            return self.batch
        config = self.training_config
        return self.task.batch(self.batch_generator, config.batch_size, config.max_length, "train").to(self.device)

    @torch.no_grad()
    def _average_weights(self) -> None:
        if self.model is not self.learner:
            share = average_share_at(self.step)
            for mean, latest in zip(self.model.parameters(), self.learner.parameters(), strict=True):
                mean.lerp_(latest, share)

    def _evaluation_is_due(self) -> bool:
        if self.history.evaluations and self.history.evaluations[-1].step == self.step:
            return False
        return self.step % self.training_config.evaluate_every == 0 or self.reason_to_stop() is not None

    def _check_sound(self, loss: float, gradient_norm: float, learning_rate: float) -> None:
        largest = DIVERGED_FACTOR * math.log(self.model_config.tgt_vocab_size)
        if math.isfinite(loss) and math.isfinite(gradient_norm) and loss < largest:
            return
        self.restore_best()
        raise TrainingDiverged(
            "training_diverged",
            step=self.step + 1,
            loss=f"{loss:.4g}",
            rate=f"{learning_rate:.3g}",
            kept=self.history.best.step if self.history.best else 0,
        )

    def _copy_of_weights(self) -> dict[str, Tensor]:
        return {key: value.detach().clone() for key, value in self.model.state_dict().items()}


def _check_fit(task: Task, model_config: TransformerConfig, training_config: TrainingConfig) -> None:
    for side, vocab_size, tokenizer in (
        ("source", model_config.src_vocab_size, task.src_tokenizer),
        ("target", model_config.tgt_vocab_size, task.tgt_tokenizer),
    ):
        if vocab_size != len(tokenizer):
            raise ValueError(f"the {side} vocabulary of {task.name} has {len(tokenizer)} tokens, got {vocab_size}")
    if training_config.max_length + 1 > model_config.max_len:
        raise ValueError(
            f"sequences of {training_config.max_length} symbols and their <eos> need max_len of at least "
            f"{training_config.max_length + 1}, got {model_config.max_len}"
        )


def seed_dropout(model: nn.Module, generator: torch.Generator) -> None:
    """Replace every dropout below ``model`` by one that draws from ``generator``."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Dropout:
                setattr(module, name, Dropout(child.p, generator))
