"""A visitor's own pairs: every format, everything skipped and counted, bad files in one sentence, and the scores."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from test_teacher_forcing import writer
from transformer import scoring
from transformer.errors import InputError
from transformer.metrics import Written, sentence_chrf
from transformer.scoring import bleu_tokenizer, score_pairs, task_of
from transformer.tasks import TASKS
from transformer.tasks.pairs import (
    LARGEST_OWN_TEXT,
    LONGEST_OWN_SIDE,
    MOST_OWN_LINES,
    MOST_OWN_PAIRS,
    parse_own_pairs,
    read_own_text,
)
from viz.tabs.language import say_error
from viz.tabs.own_pairs import example_pairs, own_pairs_of, read_file, scores_payload


def refusal(call, *arguments: object) -> InputError:
    with pytest.raises(InputError) as caught:
        call(*arguments)
    for language in ("en", "zh"):
        assert "{" not in say_error(language, caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("3 1\t3 1\n9\t9", ()),
        ("source\ttarget\n3 1\t3 1\n9\t9\n", ()),
        ("split\ten\tzh\tattribution\ntrain\t3 1\t3 1\tX\ndev\t9\t9\t\n", ("en", "zh")),
        ("zh\ten\n3 1\t3 1\n9\t9", ("en", "zh")),
        ("3 1\t3 1\tCC-BY 2.0 #1 (x)\r\n9\t9\tCC-BY\r\n", ("en", "de")),
        ("target\tsource\n3 1\t3 1\n9\t9", ("en", "de")),
        ("split\tsource\ttarget\n\t3 1\t3 1\ntest\t9\t9", ("en", "zh")),
        ("\ufeff3 1\t3 1\n\n   \n 9 \t 9 \n", ()),
    ],
    ids=["plain", "named", "shared", "swapped", "manythings", "swapped names", "split", "blanks"],
)
def test_every_format_gives_the_same_pairs(text, columns):
    found = parse_own_pairs(text, *columns)
    assert found.pairs == (("3 1", "3 1"), ("9", "9"))
    assert (found.n_lines, found.n_skipped, found.is_cut) == (2, 0, False)


def test_a_header_puts_each_column_where_it_says():
    assert parse_own_pairs("zh\ten\n你好\thello", "en", "zh").pairs == (("hello", "你好"),)


def test_lines_that_are_no_pairs_are_skipped_and_counted_by_their_reason():
    longest = "x" * LONGEST_OWN_SIDE
    lines = ["a\tb", "no tab", "a\tb\tc\td", "\tb", "a\t ", f"{longest}\tb", f"a\t{longest}x", "c\td"]
    found = parse_own_pairs("\n".join(lines))
    assert found.pairs == (("a", "b"), (longest, "b"), ("c", "d"))
    assert (found.n_lines, found.n_columns, found.n_empty, found.n_long) == (8, 2, 2, 1)
    assert found.n_skipped == 5


def test_scripts_of_every_kind_pass_through_to_the_letter():
    pairs = (("שלום עולם", "مرحبا"), ("👨‍👩‍👧‍👦 e\u0301", "你好 hello"), ("<b>1</b>", "{n} ${1+1}"))
    assert parse_own_pairs("\n".join("\t".join(pair) for pair in pairs)).pairs == pairs


def test_more_pairs_or_lines_than_are_taken_are_cut_and_it_is_said():
    most = parse_own_pairs("a\tb\n" * MOST_OWN_PAIRS)
    assert (len(most.pairs), most.is_cut) == (MOST_OWN_PAIRS, False)
    more = parse_own_pairs("a\tb\n" * (MOST_OWN_PAIRS + 1))
    assert (len(more.pairs), more.n_lines, more.is_cut) == (MOST_OWN_PAIRS, MOST_OWN_PAIRS, True)
    lines = parse_own_pairs("a\tb\n" + "no tab\n" * MOST_OWN_LINES)
    assert (len(lines.pairs), lines.n_lines, lines.is_cut) == (1, MOST_OWN_LINES, True)
    long = parse_own_pairs("a\tb\n" + "x" * LARGEST_OWN_TEXT)
    assert (len(long.pairs), long.is_cut) == (1, True)


@pytest.mark.parametrize(
    ("text", "code"),
    [("", "own_pairs_empty"), (" \n\t\n", "own_pairs_empty"), ("a, b\nc; d", "own_pairs_none"),
     ("source\ttarget\n", "own_pairs_none"), ("en\tfr\nhi\tsalut", "own_pairs_header"),
     ("a\t\n\tb", "own_pairs_none")],
)
def test_a_text_without_pairs_is_answered_in_one_sentence(text, code):
    assert refusal(parse_own_pairs, text, "en", "zh").code == code


def test_the_answer_says_what_is_wrong_with_how_many_lines():
    error = refusal(parse_own_pairs, "a b\n\tc\n" + "x" * 300 + "\ty")
    assert error.values == {"n": 3, "columns": 1, "empty": 1, "long": 1}


def uploaded(tmp_path, content: bytes, name: str = "pairs.tsv"):
    path = tmp_path / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_file_as_spreadsheets_save_it_is_read_and_deleted(tmp_path, encoding):
    path = uploaded(tmp_path, "你好\t嗨\r\n9\t9\r\n".encode(encoding))
    content, n, is_cut = read_file(str(path), writer())
    assert (n, is_cut) == (2, False)
    assert parse_own_pairs(content).pairs == (("你好", "嗨"), ("9", "9"))
    assert not path.exists()


@pytest.mark.parametrize(
    ("content", "code"),
    [("häuser\tx".encode("latin-1"), "own_pairs_encoding"), ("你好\t嗨".encode("gbk"), "own_pairs_encoding"),
     (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "own_pairs_binary"), (b"", "own_pairs_empty"),
     (b"a,b\nc,d", "own_pairs_none"), ("a\0\tb".encode("utf-16"), "own_pairs_binary")],
    ids=["latin-1", "gbk", "binary", "empty", "commas", "nul"],
)
def test_a_file_that_cannot_be_used_is_answered_in_one_sentence_and_deleted(tmp_path, content, code):
    path = uploaded(tmp_path, content)
    assert refusal(read_file, str(path), writer()).code == code
    assert not path.exists()
    assert refusal(read_file, str(path), writer()).code == "own_pairs_file"
    assert refusal(read_file, None, writer()).code == "own_pairs_file"


def test_of_ten_megabytes_no_more_is_read_than_can_be_taken(tmp_path):
    path = uploaded(tmp_path, "你好\t嗨\n".encode() * 1_000_000)
    content, is_cut = read_own_text(path, "big")
    assert is_cut
    assert len(content) < LARGEST_OWN_TEXT / 10
    found = parse_own_pairs(content)
    assert (len(found.pairs), found.n_skipped, found.is_cut) == (MOST_OWN_PAIRS, 0, True)
    one_line = uploaded(tmp_path, "你".encode() * 4_000_000)  # cut in the middle of a character
    assert read_own_text(one_line, "line")[0] == "你" * (LARGEST_OWN_TEXT // 3)


def test_scores_are_those_of_sacrebleu_over_what_the_model_writes():
    from sacrebleu.metrics import BLEU, CHRF

    checkpoint = writer()  # writes 0 11 5 11 9 9 for 3 1 7
    pairs = [("3 1 7", "0 11 5 11 9 9"), ("3 1 7", "0 11 5 4"), ("2", "x")]
    scores = score_pairs(checkpoint, pairs)
    assert [(result.source, result.expected) for result in scores.results] == pairs
    written = [result.written for result in scores.results]
    assert written[:2] == ["0 11 5 11 9 9"] * 2
    assert [result.is_exact for result in scores.results] == [True, False, False]
    references = [[expected for _, expected in pairs]]
    assert scores.bleu == BLEU(tokenize="13a").corpus_score(written, references).score > 0
    assert scores.chrf == CHRF().corpus_score(written, references).score
    assert scores.exact_match == pytest.approx(1 / 3)
    assert scores.chrf_of_each[0] == 100 > scores.chrf_of_each[1] > scores.chrf_of_each[2]
    assert (scores.n_unreadable, scores.n_not_reached, scores.tokenizer) == (0, 0, "13a")


def test_a_pair_s_own_score_depends_on_no_other():
    one, other = Written("a", "今天天气很好", "今天天气好", False), Written("b", "x", "y", False)
    assert sentence_chrf([one, other])[0] == sentence_chrf([one])[0] > 0


def test_chinese_is_cut_into_characters_and_all_else_as_13a():
    assert [bleu_tokenizer(TASKS[name]) for name in ("en-zh", "en-de", "copy", "dates")] == ["zh", "13a", "13a", "13a"]


def test_a_model_of_a_task_not_known_here_is_scored_as_well():
    checkpoint = replace(writer(), task="of somebody else")
    assert bleu_tokenizer(task_of(checkpoint)) == "13a"
    scores = score_pairs(checkpoint, [("3 1 7", "0 11 5 11 9 9")])
    assert scores.exact_match == 1
    assert example_pairs(checkpoint) == []
    assert own_pairs_of(checkpoint, "3\t4").pairs == (("3", "4"),)


def test_sources_the_model_cannot_read_are_left_out_and_counted():
    checkpoint = writer()  # 16 positions
    limit = " ".join(["3"] * 15)
    scores = score_pairs(checkpoint, [(limit, "1"), (f"{limit} 3", "1"), ("3", "1")])
    assert ([result.source for result in scores.results], scores.n_unreadable) == ([limit, "3"], 1)
    assert score_pairs(checkpoint, [(f"{limit} 3", "1")]) is None


def test_when_the_time_is_up_the_rest_is_not_reached_and_counted(monkeypatch):
    calls = Counter()
    write_all = scoring.write_all

    def counted(*arguments: object) -> list[Written]:
        calls["n"] += 1
        return write_all(*arguments)

    monkeypatch.setattr(scoring, "write_all", counted)
    pairs = [("3 1 7", "1")] * (3 * scoring.PAIRS_AT_ONCE)
    none_left = score_pairs(writer(), pairs, seconds=0)
    assert (len(none_left.results), none_left.n_not_reached) == (scoring.PAIRS_AT_ONCE, 2 * scoring.PAIRS_AT_ONCE)
    assert calls["n"] == 1
    assert score_pairs(writer(), pairs, seconds=60).n_not_reached == 0


def test_the_page_gets_a_row_a_pair_and_a_sentence_for_whatever_was_left_out():
    checkpoint = writer()
    pairs = parse_own_pairs("3 1 7\t0 11 5 11 9 9\nno tab\n" + " ".join(["3"] * 16) + "\t1\n2\t<b>&amp;</b>")
    payload = json.loads(scores_payload(pairs, score_pairs(checkpoint, pairs.pairs), checkpoint))
    assert [(row["source"], row["reference"], row["exact"]) for row in payload["rows"]] == [
        ("3 1 7", "0 11 5 11 9 9", True), ("2", "<b>&amp;</b>", False)
    ]
    assert payload["rows"][0]["score"] == 100
    assert payload["scores"]["exact"] == "50.0 %"
    assert [fact["key"] for fact in payload["facts"]] == ["skipped", "unreadable"]
    assert payload["facts"][0]["values"]["columns"] == 1
    assert payload["bleu_unit"] == "words"


@pytest.mark.parametrize("name", TASKS)
def test_the_example_pairs_of_a_task_can_be_pasted_back(name):
    checkpoint = replace(writer(), task=name)
    pairs = example_pairs(checkpoint)
    assert len(pairs) == len(TASKS[name].examples)
    assert list(own_pairs_of(checkpoint, "\n".join("\t".join(pair) for pair in pairs)).pairs) == pairs


@pytest.mark.parametrize("forged", [None, 3, ["a\tb"], {"a": 1}])
def test_whatever_a_program_sends_in_place_of_a_text_is_no_pairs(forged):
    assert refusal(own_pairs_of, writer(), forged).code == "own_pairs_empty"
