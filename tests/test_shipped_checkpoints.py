"""The shipped models: what their meta.json states is measured again from the file itself."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from transformer.checkpoints import CHECKPOINTS_FOLDER, shipped_checkpoint, shipped_names
from transformer.evaluation import exact_match_by_length, write_all
from transformer.search import Search
from transformer.tasks import TASKS
from transformer.tasks.en_zh import LESSON
from transformer.tasks.pairs import FOLDER_VARIABLE
from transformer.tracing import trace_text
from transformer.training_config import TrainingConfig

SEQUENCES = ("copy", "reverse")
TRANSLATIONS = ("en-zh", "en-de")
REQUIRED = {"copy": 0.995, "reverse": 0.99, "dates": 0.98, "en-zh": 42, "en-de": 48}
LONG = "26 10 4 5 0 5 28 25 25 9 26 11 6 24 4 10 30 25 28 21"
GOLDEN = ("3 1 7 3 10 2", "9", "5 5 5 5", "4 4 24 24", "7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7", LONG)
GOLDEN_DATES = {
    "March 3, 1999": "1999-03-03", "03/04/99": "1999-03-04", "3 Mar 1999": "1999-03-03", "1999年3月3日": "1999-03-03",
    "the 21st of July 2023": "2023-07-21", "二〇二四年十二月三十一日": "2024-12-31", "20010911": "2001-09-11",
    "FRIDAY, JANUARY 1, 2016": "2016-01-01", "2008.8.8": "2008-08-08", "2030年10月1日星期二": "2030-10-01",
}

# Sentences of our own, with what the models made of them when they were shipped, the mistakes included.
GOLDEN_TRANSLATIONS = (
    ("en-zh", "Where is the station?", "车站在哪里？"),
    ("en-zh", "I would like a cup of coffee, please.", "请给我一杯咖啡。"),
    ("en-zh", "The weather is nice today.", "今天天气很好。"),
    ("en-zh", "What time does the train leave?", "火车什么时候出发？"),
    ("en-zh", "My brother plays the guitar.", "我哥哥弹吉他。"),
    ("en-zh", "He doesn't want to talk about it.", "他不想谈论它。"),
    ("en-zh", "She is the most beautiful woman I have ever seen.", "她大多数女人都很美。"),
    ("en-de", "I would like a cup of coffee, please.", "Ich möchte gerne eine Tasse Kaffee."),
    ("en-de", "Where is the station?", "Wo ist der Bahnhof?"),
    ("en-de", "The weather is nice today.", "Das Wetter ist heute schön."),
    ("en-de", "What time does the train to Berlin leave?", "Wann fährt der Zug zum Bahnhof ab?"),
    ("en-de", "He doesn't want to talk about it.", "Er will nicht darüber sprechen."),
    ("en-de", "Can you help me find my keys?", "Kannst du mir meine Schlüssel helfen?"),
    ("en-de", "If it rains tomorrow, we will stay at home.", "Wenn es morgen regnet, werde wir zu Hause bleiben."),
)


def folder_of_pairs() -> Path | None:
    """Where the sentence pairs are, on a machine that has them: they are not part of the project."""
    folders = (os.environ.get(FOLDER_VARIABLE), CHECKPOINTS_FOLDER.parents[1] / "shared" / "data")
    return next((Path(folder) for folder in folders if folder and (Path(folder) / "tatoeba_en_zh.tsv").is_file()), None)


PAIRS = folder_of_pairs()
WITH_PAIRS = [name for name in REQUIRED if name not in TRANSLATIONS or PAIRS is not None]


def ready(name: str):
    """The shipped checkpoint of a task, and the task with its pairs and the checkpoint's vocabularies."""
    checkpoint, of_task = shipped_checkpoint(name), TASKS[name]
    if name in TRANSLATIONS and PAIRS is not None:
        of_task = of_task.with_pairs(PAIRS / of_task.file_name)
    return checkpoint, of_task.with_vocabularies(checkpoint.src_tokenizer, checkpoint.tgt_tokenizer)


def test_every_task_has_its_model():
    assert set(shipped_names()) == set(REQUIRED) == set(TASKS)


@pytest.mark.parametrize("name", WITH_PAIRS)
def test_the_stated_scores_are_what_the_file_gives(name):
    checkpoint, of_task = ready(name)
    results = write_all(checkpoint.model, of_task, of_task.pairs("test", of_task.n_test, 0))
    stated = checkpoint.meta["metrics"]
    assert {metric: entry["value"] for metric, entry in stated.items()} == pytest.approx(of_task.scores(results))
    assert {entry["n"] for entry in stated.values()} == {len(results)}
    assert stated[of_task.metric]["value"] >= REQUIRED[name]
    by_length = exact_match_by_length(of_task, results)
    assert {str(length): {"value": value, "n": n} for length, (value, n) in by_length.items()} == (
        stated["exact_match"]["by_length"]
    )


