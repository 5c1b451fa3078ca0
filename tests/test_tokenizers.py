"""Text to ids and back: nothing forged, nothing merged, nothing lost from sight."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import DIGITS
from transformer.tokenizers import (
    SPECIAL_TOKENS,
    TOKENIZERS,
    CharacterTokenizer,
    LowerCaseCharacterTokenizer,
    LowerCaseWordTokenizer,
    SymbolTokenizer,
    WordTokenizer,
    fitted,
    tokenizer_from_dict,
)

tokenizer = SymbolTokenizer(DIGITS)


def test_special_tokens_come_first_and_ids_are_those_of_the_vocabulary():
    assert tokenizer.vocabulary[:4] == SPECIAL_TOKENS == ("<pad>", "<bos>", "<eos>", "<unk>")
    assert (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id) == (0, 1, 2, 3)
    assert len(tokenizer) == 16
    assert tokenizer.encode("3 11").ids == (7, 15)


@given(st.lists(st.sampled_from(DIGITS), max_size=20))
def test_known_text_comes_back_as_it_was(symbols):
    encoded = tokenizer.encode(" ".join(symbols))
    assert encoded.tokens == encoded.pieces == tuple(symbols)
    assert tokenizer.decode(encoded.ids) == " ".join(symbols)


def test_repeated_words_are_never_merged():
    """Row 1 of the cases."""
    words = ("the", "cat", "sat", "on", "the", "mat", "near", "the", "cat")
    encoded = SymbolTokenizer(sorted(set(words))).encode("the cat sat on the mat near the cat")
    assert encoded.tokens == words
    assert len(encoded.ids) == 9
    assert encoded.ids[0] == encoded.ids[4] == encoded.ids[7]


@pytest.mark.parametrize("typed", SPECIAL_TOKENS)
def test_a_typed_special_token_is_unk_and_what_was_typed_is_kept(typed):
    """A text cannot forge an end, a beginning or padding."""
    encoded = tokenizer.encode(f"3 {typed} 1")
    assert encoded.ids == (7, tokenizer.unk_id, 5)
    assert encoded.tokens == ("3", "<unk>", "1")
    assert encoded.pieces == ("3", typed, "1")


FOREIGN = ["每个人都有他的作战策略", "שלום", "مرحبا", "👩‍👩‍👧", "e\u0301", "\u200b", "<b>", "&amp;", "\ufffd"]


@pytest.mark.parametrize("typed", FOREIGN)
def test_an_unknown_piece_is_unk_together_with_what_was_typed(typed):
    """Row 6 of the cases."""
    encoded = tokenizer.encode(f"1 {typed} 2")
    assert encoded.tokens == ("1", "<unk>", "2")
    assert encoded.pieces == ("1", typed, "2")


@pytest.mark.parametrize("typed", FOREIGN)
def test_a_known_piece_of_any_script_is_shown_to_the_letter(typed):
    """Rows 4 and 6 of the cases: tags and every script pass through unchanged."""
    known = SymbolTokenizer([typed])
    assert known.encode(typed).tokens == (typed,)
    assert known.decode([4, 2, 4]) == typed


@pytest.mark.parametrize("blank", ["", " ", "\t \n", "\u3000\u00a0"])
def test_blank_text_has_no_tokens(blank):
    """Row 7 of the cases."""
    assert tokenizer.encode(blank).ids == ()


@given(st.text(max_size=60))
def test_any_text_is_accepted_and_every_piece_of_it_kept(text):
    encoded = tokenizer.encode(text)
    assert encoded.pieces == tuple(text.split())
    assert len(encoded.ids) == len(encoded.tokens) == len(encoded.pieces)
    assert not set(encoded.ids) & {tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id}


def test_decoding_ends_at_eos_and_leaves_padding_out():
    assert tokenizer.decode([1, 5, 0, 3, 6, 2, 7, 7]) == "1 <unk> 2"
    assert tokenizer.tokens([1, 5, 2, 0]) == ("<bos>", "1", "<eos>", "<pad>")


def test_a_vocabulary_must_not_hold_a_token_twice():
    with pytest.raises(ValueError, match="twice"):
        SymbolTokenizer(["a", "b", "a"])
    with pytest.raises(ValueError, match="twice"):
        SymbolTokenizer(["a", "<eos>"])


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (None, "unknown kind of tokenizer None, expected one of symbols"),
        ({"kind": "magic"}, "unknown kind of tokenizer 'magic'"),
        ({"kind": ["symbols"]}, "unknown kind of tokenizer"),
        ({"kind": "symbols"}, "list of non-empty texts"),
        ({"kind": "symbols", "symbols": "abc"}, "list of non-empty texts"),
        ({"kind": "symbols", "symbols": ["a", 1]}, "list of non-empty texts"),
        ({"kind": "symbols", "symbols": ["a", ""]}, "list of non-empty texts"),
        ({"kind": "symbols", "symbols": ["a", "a"]}, "twice"),
    ],
)
def test_a_dict_that_describes_no_tokenizer_is_refused(values, sentence):
    with pytest.raises(ValueError, match=sentence):
        tokenizer_from_dict(values)


def test_words_keep_their_apostrophe_and_punctuation_stands_alone():
    assert WordTokenizer(()).split("I don't know, Tom's at 2:30 (or 1,000)!") == [
        "I", "don't", "know", ",", "Tom's", "at", "2:30", "(", "or", "1,000", ")", "!"
    ]


def test_words_are_joined_as_people_write_them():
    tokens = ["Er", "sagte", ",", "„", "Komm", "!", "“", "(", "so", ")", "."]
    assert WordTokenizer(()).join(tokens) == "Er sagte, „Komm!“ (so)."


def test_lower_case_words_find_any_spelling_and_keep_what_was_typed():
    words = LowerCaseWordTokenizer(["don't", "tom", "."])
    encoded = words.encode("Don’t TOM.")
    assert encoded.tokens == ("don't", "tom", ".")
    assert encoded.pieces == ("Don’t", "TOM", ".")


def test_characters_are_those_a_reader_counts():
    characters = CharacterTokenizer(())
    assert characters.split("我 爱你e\u0301👩‍👩‍👧👍🏽!") == ["我", "爱", "你", "é", "👩‍👩‍👧", "👍🏽", "!"]
    assert characters.split("x\u0323\u0302y") == ["x\u0323\u0302", "y"]


def test_lower_case_characters_keep_one_space_between_others():
    characters = LowerCaseCharacterTokenizer([*"abm 3"])
    encoded = characters.encode("  MAB \t 3 ")
    assert encoded.tokens == ("m", "a", "b", " ", "3")
    assert encoded.pieces == ("M", "A", "B", " ", "3")


@given(st.text(max_size=60))
def test_every_tokenizer_takes_any_text_and_cutting_again_changes_nothing(text):
    for kind in TOKENIZERS.values():
        tokenizer = kind(())
        pieces = tokenizer.split(text)
        assert all(pieces)
        assert tokenizer.split(tokenizer.join(pieces)) == pieces


def test_a_fitted_vocabulary_is_what_is_seen_often_enough_the_commonest_first():
    fitted_words = fitted(LowerCaseWordTokenizer, ["The cat.", "the dog.", "The <pad>"], fewest=2)
    assert fitted_words.symbols == ("the", ".")
    assert fitted(CharacterTokenizer, ["aab"]).symbols == ("a", "b")


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_a_tokenizer_of_every_kind_comes_back_from_its_dict(kind):
    again = tokenizer_from_dict(TOKENIZERS[kind](["a", "b"]).to_dict())
    assert type(again) is TOKENIZERS[kind]
    assert again.symbols == ("a", "b")
