"""Training: the schedule, the loss, the seeds, stops of every kind, divergence, and going on after a stop."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from builders import generator
from transformer import training
from transformer.errors import InputError
from transformer.evaluation import loss_and_accuracy, sequence_loss, write_all
from transformer.history import History
from transformer.tasks import TASKS
from transformer.tasks.sequences import sequence_model
from transformer.training import Evaluation, StepRecord, Trainer, TrainingConfig, TrainingDiverged, learning_rate_at
from transformer.training_state import STATE_FILE, load_state, save_state

COPY = TASKS["copy"]
TINY = sequence_model(d_model=16, n_heads=2, d_ff=16, n_encoder_layers=1, n_decoder_layers=1)
SHORT = TrainingConfig(steps=8, batch_size=8, max_length=4, evaluate_every=3, evaluation_size=12, warmup_steps=4)


def trainer_of(model_config=TINY, **changes: object) -> Trainer:
    return Trainer(COPY, model_config, replace(SHORT, **changes))


def weights(trainer: Trainer) -> list[torch.Tensor]:
    return [value.clone() for value in trainer.model.state_dict().values()]


def same(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def without_seconds(history: History) -> list:
    return [replace(record, seconds=0.0) for record in (*history.steps, *history.evaluations)]


# The schedule


def test_the_rate_rises_in_a_line_to_its_peak_and_falls_with_the_root_of_the_step():
    config = TrainingConfig(steps=1, learning_rate=0.004, warmup_steps=100)
    expected = {1: 0.00004, 50: 0.002, 100: 0.004, 400: 0.002, 10_000: 0.0004}
    assert {step: learning_rate_at(step, config) for step in expected} == pytest.approx(expected)


@pytest.mark.parametrize("step", [1, 17, 4000, 4001, 100_000])
def test_the_rate_is_the_papers_when_its_peak_is(step):
    d_model, warmup = 512, 4000
    config = TrainingConfig(steps=1, learning_rate=(d_model * warmup) ** -0.5, warmup_steps=warmup)
    assert learning_rate_at(step, config) == pytest.approx(d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))


def test_without_warm_up_the_rate_stays_at_its_peak_and_steps_count_from_1():
    config = TrainingConfig(steps=1, learning_rate=0.5, warmup_steps=0)
    assert {learning_rate_at(step, config) for step in (1, 2, 1000)} == {0.5}
    with pytest.raises(ValueError, match="count from 1, got 0"):
        learning_rate_at(0, config)


# The configuration


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"steps": 0}, "steps.*0"),
        ({"batch_size": 2.5}, "batch_size.*2.5"),
        ({"batch_size": True}, "batch_size.*True"),
        ({"learning_rate": 0}, "learning_rate.*0"),
        ({"learning_rate": math.nan}, "learning_rate.*nan"),
        ({"learning_rate": math.inf}, "learning_rate.*inf"),
        ({"warmup_steps": -1}, "warmup_steps.*-1"),
        ({"label_smoothing": 1.0}, "label_smoothing.*1.0"),
        ({"clip_norm": -1}, "clip_norm.*-1"),
        ({"weight_decay": "much"}, "weight_decay.*'much'"),
        ({"target_exact_match": 1.5}, "target_exact_match.*1.5"),
        ({"patience": -2}, "patience.*-2"),
        ({"seed": 2**63}, f"seed.*{2**63}"),
        ({"max_length": 0}, "max_length.*0"),
        ({"average_weights": 1}, "average_weights.*1"),
    ],
)
def test_a_training_that_cannot_be_done_is_refused_with_the_value(changes, named):
    with pytest.raises(ValueError, match=named):
        replace(SHORT, **changes)


def test_a_training_config_survives_json_and_refuses_unknown_names():
    assert TrainingConfig.from_dict(json.loads(json.dumps(SHORT.to_dict()))) == SHORT
    with pytest.raises(ValueError, match="unknown names: epochs"):
        TrainingConfig.from_dict({"steps": 1, "epochs": 2})
    with pytest.raises(ValueError, match="lacks steps"):
        TrainingConfig.from_dict({})


def test_a_network_that_does_not_fit_the_task_is_refused_with_both_numbers():
    with pytest.raises(ValueError, match=r"source vocabulary of copy has 36.*got 40"):
        trainer_of(replace(TINY, src_vocab_size=40))
    with pytest.raises(ValueError, match="at least 65, got 64"):
        trainer_of(max_length=64)


# The loss


def test_padding_counts_for_nothing_in_the_loss():
    tgt_out = torch.tensor([[5, 6, 2], [7, 2, 0]])
    logits = torch.randn(2, 3, 9, generator=generator())
    more_padding = F.pad(tgt_out, (0, 4))
    more_logits = torch.cat([logits, torch.full((2, 4, 9), 50.0)], dim=1)
    log_probs = logits.log_softmax(dim=-1)
    real = [(0, 0, 5), (0, 1, 6), (0, 2, 2), (1, 0, 7), (1, 1, 2)]
    expected = -sum(log_probs[index] for index in real) / len(real)
    assert sequence_loss(logits, tgt_out, 0) == pytest.approx(expected)
    for smoothing in (0.0, 0.1):
        assert torch.equal(
            sequence_loss(logits, tgt_out, 0, smoothing), sequence_loss(more_logits, more_padding, 0, smoothing)
        )


def test_label_smoothing_asks_for_a_little_of_every_token():
    logits = torch.randn(1, 1, 9, generator=generator())
    asked = torch.full((9,), 0.1 / 9)
    asked[4] += 0.9
    expected = -(asked * logits[0, 0].log_softmax(dim=-1)).sum()
    assert sequence_loss(logits, torch.tensor([[4]]), 0, 0.1) == pytest.approx(expected)


# One step


def test_a_step_records_what_it_did():
    trainer = trainer_of(clip_norm=0.01)
    untrained = trainer.model.state_dict()["src_embedding.tokens.weight"].clone()
    record = trainer.train_step()
    assert (record.step, trainer.step) == (1, 1)
    assert record.learning_rate == learning_rate_at(1, trainer.training_config)
    assert record.loss == pytest.approx(math.log(36), abs=2.0)  # an untrained network guesses
    clipped = torch.cat([parameter.grad.flatten() for parameter in trainer.learner.parameters()]).norm()
    assert record.gradient_norm > 0.1
    assert clipped == pytest.approx(0.01, rel=1e-3)
    moved = (trainer.model.state_dict()["src_embedding.tokens.weight"] - untrained).abs().max()
    assert 0 < moved <= record.learning_rate * 1.01  # Adam's first step is the rate at most


def test_the_loss_of_a_step_is_that_of_the_true_tokens_before_each():
    trainer = trainer_of()
    batch = COPY.batch(trainer.batch_generator, 8, 4)
    expected = sequence_loss(trainer.model(batch.src, batch.tgt_in), batch.tgt_out, 0).item()
    again = trainer_of()
    assert again.train_step().loss == pytest.approx(expected)


def test_dropout_draws_from_its_own_generator_and_from_no_other():
    trainer = trainer_of(replace(TINY, dropout=0.2))
    before = torch.get_rng_state()
    trainer.train_step()
    assert torch.equal(torch.get_rng_state(), before)
    dropout = training.Dropout(0.25, generator())
    dropped = dropout(torch.ones(10_000))
    assert dropped.unique().tolist() == pytest.approx([0, 4 / 3])
    assert dropped.mean() == pytest.approx(1.0, abs=0.03)
    assert torch.equal(dropout.eval()(torch.ones(5)), torch.ones(5))


def test_the_model_is_a_running_mean_of_the_weights_that_learn():
    trainer = trainer_of()
    mean = None
    for step in range(1, 6):
        trainer.train_step()
        latest = trainer.learner.unembed.weight.detach().double()
        share = 10 / (step + 9)
        mean = latest if mean is None else (1 - share) * mean + share * latest
    assert torch.allclose(trainer.model.unembed.weight.double(), mean, atol=1e-6)
    assert not torch.allclose(latest, mean, atol=1e-4)
    latest_only = trainer_of(average_weights=False)
    for _ in range(5):
        latest_only.train_step()
    assert torch.equal(latest_only.model.unembed.weight.double(), latest)


# The loop


def test_every_step_and_evaluation_is_yielded_and_kept():
    trainer = trainer_of()
    events = list(trainer.run())
    kinds = [(type(event), event.step) for event in events]
    steps = [(StepRecord, step) for step in range(1, 9)]
    assert kinds == [
        (Evaluation, 0), *steps[:3], (Evaluation, 3), *steps[3:6], (Evaluation, 6), *steps[6:], (Evaluation, 8)
    ]
    assert [event for event in events if isinstance(event, StepRecord)] == trainer.history.steps
    assert [event for event in events if isinstance(event, Evaluation)] == trainer.history.evaluations
    assert trainer.reason_to_stop() == "steps"
    seconds = [event.seconds for event in events]
    assert seconds == sorted(seconds)


def test_the_same_seed_gives_the_same_training_and_another_seed_another():
    first, second, other = trainer_of(), trainer_of(), trainer_of(seed=1)
    for trainer in (first, second, other):
        list(trainer.run())
    assert same(weights(first), weights(second))
    assert without_seconds(first.history) == without_seconds(second.history)
    assert not same(weights(first), weights(other))


def test_an_evaluation_is_of_unseen_sequences_the_model_writes_itself():
    trainer = trainer_of()
    evaluation = trainer.evaluate()
    assert trainer.evaluation_pairs == COPY.pairs("valid", 12, 0, max_length=4)
    results = write_all(trainer.model, COPY, trainer.evaluation_pairs)
    assert evaluation.n == len(results) == 12
    assert evaluation.exact_match == sum(result.written == result.expected for result in results) / 12
    measured = loss_and_accuracy(trainer.model, COPY, trainer.evaluation_pairs)
    assert (evaluation.loss, evaluation.token_accuracy) == measured
    assert {(sample.source, sample.written) for sample in evaluation.samples} <= {
        (result.source, result.written) for result in results
    }


def test_a_missing_eos_is_not_an_exact_match():
    trainer = trainer_of()
    with torch.no_grad():  # a network that writes the symbol "0" for ever
        trainer.model.decoder.final_norm.weight.zero_()
        trainer.model.decoder.final_norm.bias.copy_(trainer.model.tgt_embedding.tokens.weight[4] * 100)
    (result,) = write_all(trainer.model.eval(), COPY, [("0 0 0", "0 0 0")])
    assert result.written.split()[:3] == ["0", "0", "0"]
    assert not result.is_exact


def scripted(monkeypatch, values: list[float]) -> None:
    """Let the evaluations of a training give these exact matches, one after the other."""
    script = iter(values)
    monkeypatch.setattr(training, "exact_match", lambda results: next(script))


def test_it_stops_early_when_evaluations_get_no_better(monkeypatch):
    scripted(monkeypatch, [0.0, 0.5, 0.4, 0.3, 0.2])
    trainer = trainer_of(steps=100, evaluate_every=1, patience=2)
    list(trainer.run())
    assert (trainer.step, trainer.reason_to_stop()) == (3, "patience")
    at_the_end = weights(trainer)
    trainer.restore_best()
    one_step = trainer_of(steps=100, evaluate_every=1)
    one_step.train_step()
    assert same(weights(trainer), weights(one_step))
    assert not same(weights(trainer), at_the_end)
    meta = trainer.checkpoint("best").meta
    assert (meta["steps"], meta["validation"]["step"], meta["validation"]["exact_match"]) == (1, 1, 0.5)


def test_it_stops_when_the_target_is_reached(monkeypatch):
    scripted(monkeypatch, [0.0, 0.9, 0.96])
    trainer = trainer_of(steps=100, evaluate_every=2, target_exact_match=0.95)
    list(trainer.run())
    assert (trainer.step, trainer.reason_to_stop()) == (4, "target")


def test_one_batch_alone_is_learnt_by_heart():
    config = TrainingConfig(
        steps=400, batch_size=8, learning_rate=1e-2, warmup_steps=20, max_length=4, evaluate_every=100,
        label_smoothing=0.1,
    )
    trainer = Trainer(COPY, TINY, config, fixed_batch=True)
    list(trainer.run())
    assert trainer.reason_to_stop() == "fitted"
    assert trainer.history.steps[-1].loss < 0.01
    assert trainer.history.evaluations[-1].exact_match == 1.0


# Divergence


def test_a_rate_that_makes_the_loss_explode_is_caught_and_said():
    trainer = trainer_of(learning_rate=1e3, steps=100)
    with pytest.raises(TrainingDiverged, match=r"The loss became \S+ in step \d+ at a learning rate of \S+:") as caught:
        list(trainer.run())
    assert caught.value.values["step"] == trainer.step + 1
    assert all(value.isfinite().all() for value in weights(trainer))
    assert same(weights(trainer), list(trainer.best_weights.values()))


def test_a_loss_that_is_no_number_is_caught_before_it_reaches_the_weights():
    trainer = trainer_of()
    events = trainer.run()
    next(events)
    best = weights(trainer)
    with torch.no_grad():
        trainer.learner.tgt_embedding.tokens.weight.fill_(math.nan)
    with pytest.raises(TrainingDiverged, match="The loss became nan in step 1"):
        list(events)
    assert same(weights(trainer), best)
    assert trainer.history.steps == []


# Checkpoints and going on


def test_a_checkpoint_is_a_copy_that_tells_how_it_came_about():
    trainer = trainer_of(replace(TINY, dropout=0.1))
    list(trainer.run())
    checkpoint = trainer.checkpoint("mine", command="by hand")
    kept = [value.clone() for value in checkpoint.model.state_dict().values()]
    trainer.train_step()
    assert same(kept, list(checkpoint.model.state_dict().values()))
    assert not same(kept, weights(trainer))
    assert (checkpoint.name, checkpoint.task) == ("mine", "copy")
    meta = checkpoint.meta
    assert (meta["seed"], meta["steps"], meta["command"]) == (0, 8, "by hand")
    assert TrainingConfig.from_dict(meta["training"]) == trainer.training_config
    assert meta["validation"]["exact_match"] == trainer.history.evaluations[-1].exact_match
    assert not any(isinstance(module, training.Dropout) for module in checkpoint.model.modules())


def test_a_history_survives_json():
    trainer = trainer_of()
    list(trainer.run())
    assert History.from_dict(json.loads(json.dumps(trainer.history.to_dict()))) == trainer.history


@pytest.mark.parametrize(("stopped_at", "average_weights"), [(0, True), (2, True), (3, True), (8, True), (2, False)])
def test_a_resumed_training_equals_one_that_was_never_stopped(tmp_path, stopped_at, average_weights):
    with_dropout = replace(TINY, dropout=0.1)
    through = trainer_of(with_dropout, average_weights=average_weights)
    list(through.run())

    stopped = trainer_of(with_dropout, average_weights=average_weights)
    for event in stopped.run():
        if event.step == stopped_at:
            break
    save_state(stopped, tmp_path)
    resumed = load_state(tmp_path, COPY)
    list(resumed.run())

    assert same(weights(resumed), weights(through))
    assert same(list(resumed.best_weights.values()), list(through.best_weights.values()))
    assert without_seconds(resumed.history) == without_seconds(through.history)
    assert dataclasses.asdict(resumed.training_config) == dataclasses.asdict(through.training_config)


def test_a_write_that_fails_leaves_the_state_before(tmp_path, monkeypatch):
    trainer = trainer_of()
    trainer.train_step()
    save_state(trainer, tmp_path)
    trainer.train_step()
    monkeypatch.setattr("os.fsync", fail_to_write)
    with pytest.raises(OSError, match="disk is full"):
        save_state(trainer, tmp_path)
    assert load_state(tmp_path, COPY).step == 1


def fail_to_write(_file: int) -> None:
    raise OSError("the disk is full")


@pytest.mark.parametrize("damage", [b"", b"not a file of tensors", None])
def test_a_state_that_cannot_be_read_is_refused_with_a_sentence(tmp_path, damage):
    save_state(trainer_of(), tmp_path)
    file = tmp_path / STATE_FILE
    file.write_bytes(file.read_bytes()[:-1] if damage is None else damage)
    with pytest.raises(InputError, match="cannot go on"):
        load_state(tmp_path, COPY)


def test_there_is_nothing_to_go_on_with_in_an_empty_folder(tmp_path):
    with pytest.raises(InputError, match="no interrupted training"):
        load_state(tmp_path, COPY)
