"""Tasks: what they draw, that their splits never share a sequence, and how pairs become a batch."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
import torch

from builders import generator
from transformer.errors import InputError
from transformer.tasks import TASKS, TRAINED_ON_THE_PAGE, task
from transformer.tasks.base import SPLITS, make_batch, split_of
from transformer.tasks.sequences import TOKENIZER

COPY, REVERSE = TASKS["copy"], TASKS["reverse"]
PAD, BOS, EOS = TOKENIZER.pad_id, TOKENIZER.bos_id, TOKENIZER.eos_id


def texts(src: torch.Tensor) -> list[str]:
    return [TOKENIZER.decode(row) for row in src.tolist()]


def test_a_batch_is_padded_and_its_target_is_moved_by_one():
    batch = make_batch([(5, 6, 7), (8,)], [(7, 6, 5), (8,)], TOKENIZER, TOKENIZER)
    assert batch.src.tolist() == [[5, 6, 7, EOS], [8, EOS, PAD, PAD]]
    assert batch.tgt_in.tolist() == [[BOS, 7, 6, 5], [BOS, 8, PAD, PAD]]
    assert batch.tgt_out.tolist() == [[7, 6, 5, EOS], [8, EOS, PAD, PAD]]


@pytest.mark.parametrize("of_task", TRAINED_ON_THE_PAGE.values(), ids=TRAINED_ON_THE_PAGE)
def test_a_drawn_batch_holds_what_the_task_asks_for(of_task):
    batch = of_task.batch(generator(), 300, 6, "train")
    assert batch.src.shape == batch.tgt_in.shape == batch.tgt_out.shape == (300, 7)
    lengths = (batch.src != PAD).sum(dim=1) - 1
    assert set(lengths.tolist()) == {1, 2, 3, 4, 5, 6}
    for source, target in zip(texts(batch.src), texts(batch.tgt_out), strict=True):
        symbols = source.split()
        assert target.split() == (symbols if of_task is COPY else symbols[::-1])
    assert torch.equal(batch.tgt_in[:, 1:][batch.tgt_in[:, 1:] != PAD], batch.tgt_out[batch.tgt_out > EOS])
    assert (batch.tgt_in[:, 0] == BOS).all()


def test_no_short_sequence_is_in_two_splits_and_every_one_is_in_one():
    numbers = [str(number) for number in range(32)]
    everything = numbers + [" ".join(pair) for pair in product(numbers, repeat=2)]
    found = {split: {source for source, _ in COPY.pairs(split, 10_000, 0, max_length=2)} for split in SPLITS}
    assert Counter(source for sources in found.values() for source in sources) == Counter(everything)


@pytest.mark.parametrize("split", SPLITS)
def test_batches_and_pairs_stay_in_their_split(split):
    drawn = texts(COPY.batch(generator(1), 400, 20, split).src) + [source for source, _ in COPY.pairs(split, 400, 1)]
    assert {split_of(source) for source in drawn} == {split}
    assert 1 in {len(source.split()) for source in drawn}


def test_the_split_of_a_text_never_changes():
    # These three were looked up once: a change here would put trained sequences among the unseen ones.
    assert [split_of(text) for text in ("2", "3", "5")] == ["test", "valid", "train"]


def test_pairs_differ_are_repeatable_and_cover_every_length_evenly():
    pairs = REVERSE.pairs("test", 1000, 0)
    assert len(set(pairs)) == 1000
    assert pairs == REVERSE.pairs("test", 1000, 0)
    assert pairs[:123] == REVERSE.pairs("test", 123, 0)
    assert pairs != REVERSE.pairs("test", 1000, 1)
    counts = Counter(len(source.split()) for source, _ in pairs)
    assert set(counts) == set(range(1, 21))
    # Only a few sequences of length 1 exist in a split; the other lengths share the rest.
    assert max(counts.values()) - min(count for length, count in counts.items() if length > 1) <= 1


def test_fewer_pairs_come_back_when_there_are_no_more():
    pairs = COPY.pairs("test", 500, 0, max_length=1)
    assert 0 < len(pairs) < 32
    assert len(set(pairs)) == len(pairs)


def test_encoding_pairs_gives_the_batch_of_their_texts():
    batch = REVERSE.encode([("3 1 7", "7 1 3"), ("9", "9")])
    assert texts(batch.src) == ["3 1 7", "9"]
    assert texts(batch.tgt_out) == ["7 1 3", "9"]


@pytest.mark.parametrize("of_task", TRAINED_ON_THE_PAGE.values(), ids=TRAINED_ON_THE_PAGE)
def test_a_task_describes_itself_whole(of_task):
    assert len(of_task.src_tokenizer.symbols) >= 32
    for example in of_task.examples:
        ids = of_task.src_tokenizer.encode(example).ids
        assert of_task.src_tokenizer.unk_id not in ids
        assert of_task.min_length <= len(ids) <= of_task.max_length
    for preset in (of_task.preset, of_task.mini_preset):
        assert preset.model.src_vocab_size == preset.model.tgt_vocab_size == len(of_task.src_tokenizer)
    assert of_task.preset.training.max_length == of_task.max_length >= 20


def test_an_unknown_task_or_split_is_refused_with_those_there_are():
    with pytest.raises(InputError, match=r"'sort'.*copy, reverse"):
        task("sort")
    with pytest.raises(ValueError, match=r"'dev'.*train, valid, test"):
        COPY.pairs("dev", 1, 0)
    with pytest.raises(ValueError, match="'dev'"):
        COPY.batch(generator(), 1, 1, "dev")
