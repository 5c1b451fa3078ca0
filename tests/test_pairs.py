"""Files of sentence pairs: both formats, what is skipped and counted, and one sentence for a file that will not do."""

from __future__ import annotations

import pytest

from transformer.errors import InputError
from transformer.tasks.base import split_of
from transformer.tasks.pairs import FOLDER_VARIABLE, find_pairs_file, read_pairs


def file_of(tmp_path, content: str | bytes):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_file_with_columns_is_split_as_its_column_says(tmp_path):
    rows = ["split\ten\tzh\tattribution", "train\tHi.\t你好。\tX", "test\tRun!\t跑！\tY", "valid\tStop!\t停！\tZ", ""]
    path = file_of(tmp_path, "\n".join(rows))
    file = read_pairs(path, "zh")
    assert file.splits == {
        "train": (("Hi.", "你好。"),), "test": (("Run!", "跑！"),), "valid": (("Stop!", "停！"),)
    }
    assert file.n_skipped == 0


def test_columns_are_found_by_name_in_any_order(tmp_path):
    path = file_of(tmp_path, "de\tsplit\ten\nHallo!\ttrain\tHi.\n")
    assert read_pairs(path, "de").splits["train"] == (("Hi.", "Hallo!"),)


def test_the_headless_format_of_manythings_is_split_by_a_hash_of_the_english_side(tmp_path):
    english = [f"I have {number} apples." for number in range(60)]
    path = file_of(tmp_path, "".join(f"{text}\tIch habe Äpfel.\tCC-BY 2.0\n" for text in english))
    file = read_pairs(path, "de")
    splits = file.splits
    assert not file.has_split_column
    assert len(file.all) == 60
    assert {text for pairs in splits.values() for text, _ in pairs} == set(english)
    assert all(split_of(text) == split for split, pairs in splits.items() for text, _ in pairs)
    assert all(splits.values())


def test_lines_that_are_no_pairs_are_skipped_and_counted(tmp_path):
    lines = ["split\ten\tzh", "train\tHi.\t你好。", "train\t\t空", "train\tempty\t  ", "train\tshort", "dev\tHi.\t嗨",
             "train\t" + "a" * 3000 + "\t长", ""]
    file = read_pairs(file_of(tmp_path, "\n".join(lines)), "zh")
    assert file.splits["train"] == (("Hi.", "你好。"),)
    assert file.n_skipped == 5


def test_a_mark_of_byte_order_and_windows_line_ends_do_no_harm(tmp_path):
    path = file_of(tmp_path, b"\xef\xbb\xbfsplit\ten\tde\r\ntrain\tHi.\tHallo!\r\n")
    assert read_pairs(path, "de").splits["train"] == (("Hi.", "Hallo!"),)


def test_a_line_break_of_unicode_inside_a_sentence_ends_no_line(tmp_path):
    path = file_of(tmp_path, "split\ten\tde\ntrain\tHi\u2028there.\tHallo\x0bda!\n")
    assert read_pairs(path, "de").splits["train"] == (("Hi\u2028there.", "Hallo\x0bda!"),)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"split\ten\tzh\n\xff\xfe", "not UTF-8"),
        ("a,b\nc,d\n", "holds no pairs"),
        ("", "holds no pairs"),
        ("split\ten\tzh\n", "holds no pairs"),
    ],
)
def test_a_file_that_holds_no_pairs_is_refused_in_one_sentence(tmp_path, content, sentence):
    with pytest.raises(InputError, match=sentence):
        read_pairs(file_of(tmp_path, content), "zh")


def test_a_file_of_another_language_says_which_columns_were_expected(tmp_path):
    path = file_of(tmp_path, "split\ten\tfr\ntrain\tHi.\tSalut!\n")
    with pytest.raises(InputError, match="split, en and zh"):
        read_pairs(path, "zh")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nothing\.tsv cannot be read"):
        read_pairs(tmp_path / "nothing.tsv", "zh")
    with pytest.raises(InputError, match="cannot be read"):
        read_pairs(tmp_path, "zh")


def test_the_folder_of_the_environment_is_looked_into(tmp_path, monkeypatch):
    path = file_of(tmp_path, "x")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert find_pairs_file("pairs.tsv") == path
    other = tmp_path / "other.tsv"
    assert find_pairs_file("pairs.tsv", other) == other
    with pytest.raises(InputError, match=r"--pairs.*missing\.tsv.*GLASSFORMER_DATA.*manythings"):
        find_pairs_file("missing.tsv")
    monkeypatch.delenv(FOLDER_VARIABLE)
    with pytest.raises(InputError, match="GLASSFORMER_DATA"):
        find_pairs_file("pairs.tsv")
