"""The command line: what it prints, what it refuses and how, and a training that is stopped and goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from transformer import command_training
from transformer.__main__ import main
from transformer.checkpoints import load_checkpoint, shipped_checkpoint
from transformer.config import TransformerConfig
from transformer.history import History
from transformer.tasks import TASKS
from transformer.tasks.base import Preset
from transformer.tasks.sequences import sequence_model
from transformer.trace_files import load_trace
from transformer.training_config import TrainingConfig
from transformer.training_state import load_state

PROJECT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    """The command line chooses a number of threads; the tests keep theirs."""
    monkeypatch.setenv("GLASSFORMER_THREADS", "1")


@pytest.fixture
def json_of(capsys):
    """Follow a command line and give back the JSON it printed."""

    def follow(*words: str) -> dict:
        assert main([*words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return follow


@pytest.fixture
def small_copy(monkeypatch):
    """The copy task with a tiny network and a short training."""
    model = sequence_model(d_model=16, n_heads=2, d_ff=16, n_encoder_layers=1, n_decoder_layers=1)
    training = TrainingConfig(steps=6, batch_size=4, max_length=4, evaluate_every=2, evaluation_size=6)
    small = replace(TASKS["copy"], preset=Preset(model, training), n_test=100)
    monkeypatch.setitem(TASKS, "copy", small)
    return small


@pytest.fixture
def small_translation(monkeypatch):
    """en-zh with a tiny network and a short training."""
    model = TransformerConfig(4, 4, d_model=16, n_heads=2, d_ff=16, n_encoder_layers=1, n_decoder_layers=1)
    training = TrainingConfig(steps=4, batch_size=4, max_length=24, evaluate_every=2, evaluation_size=6, accumulate=2)
    small = replace(TASKS["en-zh"], preset=Preset(model, training, torch.float16))
    monkeypatch.setitem(TASKS, "en-zh", small)
    monkeypatch.delenv("GLASSFORMER_DATA", raising=False)
    return small


@pytest.fixture
def pairs_file(tmp_path):
    """A file of pairs with its splits: 8 to train on, 2 valid, 2 test."""
    path = tmp_path / "pairs.tsv"
    splits = ["train"] * 8 + ["valid"] * 2 + ["test"] * 2
    rows = [f"{split}\tI have {n} cats.\t我有{n}只猫。" for n, split in enumerate(splits)]
    path.write_text("\n".join(["split\ten\tzh", *rows]), encoding="utf-8")
    return path


# run, evaluate, info


@pytest.mark.parametrize(("name", "written"), [("copy", "3 1 7 3 10 2"), ("reverse", "2 10 3 7 1 3")])
def test_run_gives_tokens_as_the_model_reads_and_writes_them(json_of, name, written):
    result = json_of("run", name, "3 1 7 3 10 2")
    assert result["task"] == name
    assert result["src_tokens"] == ["3", "1", "7", "3", "10", "2", "<eos>"]
    assert result["tgt_tokens"] == [*written.split(), "<eos>"]
    assert result["text"] == written
    assert result["finished"] is True
    assert len(result["log_probs"]) == len(result["tgt_tokens"])
    assert sum(result["log_probs"]) == pytest.approx(result["log_prob"], abs=1e-12)


@pytest.mark.parametrize(
    "flags",
    [
        ("--search", "beam", "--beam-width", "1"),
        ("--search", "beam", "--beam-width", "4", "--length-penalty", "0.6"),
        ("--search", "sample", "--temperature", "0"),
        ("--search", "sample", "--top-k", "1", "--seed", "7"),
    ],
)
def test_every_search_of_the_command_line_finds_what_is_certain(json_of, flags):
    result = json_of("run", "copy", "3 1 7 3 10 2", *flags)
    assert result["text"] == "3 1 7 3 10 2"
    assert result["search"] == flags[1]
    assert sum(result["log_probs"]) == pytest.approx(result["log_prob"], abs=1e-12)


def test_samples_at_a_high_temperature_differ_by_seed_and_repeat_with_it(json_of):
    flags = ("run", "copy", "3 1 7 3 10 2", "--search", "sample", "--temperature", "50", "--seed")
    first, again, other = json_of(*flags, "1"), json_of(*flags, "1"), json_of(*flags, "2")
    assert first["tgt_tokens"] == again["tgt_tokens"]
    assert first["tgt_tokens"] != other["tgt_tokens"]


def test_the_log_probabilities_of_run_are_those_of_one_full_forward_pass(json_of):
    result = json_of("run", "copy", "3 1 7 3 10 2")
    checkpoint = shipped_checkpoint("copy")
    batch = TASKS["copy"].encode([("3 1 7 3 10 2", "3 1 7 3 10 2")])
    with torch.inference_mode():
        log_probs = checkpoint.model(batch.src, batch.tgt_in).log_softmax(dim=-1)[0]
    expected = log_probs.gather(1, batch.tgt_out[0][:, None])[:, 0].tolist()
    assert result["log_probs"] == pytest.approx(expected, abs=1e-5)


def test_run_prints_the_text_and_says_when_it_is_longer_than_trained_for(capsys):
    assert main(["run", "copy", "3 1 7"]) == 0
    assert capsys.readouterr().out == "3 1 7\n"
    assert main(["run", "copy", " ".join(["5"] * 25)]) == 0
    assert "trained on 1 to 20 tokens, this text has 25" in capsys.readouterr().err


def test_run_shows_what_is_not_in_the_vocabulary_as_unknown(json_of):
    assert json_of("run", "copy", "3 每 </s> 4")["src_tokens"] == ["3", "<unk>", "<unk>", "4", "<eos>"]


def test_run_saves_the_trace_it_printed(json_of, tmp_path):
    file = tmp_path / "run.json"
    result = json_of("run", "copy", "4 4 2", "--trace", str(file))
    trace = load_trace(file)
    assert (list(trace.src_tokens), trace.output_text) == (result["src_tokens"], result["text"])


def test_evaluate_measures_unseen_sequences_and_every_length(json_of):
    result = json_of("evaluate", "copy", "--limit", "60")
    assert (result["task"], result["metric"], result["n"], result["split"]) == ("copy", "exact_match", 60, "test")
    assert list(result["by_length"]) == [str(length) for length in range(1, 21)]
    assert sum(part["n"] for part in result["by_length"].values()) == 60
    mean = sum(part["value"] * part["n"] for part in result["by_length"].values()) / 60
    assert result["value"] == pytest.approx(mean)


def test_info_names_the_tasks_and_describes_their_models(json_of, capsys):
    assert [entry["task"] for entry in json_of("info")["tasks"]] == list(TASKS)
    entry = json_of("info", "copy")
    assert entry["lengths"] == [1, 20]
    assert entry["model"]["n_parameters"] == shipped_checkpoint("copy").n_parameters
    assert main(["info", "copy"]) == 0
    assert "copy: lengths 1 to 20" in capsys.readouterr().out


# What is refused


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], "arguments are required"),
        (["translate"], "translate"),
        (["run", "sort", "1"], "'sort', expected one of: copy, reverse"),
        (["run", "copy"], "TEXT"),
        (["run", "copy", ""], "no tokens"),
        (["run", "copy", " \t\n "], "no tokens"),
        (["run", "copy", " ".join(["1"] * 64)], "at most 63 tokens, this text has 64"),
        (["run", "copy", "1" * 300], "256 characters, this one has 300"),
        (["run", "copy", "1", "--search", "beam", "--beam-width", "17"], "from 1 to 16, got '17'"),
        (["run", "copy", "1", "--search", "sample", "--temperature", "-1"], "of at least 0 and at most 100"),
        (["run", "copy", "1", "--search", "sample", "--top-p", "0"], "above 0 and at most 1"),
        (["run", "copy", "1", "--temperature", "1"], "--temperature belongs to --search sample"),
        (["run", "copy", "1", "--search", "guess"], "guess"),
        (["run", "copy", "1", "--beam-width", "0"], "from 1 to 16, got '0'"),
        (["run", "copy", "1", "--beam-width", "2"], "--beam-width belongs to --search beam"),
        (["run", "copy", "1", "--temperature", "nan"], "at most 100, got 'nan'"),
        (["run", "copy", "1", "--top-p", "1.5"], "above 0 and at most 1, got '1.5'"),
        (["run", "copy", "1", "--top-k", "few"], "at least 1, got 'few'"),
        (["run", "copy", "1", "--seed", "-1"], "got '-1'"),
        (["run", "copy", "1", "--device", "abacus"], "'abacus' device"),
        (["run", "copy", "1", "--trace", "/no/such/folder/run.json"], "/no/such/folder/run.json"),
        (["run", "copy", "1", "--checkpoint", "/no/such/folder"], "no model in /no/such/folder"),
        (["run", "copy", "1", "--chec", "x"], "--chec"),
        (["evaluate", "copy", "--limit", "0"], "from 1 to 100000, got '0'"),
        (["evaluate", "copy", "--pairs", "pairs.tsv"], "leave --pairs out"),
        (["info", "sort"], "'sort'"),
        (["train", "copy", "--steps", "0"], "at least 1, got '0'"),
        (["train", "copy", "--pairs", "pairs.tsv"], "leave --pairs out"),
        (["train", "copy", "--out", "/dev/null/here"], "/dev/null"),
        (["train", "copy", "--out", "/no/such/folder", "--resume"], "no interrupted training"),
    ],
)
def test_input_that_cannot_be_used_is_refused_with_one_sentence(capsys, words, named):
    assert main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert named in printed.err
    assert printed.err.count("\n") == 1
    assert printed.err.rstrip().endswith((".", ")."))


def test_a_checkpoint_of_another_task_is_refused(capsys):
    folder = PROJECT / "checkpoints" / "copy"
    assert main(["run", "reverse", "1 2", "--checkpoint", str(folder)]) == 2
    assert "is of 'copy', not 'reverse'" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["0", "two", "-1", "1.5"])
def test_an_odd_number_of_threads_is_refused(capsys, monkeypatch, value):
    monkeypatch.setenv("GLASSFORMER_THREADS", value)
    assert main(["info"]) == 2
    assert f"GLASSFORMER_THREADS must be a whole number from 1 to 1024, got {value!r}" in capsys.readouterr().err


# train


def test_train_leaves_a_model_its_history_and_a_log(json_of, small_copy, tmp_path, capsys):
    result = json_of("train", "copy", "--out", str(tmp_path), "--seed", "3")
    assert (result["finished"], result["steps"], result["n"]) == (True, 6, 100)
    checkpoint = load_checkpoint(tmp_path)
    assert checkpoint.meta["command"] == "python -m transformer train copy --steps 6 --seed 3"
    assert checkpoint.meta["metrics"]["exact_match"]["value"] == result["value"]
    history = History.from_dict(json.loads((tmp_path / "history.json").read_text()))
    assert [record.step for record in history.steps] == [1, 2, 3, 4, 5, 6]
    log = (tmp_path / "training.log").read_text()
    assert "seed 3" in log
    assert "step     4/6  unseen: exact match" in log
    assert "left]" in log
    assert log.rstrip().endswith(f"it is in {tmp_path}.")
    assert json_of("evaluate", "copy", "--checkpoint", str(tmp_path))["value"] == result["value"]


def test_a_translation_is_trained_and_evaluated_on_files_of_pairs(
    json_of, small_translation, pairs_file, tmp_path, capsys
):
    out = str(tmp_path / "model")
    result = json_of("train", "en-zh", "--pairs", str(pairs_file), "--out", out)
    assert (result["metric"], result["n"], result["finished"]) == ("bleu", 2, True)
    checkpoint = load_checkpoint(tmp_path / "model")
    assert checkpoint.meta["pairs"] == {"train": 8, "valid": 2, "test": 2}
    assert checkpoint.meta["metrics"]["bleu"]["value"] == result["value"]

    again = json_of("evaluate", "en-zh", "--pairs", str(pairs_file), "--checkpoint", out)
    assert (again["value"], again["n"], again["split"]) == (result["value"], 2, "test")
    assert set(again["scores"]) == {"bleu", "chrf", "exact_match"}

    unseen = tmp_path / "mine.tsv"
    unseen.write_text("Hello.\t你好。\n\t空\nI have tea.\t我有茶。\nGood night!\t晚安！\n", encoding="utf-8")
    own = json_of("evaluate", "en-zh", "--pairs", str(unseen), "--checkpoint", out, "--search", "beam")
    assert (own["n"], own["split"], own["search"]) == (3, "all", "beam")
    assert main(["evaluate", "en-zh", "--pairs", str(unseen), "--checkpoint", out]) == 0
    printed = capsys.readouterr()
    assert "bleu" in printed.out
    assert "1 line was left out" in printed.err


def test_pairs_that_are_nowhere_are_asked_for_with_exit_status_2(small_translation, capsys, tmp_path):
    assert main(["train", "en-zh", "--out", str(tmp_path)]) == 2
    sentence = capsys.readouterr().err
    assert all(word in sentence for word in ("--pairs", "GLASSFORMER_DATA", "tatoeba_en_zh.tsv", "manythings.org"))
    assert main(["train", "en-zh", "--out", str(tmp_path), "--pairs", str(tmp_path / "none.tsv")]) == 2
    assert "none.tsv cannot be read" in capsys.readouterr().err


def test_training_needs_pairs_to_judge_it_by(small_translation, capsys, tmp_path):
    path = tmp_path / "one.tsv"
    path.write_text("split\ten\tzh\ntrain\tHi.\t你好。\n", encoding="utf-8")
    assert main(["train", "en-zh", "--pairs", str(path), "--out", str(tmp_path)]) == 2
    assert "none in one of them" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_training_is_not_overwritten_and_goes_on_as_if_never_stopped(
    json_of, small_copy, tmp_path, capsys, monkeypatch, number
):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    json_of("train", "copy", "--out", str(whole))

    monkeypatch.setattr(command_training, "SECONDS_BETWEEN_LINES", 0.0)
    # A signal that arrives while a line is being written, after step 3.
    line_of = command_training._step_line

    def interrupted(record, trainer):
        if record.step == 3:
            os.kill(os.getpid(), number)
        return line_of(record, trainer)

    monkeypatch.setattr(command_training, "_step_line", interrupted)
    assert main(["train", "copy", "--out", str(parts)]) == 0
    assert f"Stopped at step 3 of 6 and saved; go on with: python -m transformer train copy --out {parts} --resume" in (
        capsys.readouterr().err
    )
    monkeypatch.setattr(command_training, "_step_line", line_of)

    assert main(["train", "copy", "--out", str(parts)]) == 2
    assert "stopped at step 3: go on with --resume" in capsys.readouterr().err
    assert main(["train", "reverse", "--out", str(parts), "--resume"]) == 2
    assert "it is a training of copy, not of reverse" in capsys.readouterr().err
    assert main(["train", "copy", "--out", str(parts), "--resume", "--seed", "9"]) == 2
    assert "has seed 0" in capsys.readouterr().err

    assert json_of("train", "copy", "--out", str(parts), "--resume")["finished"] is True
    assert (parts / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_resume_with_more_steps_trains_on(json_of, small_copy, tmp_path):
    json_of("train", "copy", "--out", str(tmp_path))
    assert json_of("train", "copy", "--out", str(tmp_path), "--resume")["steps"] == 6
    assert json_of("train", "copy", "--out", str(tmp_path), "--resume", "--steps", "8")["steps"] == 8


# As a program


def program(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "transformer", *words], cwd=PROJECT, capture_output=True, text=True, timeout=240
    )


def test_the_program_ends_with_status_2_and_no_traceback():
    ended = program("run", "copy", "")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "Type something to translate: this text has no tokens in it.\n"


def test_a_signal_ends_a_real_training_cleanly(tmp_path):
    log = tmp_path / "training.log"
    process = subprocess.Popen(
        [sys.executable, "-m", "transformer", "train", "copy", "--out", str(tmp_path)],
        cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    try:
        deadline = time.monotonic() + 200
        while not (log.is_file() and "step     0/" in log.read_text()) and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=200)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "Traceback" not in errors
    assert "--resume" in errors
    assert load_state(tmp_path, TASKS["copy"]).reason_to_stop() is None


def test_a_stopped_translation_goes_on_with_the_command_it_names(
    json_of, small_translation, pairs_file, tmp_path, capsys, monkeypatch
):
    folder = tmp_path / "model"
    monkeypatch.setattr(command_training, "SECONDS_BETWEEN_LINES", 0.0)
    line_of = command_training._step_line

    def interrupted(record, trainer):
        if record.step == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return line_of(record, trainer)

    monkeypatch.setattr(command_training, "_step_line", interrupted)
    assert main(["train", "en-zh", "--pairs", str(pairs_file), "--out", str(folder)]) == 0
    command = capsys.readouterr().err.rstrip().rsplit("go on with: ", 1)[1]
    monkeypatch.setattr(command_training, "_step_line", line_of)
    assert json_of(*command.split()[3:])["finished"] is True