@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize("text", GOLDEN)
def test_golden_texts_are_written_right_and_to_the_end(name, text):
    trace = trace_text(shipped_checkpoint(name), text)
    symbols = text.split()
    assert trace.output_text.split() == (symbols if name == "copy" else symbols[::-1])
    assert trace.finished


@pytest.mark.parametrize(("text", "day"), GOLDEN_DATES.items())
def test_golden_dates_are_read_right(text, day):
    assert trace_text(shipped_checkpoint("dates"), text).output_text == day


@pytest.mark.parametrize("typed", [str, str.capitalize, str.upper])
@pytest.mark.parametrize(("english", "chinese"), LESSON)
def test_the_pairs_of_every_first_lesson_come_out_right_however_typed(english, chinese, typed):
    assert trace_text(shipped_checkpoint("en-zh"), typed(english)).output_text == chinese


@pytest.mark.parametrize(("name", "text", "translation"), GOLDEN_TRANSLATIONS)
def test_golden_translations_stay_as_they_are(name, text, translation):
    trace = trace_text(shipped_checkpoint(name), text)
    assert trace.finished
    assert trace.output_text == translation


@pytest.mark.parametrize("name", REQUIRED)
def test_writing_many_at_once_is_writing_each_alone(name):
    checkpoint = shipped_checkpoint(name)
    of_task = TASKS[name].with_vocabularies(checkpoint.src_tokenizer, checkpoint.tgt_tokenizer)
    pairs = [(example, "") for example in of_task.examples]
    if name not in TRANSLATIONS:
        pairs = of_task.pairs("test", 20, 3)
    together = [result.written for result in write_all(checkpoint.model, of_task, pairs)]
    assert together == [trace_text(checkpoint, source).output_text for source, _ in pairs]


@pytest.mark.parametrize("name", TRANSLATIONS)
def test_beam_4_finds_what_the_model_holds_more_probable_than_greedy(name):
    checkpoint, of_task = ready(name)
    pairs = [(text, "") for of_name, text, _ in GOLDEN_TRANSLATIONS if of_name == name]
    if PAIRS is not None:
        pairs += of_task.pairs("test", 100, 0)
    batch = of_task.encode(pairs)
    limits = {
        "bos_id": of_task.tgt_tokenizer.bos_id, "eos_id": of_task.tgt_tokenizer.eos_id,
        "max_steps": of_task.most_steps(batch),
    }
    greedy = Search().write(checkpoint.model, batch.src, **limits)
    beam = Search("beam", beam_width=4).write(checkpoint.model, batch.src, **limits)
    gains = np.array([found.log_prob - first.log_prob for found, first in zip(beam, greedy, strict=True)])
    assert gains.mean() > 0
    assert (gains >= -1e-4).mean() >= 0.97  # a beam can lose the greedy path early, and seldom does


@pytest.mark.parametrize("name", SEQUENCES)
def test_some_head_of_the_cross_attention_looks_at_the_symbol_to_be_written(name):
    trace = trace_text(shipped_checkpoint(name), LONG)
    cross = trace.patterns["cross"]  # [L, H, T, S]
    n_symbols = len(LONG.split())
    asked_for = np.arange(n_symbols) if name == "copy" else np.arange(n_symbols)[::-1]
    strongest = cross[:, :, :n_symbols].argmax(axis=-1)  # [L, H, T]
    assert (strongest == asked_for).mean(axis=-1).max() >= 0.95
    on_the_line = cross[:, :, np.arange(n_symbols), asked_for].mean(axis=-1)  # [L, H]
    assert on_the_line.max() > 0.5  # more than on all other symbols together


@pytest.mark.parametrize("name", REQUIRED)
def test_a_shipped_model_says_how_it_came_about_and_is_small(name):
    meta = shipped_checkpoint(name).meta
    of_task = TASKS[name]
    training = TrainingConfig.from_dict(meta["training"])
    assert meta["command"] == f"python -m transformer train {name} --steps {training.steps} --seed {training.seed}"
    assert training == of_task.preset.training
    sizes = {"src_vocab_size": meta["config"]["src_vocab_size"], "tgt_vocab_size": meta["config"]["tgt_vocab_size"]}
    assert meta["config"] == {**of_task.preset.model.to_dict(), **sizes}
    assert meta["trained_lengths"] == [of_task.min_length, of_task.max_length]
    assert meta["seed"] == training.seed
    assert 0 < meta["steps"] == meta["validation"]["step"] <= training.steps
    assert {"torch", "threads", "training_seconds", "device", "sha256"} <= set(meta)
    assert meta["data"] == of_task.data
    assert ("pairs_sha256" in meta) == (name in TRANSLATIONS)
    assert sum(file.stat().st_size for file in (CHECKPOINTS_FOLDER / name).iterdir()) < 10_000_000
