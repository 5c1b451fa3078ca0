"""The shipped models of copy and reverse: what their meta.json states is measured again from the file itself."""

from __future__ import annotations

import numpy as np
import pytest

from transformer.checkpoints import CHECKPOINTS_FOLDER, shipped_checkpoint
from transformer.evaluation import exact_match_by_length, write_all
from transformer.metrics import exact_match
from transformer.tasks import TASKS
from transformer.tracing import trace_text
from transformer.training_config import TrainingConfig

REQUIRED = {"copy": 0.995, "reverse": 0.99}
LONG = "26 10 4 5 0 5 28 25 25 9 26 11 6 24 4 10 30 25 28 21"
GOLDEN = ("3 1 7 3 10 2", "9", "5 5 5 5", "4 4 24 24", "7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7", LONG)


@pytest.mark.parametrize("name", REQUIRED)
def test_the_stated_exact_match_is_what_the_file_gives(name):
    checkpoint, of_task = shipped_checkpoint(name), TASKS[name]
    results = write_all(checkpoint.model, of_task, of_task.pairs("test", 1000, 0))
    stated = checkpoint.meta["metrics"]["exact_match"]
    by_length = exact_match_by_length(of_task, results)
    assert (exact_match(results), len(results)) == (stated["value"], stated["n"])
    assert {str(length): {"value": value, "n": n} for length, (value, n) in by_length.items()} == stated["by_length"]
    assert list(by_length) == list(range(of_task.min_length, of_task.max_length + 1))
    assert stated["value"] >= REQUIRED[name]


@pytest.mark.parametrize("name", REQUIRED)
@pytest.mark.parametrize("text", GOLDEN)
def test_golden_texts_are_written_right_and_to_the_end(name, text):
    trace = trace_text(shipped_checkpoint(name), text)
    symbols = text.split()
    assert trace.output_text.split() == (symbols if name == "copy" else symbols[::-1])
    assert trace.finished


@pytest.mark.parametrize("name", REQUIRED)
def test_writing_many_at_once_is_writing_each_alone(name):
    checkpoint, of_task = shipped_checkpoint(name), TASKS[name]
    pairs = of_task.pairs("test", 20, 3)
    together = [result.written for result in write_all(checkpoint.model, of_task, pairs)]
    assert together == [trace_text(checkpoint, source).output_text for source, _ in pairs]


@pytest.mark.parametrize("name", REQUIRED)
def test_some_head_of_the_cross_attention_looks_at_the_symbol_to_be_written(name):
    trace = trace_text(shipped_checkpoint(name), LONG)
    cross = trace.patterns["cross"]  # [L, H, T, S]
    n_symbols = len(LONG.split())
    asked_for = np.arange(n_symbols) if name == "copy" else np.arange(n_symbols)[::-1]
    strongest = cross[:, :, :n_symbols].argmax(axis=-1)  # [L, H, T]
    assert (strongest == asked_for).mean(axis=-1).max() >= 0.95
    on_the_line = cross[:, :, np.arange(n_symbols), asked_for].mean(axis=-1)  # [L, H]
    assert on_the_line.max() > 0.6


@pytest.mark.parametrize("name", REQUIRED)
def test_a_shipped_model_says_how_it_came_about_and_is_small(name):
    meta = shipped_checkpoint(name).meta
    training = TrainingConfig.from_dict(meta["training"])
    assert meta["command"] == f"python -m transformer train {name} --steps {training.steps} --seed {training.seed}"
    assert training == TASKS[name].preset.training
    assert meta["config"] == TASKS[name].preset.model.to_dict()
    assert meta["trained_lengths"] == [1, 20]
    assert meta["seed"] == training.seed
    assert 0 < meta["steps"] == meta["validation"]["step"] <= training.steps
    assert {"data", "torch", "threads", "training_seconds", "device", "sha256"} <= set(meta)
    assert sum(file.stat().st_size for file in (CHECKPOINTS_FOLDER / name).iterdir()) < 2_000_000
