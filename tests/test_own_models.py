"""A model of one's own: its two files open again as the same model, and nothing else opens."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from test_training_worker import NEVER, job_of
from transformer.checkpoints import META_FILE, WEIGHTS_FILE, Checkpoint, checkpoint_files
from transformer.errors import InputError
from transformer.tracing import trace_text
from viz.tabs.language import say_error
from viz.tabs.own_models import LARGEST_UPLOAD, PICKLES, opened_checkpoint
from viz.tabs.runs import trained_length
from viz.tabs.training_worker import training_events


@pytest.fixture(scope="module")
def trained() -> Checkpoint:
    return list(training_events(job_of(steps=10, max_length=4), NEVER))[-1].checkpoint


@pytest.fixture
def files(trained, tmp_path) -> list[Path]:
    paths = []
    for name, content in checkpoint_files(trained).items():
        (tmp_path / name).write_bytes(content)
        paths.append(tmp_path / name)
    return paths


def refusal(paths: list[Path]) -> InputError:
    with pytest.raises(InputError) as caught:
        opened_checkpoint([str(path) for path in paths])
    for language in ("en", "zh"):
        assert say_error(language, caught.value)
    return caught.value


def test_a_download_opens_again_as_a_model_that_writes_and_attends_the_same(trained, files):
    for paths in (files, files[::-1]):
        opened = opened_checkpoint([str(path) for path in paths])
        before, after = trace_text(trained, "3 1 7", max_steps=6), trace_text(opened, "3 1 7", max_steps=6)
        assert [step.token for step in after.steps] == [step.token for step in before.steps]
        for kind, weights in before.patterns.items():
            np.testing.assert_array_equal(after.patterns[kind], weights)
        assert opened.task == "copy"


def test_the_lengths_a_model_was_trained_on_come_along(files):
    opened = opened_checkpoint([str(path) for path in files])
    assert trained_length(opened) == 4
    assert opened.meta["trained_lengths"] == [1, 4]


@pytest.mark.parametrize("suffix", sorted(PICKLES))
def test_a_pickle_is_refused_by_name_and_never_opened(files, tmp_path, suffix):
    class Trap:
        def __reduce__(self):
            return Path.touch, (tmp_path / "sprung",)

    trap = tmp_path / f"model{suffix.upper()}"
    trap.write_bytes(pickle.dumps(Trap()))
    error = refusal([trap, files[1]])
    assert (error.code, error.values["name"]) == ("upload_pickle", trap.name)
    assert not (tmp_path / "sprung").exists()


def test_a_pickle_that_calls_itself_safetensors_is_not_opened_either(files, tmp_path):
    class Trap:
        def __reduce__(self):
            return Path.touch, (tmp_path / "sprung",)

    files[0].write_bytes(pickle.dumps(Trap()))
    assert refusal(files).code == "checkpoint_invalid"
    assert not (tmp_path / "sprung").exists()


def test_one_file_or_three_are_refused_saying_how_many_came(files):
    assert (refusal(files[:1]).code, refusal(files[:1]).values["n"]) == ("upload_count", 1)
    assert refusal([*files, files[0]]).values["n"] == 3
    assert refusal([]).values["n"] == 0


def test_two_files_of_other_kinds_are_refused_by_name(files, tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("hello")
    assert refusal([files[0], other]).code == "upload_names"
    assert "notes.txt" in str(refusal([files[0], other]))
    assert refusal([files[1], files[1]]).code == "upload_names"


def test_files_over_the_limit_are_refused_before_they_are_read(files, monkeypatch):
    with files[0].open("r+b") as file:
        file.truncate(LARGEST_UPLOAD * 1_000_000 + 1)

    def read(self):
        raise AssertionError("read")

    monkeypatch.setattr(Path, "read_bytes", read)
    assert (refusal(files).code, refusal(files).values) == ("file_too_large", {"limit": 20, "size": "20.0"})


@pytest.mark.parametrize("break_", ["cut", "empty", "other weights", "no json", "no config", "wider config"])
def test_malformed_files_are_refused_with_a_reason(files, break_):
    weights, meta = files
    described = json.loads(meta.read_text())
    if break_ == "cut":
        weights.write_bytes(weights.read_bytes()[:-10])
    elif break_ == "empty":
        weights.write_bytes(b"")
    elif break_ == "other weights":
        described["sha256"] = "0" * 64
    elif break_ == "no config":
        del described["config"]
    elif break_ == "wider config":
        described["config"]["d_model"] = 16
    meta.write_text("{" if break_ == "no json" else json.dumps(described))
    error = refusal(files)
    assert error.code == "checkpoint_invalid"
    assert error.values["reason"]


def test_the_names_of_the_files_are_fixed(trained):
    assert list(checkpoint_files(trained)) == [WEIGHTS_FILE, META_FILE] == ["model.safetensors", "meta.json"]
