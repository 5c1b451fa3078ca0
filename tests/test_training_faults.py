"""Trainings with a known bug: each pair differs in that bug alone, and the bug does what it is known for."""

from __future__ import annotations

from dataclasses import fields

import pytest
import torch
from torch.nn import functional as F

from transformer.conditions import USUAL
from transformer.errors import InputError
from transformer.evaluation import sequence_loss
from transformer.practice import USUAL_PRACTICE
from transformer.tasks import task
from transformer.tasks.base import Batch
from transformer.tasks.sequences import sequence_model
from transformer.training import Trainer, TrainingDiverged
from transformer.training_config import TrainingConfig
from transformer.training_faults import TRAINING_FAULTS, loss_with_padding, not_shifted, training_fault

COPY = task("copy")
MODEL = sequence_model(d_model=16, n_heads=2, d_ff=16, n_encoder_layers=1, n_decoder_layers=1)
TRAINING = TrainingConfig(steps=2, batch_size=8, max_length=4, evaluate_every=2, evaluation_size=8, seed=7)


def differences(name: str) -> set[str]:
    """Names of everything in which the faulty side of a pair is not the healthy one."""
    healthy, broken = TRAINING_FAULTS[name].settings(MODEL, TRAINING)
    return {
        entry.name
        for part in ("model", "training", "practice")
        for entry in fields(getattr(healthy, part))
        if getattr(getattr(healthy, part), entry.name) != getattr(getattr(broken, part), entry.name)
    }


def test_a_pair_differs_in_its_bug_alone():
    assert {name: differences(name) for name in TRAINING_FAULTS} == {
        "target_not_shifted": {"prepare"},
        "leaking_causal_mask": {"conditions"},
        "no_warmup": {"warmup_steps"},
        "post_ln_deep": {"norm_first"},
        "no_score_scale": {"conditions"},
        "no_positions": {"positional_encoding"},
        "loss_counts_padding": {"loss"},
        "rate_too_high": {"learning_rate", "warmup_steps", "clip_norm"},
    }
    healthy, _ = TRAINING_FAULTS["post_ln_deep"].settings(MODEL, TRAINING)
    assert min(healthy.model.n_encoder_layers, healthy.model.n_decoder_layers) >= 6


@pytest.mark.parametrize("name", [name for name in TRAINING_FAULTS if name != "rate_too_high"])
def test_both_sides_run_from_the_same_weights_and_batches_and_come_apart(name):
    healthy, broken = TRAINING_FAULTS[name].pair(COPY, MODEL, TRAINING)
    ours, theirs = dict(healthy.learner.named_parameters()), dict(broken.learner.named_parameters())
    shared = ours.keys() & theirs.keys()
    assert {name.rsplit(".", 1)[0] for name in ours.keys() ^ theirs.keys()} <= {  # post-LN has none
        "encoder.final_norm", "decoder.final_norm"
    }
    assert all(torch.equal(ours[key], theirs[key]) for key in shared)
    for trainer in (healthy, broken):
        list(trainer.run())
        assert [record.step for record in trainer.history.steps] == [1, 2]
    assert torch.equal(healthy.batch_generator.get_state(), broken.batch_generator.get_state())
    assert any(not torch.equal(ours[key], theirs[key]) for key in shared)


def test_a_usual_practice_is_the_training_without_one():
    plain = Trainer(COPY, MODEL, TRAINING)
    healthy, _ = TRAINING_FAULTS["target_not_shifted"].pair(COPY, MODEL, TRAINING)
    for trainer in (plain, healthy):
        list(trainer.run())
    assert [record.loss for record in plain.history.steps] == [record.loss for record in healthy.history.steps]
    assert USUAL_PRACTICE.conditions is USUAL


def test_a_target_that_is_not_shifted_is_handed_on_and_cannot_be_written():
    batch = Batch(torch.tensor([[5, 2]]), torch.tensor([[1, 5]]), torch.tensor([[5, 2]]))
    assert not_shifted(batch).tgt_in.tolist() == not_shifted(batch).tgt_out.tolist() == [[1, 5, 2]]
    training = TrainingConfig(
        steps=120, batch_size=16, max_length=4, learning_rate=1e-2, warmup_steps=10, evaluate_every=120,
        evaluation_size=20,
    )
    _, broken = TRAINING_FAULTS["target_not_shifted"].pair(COPY, MODEL, training)
    list(broken.run())
    assert broken.history.steps[-1].token_accuracy > 0.95
    assert broken.history.evaluations[-1].exact_match == 0


def test_a_leaking_mask_is_that_of_the_steps_and_of_the_evaluations():
    healthy, broken = TRAINING_FAULTS["leaking_causal_mask"].pair(COPY, MODEL, TRAINING)
    batch = COPY.encode([("1 2 3", "1 2 3")])
    assert healthy.practice.masks(batch, 0) is None
    assert bool(broken.practice.masks(batch, 0).tgt_mask.all())
    # Same weights, so the loss measured with the true tokens given differs by what leaks alone.
    assert healthy.evaluate().loss != broken.evaluate().loss


def test_a_loss_that_counts_padding_is_the_mean_over_all_positions():
    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))
    tgt_out = torch.tensor([[4, 2, 0], [2, 0, 0]])
    each = F.cross_entropy(logits.transpose(1, 2), tgt_out, reduction="none")
    assert loss_with_padding(logits, tgt_out, 0).item() == pytest.approx(each.mean().item())
    assert sequence_loss(logits, tgt_out, 0).item() == pytest.approx(each[tgt_out != 0].mean().item())


def test_a_rate_that_is_far_too_high_ends_in_a_sentence_and_keeps_the_best_weights():
    healthy, broken = TRAINING_FAULTS["rate_too_high"].pair(COPY, MODEL, TrainingConfig(
        steps=20, batch_size=8, max_length=4, evaluate_every=20, evaluation_size=8, learning_rate=3e-3,
    ))
    with pytest.raises(TrainingDiverged, match=r"The loss became .* at a learning rate of 3"):
        list(broken.run())
    assert broken.history.best.step == 0
    assert all(bool(parameter.isfinite().all()) for parameter in broken.model.parameters())
    list(healthy.run())


def test_an_unknown_training_fault_is_refused():
    assert training_fault("no_warmup").name == "no_warmup"
    with pytest.raises(InputError, match="no fault 'bad_luck'"):
        training_fault("bad_luck")
