"""The dates task: every way of writing a day means that day, and no day is in two splits."""

from __future__ import annotations

import datetime

import pytest

from builders import generator
from transformer.tasks import TASKS
from transformer.tasks.base import SPLITS, split_of
from transformer.tasks.dates import FIRST_DAY, LAST_DAY, WAYS_OF_WRITING

DATES = TASKS["dates"]


def test_the_ways_of_writing_a_day_are_those_people_use():
    assert [way(datetime.date(1999, 3, 3)) for way in WAYS_OF_WRITING] == [
        "March 3, 1999", "Mar 3, 1999", "3 March 1999", "3 Mar 1999", "the 3rd of March 1999", "March 3rd, 1999",
        "Wednesday, March 3, 1999", "03/03/99", "3/3/1999", "1999/03/03", "1999.3.3", "19990303", "1999年3月3日",
        "1999年3月3号", "1999年3月3日星期三", "一九九九年三月三日",
    ]


@pytest.mark.parametrize(
    ("number", "written"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (13, "13th"), (21, "21st"),
     (22, "22nd"), (23, "23rd"), (30, "30th"), (31, "31st")],
)
def test_ordinals_are_english(number, written):
    assert WAYS_OF_WRITING[4](datetime.date(2020, 1, number)) == f"the {written} of January 2020"


@pytest.mark.parametrize(
    ("day", "written"),
    [((2024, 12, 31), "二〇二四年十二月三十一日"), ((2000, 10, 20), "二〇〇〇年十月二十日"),
     ((1950, 1, 1), "一九五〇年一月一日"), ((2011, 11, 11), "二〇一一年十一月十一日")],
)
def test_chinese_numerals_are_those_of_a_calendar(day, written):
    assert WAYS_OF_WRITING[15](datetime.date(*day)) == written


def test_no_day_is_in_two_splits_and_every_day_is_in_one():
    n_days = (LAST_DAY - FIRST_DAY).days + 1
    days = {split: {target for _, target in DATES.pairs(split, n_days, 0)} for split in SPLITS}
    assert sum(map(len, days.values())) == n_days == len(set.union(*days.values()))
    assert all(split_of(target) == split for split, targets in days.items() for target in targets)


@pytest.mark.parametrize("split", SPLITS)
def test_a_batch_stays_in_its_split(split):
    batch = DATES.batch(generator(), 300, 29, split)
    targets = [DATES.tgt_tokenizer.decode(row) for row in batch.tgt_out.tolist()]
    assert {split_of(target) for target in targets} == {split}
    assert len(set(targets)) > 200


def test_pairs_differ_are_repeatable_and_take_every_way_of_writing_in_turn():
    pairs = DATES.pairs("test", 1000, 0)
    assert len(set(pairs)) == 1000
    assert pairs[:77] == DATES.pairs("test", 77, 0)
    assert pairs != DATES.pairs("test", 1000, 1)
    by_day = {target: datetime.date.fromisoformat(target) for _, target in pairs}
    assert {i for i, way in enumerate(WAYS_OF_WRITING) for source, target in pairs if way(by_day[target]) == source} \
        == set(range(len(WAYS_OF_WRITING)))
    everything = DATES.pairs("test", 10**6, 0)
    assert len(everything) == len(set(everything))
    assert set(everything) == {
        (way(day), target)
        for target in {target for _, target in everything} for day in [datetime.date.fromisoformat(target)]
        for way in WAYS_OF_WRITING
    }


def test_every_character_of_a_date_is_in_the_vocabulary():
    for source, target in DATES.pairs("train", 3000, 0):
        assert DATES.src_tokenizer.unk_id not in DATES.src_tokenizer.encode(source).ids
        assert DATES.tgt_tokenizer.decode(DATES.tgt_tokenizer.encode(target).ids) == target
        assert DATES.min_length <= len(DATES.src_tokenizer.encode(source).ids) <= DATES.max_length
