"""Translation tasks: vocabularies from the training split alone, batches of one length, scores of sacrebleu."""

from __future__ import annotations

import pytest

from builders import generator
from transformer.errors import InputError
from transformer.metrics import Written
from transformer.tasks import TASKS
from transformer.tasks.en_zh import LESSON

PAIRS = [
    ("train", "Where is the station?", "车站在哪里？"),
    ("train", "I like tea.", "我喜欢茶。"),
    ("train", "Tom likes tea, too.", "汤姆也喜欢茶。"),
    ("valid", "I like Tom.", "我喜欢汤姆。"),
    ("test", "Where is Tom?", "汤姆在哪里？"),
    ("test", "The zebra sleeps.", "斑马睡觉。"),
]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tatoeba_en_zh.tsv"
    rows = [("split", "en", "zh"), *PAIRS]
    path.write_text("\n".join("\t".join(row) for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def of_task(file):
    return TASKS["en-zh"].with_pairs(file).with_fitted_vocabularies()


def test_a_task_without_its_file_says_how_to_get_it(monkeypatch):
    monkeypatch.delenv("GLASSFORMER_DATA", raising=False)
    with pytest.raises(InputError, match=r"--pairs.*GLASSFORMER_DATA.*manythings"):
        TASKS["en-zh"].with_pairs(None)
    with pytest.raises(InputError, match="GLASSFORMER_DATA"):
        TASKS["en-de"].pairs("test", 1, 0)


def test_the_folder_of_the_environment_serves_as_well(file, monkeypatch):
    monkeypatch.setenv("GLASSFORMER_DATA", str(file.parent))
    assert TASKS["en-zh"].with_pairs(None).pairs("valid", 5, 0) == [("I like Tom.", "我喜欢汤姆。")]


def test_vocabularies_hold_what_is_trained_on_and_nothing_else(of_task):
    assert {"station", "tea", "tom", "hello"} <= set(of_task.src_tokenizer.symbols)
    assert "zebra" not in of_task.src_tokenizer.symbols
    assert "车" in of_task.tgt_tokenizer.symbols
    assert "斑" not in of_task.tgt_tokenizer.symbols
    sizes = of_task.preset.model
    assert (sizes.src_vocab_size, sizes.tgt_vocab_size) == (len(of_task.src_tokenizer), len(of_task.tgt_tokenizer))


def test_the_first_lesson_of_every_beginner_is_trained_on_but_never_tested(of_task):
    trained = of_task._encoded("train", 24)
    hello = of_task.src_tokenizer.encode("hello").ids
    assert sum(full[0] == hello for full, _ in trained) == 10
    assert {english for english, _ in LESSON} == {
        "hello", "how are you", "i love you", "what is this", "good morning", "good night"
    }
    assert not {english for english, _ in LESSON} & {english for english, _ in of_task.pairs("test", 100, 0)}


def test_pairs_come_in_the_order_of_the_file_spread_over_it(of_task):
    assert of_task.pairs("train", 2, 0) == [PAIRS[0][1:], PAIRS[2][1:]]
    assert of_task.pairs("test", 100, 0) == [pair[1:] for pair in PAIRS if pair[0] == "test"]
    assert len(of_task.pairs("all", 100, 0)) == len(PAIRS)


def test_a_batch_has_pairs_of_about_one_length_some_without_their_last_mark(of_task):
    source = generator()
    batches = [of_task.batch(source, 16, 24) for _ in range(200)]
    spread = max(
        int(lengths.max() - lengths.min()) for batch in batches for lengths in [(batch.tgt_out != 0).sum(dim=1)]
    )
    everything = [(batch.tgt_out != 0).sum(dim=1) for batch in batches]
    whole_range = max(int(lengths.max()) for lengths in everything) - min(int(lengths.min()) for lengths in everything)
    assert spread < whole_range
    written = {of_task.tgt_tokenizer.decode(row) for batch in batches for row in batch.tgt_out.tolist()}
    assert {"我喜欢茶。", "我喜欢茶"} <= written


def test_a_pair_over_the_longest_length_is_left_out(of_task):
    longest = max(max(map(len, full)) for full, _ in of_task._encoded("train", 5))
    assert longest == 5
    assert of_task._encoded("train", 24) != of_task._encoded("train", 5)


def test_a_file_that_names_no_splits_is_all_unseen_unless_the_model_was_trained_on_it(tmp_path):
    path = tmp_path / "mine.tsv"
    path.write_text("I like tea.\t我喜欢茶。\nHello.\t你好。\n", encoding="utf-8")
    mine = TASKS["en-zh"].with_pairs(path)
    assert mine.test_split({"pairs_sha256": "of another file"}) == "all"
    assert mine.test_split(mine.facts()) == "test"


def test_a_file_that_names_its_splits_is_tested_on_test(of_task):
    assert of_task.test_split({}) == "test"


def test_what_a_checkpoint_says_of_its_pairs_names_the_source_and_licence(of_task):
    facts = of_task.facts()
    assert facts["data"] == "Sentences from tatoeba.org (CC BY 2.0 FR) by way of manythings.org/anki, modified"
    assert facts["pairs"] == {"train": 3, "valid": 1, "test": 2}


def test_scores_are_those_of_sacrebleu(of_task):
    from sacrebleu.metrics import BLEU, CHRF

    results = [
        Written("a", "我喜欢喝绿茶。", "我喜欢喝绿茶。", True), Written("b", "车站在哪里？", "车站在什么地方？", False)
    ]
    scores = of_task.scores(results)
    hypotheses, references = ["我喜欢喝绿茶。", "车站在什么地方？"], [["我喜欢喝绿茶。", "车站在哪里？"]]
    assert scores["bleu"] == BLEU(tokenize="zh").corpus_score(hypotheses, references).score
    assert scores["chrf"] == CHRF().corpus_score(hypotheses, references).score
    assert scores["exact_match"] == 0.5
    assert 0 < scores["bleu"] < 100
