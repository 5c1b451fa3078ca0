"""Labels of tokens: what the model reads, and for an unknown piece also what was typed."""

from __future__ import annotations

from viz.payload import token_chips
from viz.text import token_labels


def test_an_unknown_token_is_labelled_with_what_was_typed_and_a_known_one_as_the_model_reads_it():
    assert token_labels(["<unk>", "tom", " "], ["zebra", "Tom", " "]) == ["<unk> zebra", "tom", "␣"]


def test_a_chip_knows_special_and_unknown_tokens():
    chips = token_chips(["<unk>", "tom", "<eos>"], ["<eos>", "Tom", "<eos>"])
    assert [chip["label"] for chip in chips] == ["<unk> <eos>", "tom", "<eos>"]
    assert [chip["special"] for chip in chips] == [False, False, True]
    assert [chip["unknown"] for chip in chips] == [True, False, False]
