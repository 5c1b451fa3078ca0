"""Write a day the ISO way. Many ways of writing it in English and Chinese: the model has to find year, month and day.

Days are split, not texts: a day of the test split is never trained on in any way of writing it.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass

import torch

from transformer.config import TransformerConfig
from transformer.tasks.base import Batch, Pair, Preset, Task, check_split, split_of
from transformer.tokenizers import CharacterTokenizer, LowerCaseCharacterTokenizer
from transformer.training_config import TrainingConfig

FIRST_DAY, LAST_DAY = datetime.date(1950, 1, 1), datetime.date(2049, 12, 31)
N_DAYS = (LAST_DAY - FIRST_DAY).days + 1
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
CHINESE_WEEKDAYS = "一二三四五六日"
CHINESE_DIGITS = "〇一二三四五六七八九"
DATA = "synthetic: every day from 1950 to 2049 in many ways of writing it, so there is no licence"


def _ordinal(number: int) -> str:
    return f"{number}{'th' if 11 <= number <= 13 else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def _chinese_number(number: int) -> str:
    """1 to 31 in Chinese numerals, e.g. 二十三."""
    tens, ones = divmod(number, 10)
    return ("" if tens == 0 else "十" if tens == 1 else CHINESE_DIGITS[tens] + "十") + (
        CHINESE_DIGITS[ones] if ones else ""
    )


# Where day and month are two numbers, the month comes first (03/04/99 is March 4), as in the United States; a two-digit
# year is the one within 1950 to 2049.
WAYS_OF_WRITING: tuple[Callable[[datetime.date], str], ...] = (
    lambda day: f"{MONTHS[day.month - 1]} {day.day}, {day.year}",
    lambda day: f"{MONTHS[day.month - 1][:3]} {day.day}, {day.year}",
    lambda day: f"{day.day} {MONTHS[day.month - 1]} {day.year}",
    lambda day: f"{day.day} {MONTHS[day.month - 1][:3]} {day.year}",
    lambda day: f"the {_ordinal(day.day)} of {MONTHS[day.month - 1]} {day.year}",
    lambda day: f"{MONTHS[day.month - 1]} {_ordinal(day.day)}, {day.year}",
    lambda day: f"{WEEKDAYS[day.weekday()]}, {MONTHS[day.month - 1]} {day.day}, {day.year}",
    lambda day: f"{day.month:02d}/{day.day:02d}/{day.year % 100:02d}",
    lambda day: f"{day.month}/{day.day}/{day.year}",
    lambda day: f"{day.year}/{day.month:02d}/{day.day:02d}",
    lambda day: f"{day.year}.{day.month}.{day.day}",
    lambda day: f"{day.year}{day.month:02d}{day.day:02d}",
    lambda day: f"{day.year}年{day.month}月{day.day}日",
    lambda day: f"{day.year}年{day.month}月{day.day}号",
    lambda day: f"{day.year}年{day.month}月{day.day}日星期{CHINESE_WEEKDAYS[day.weekday()]}",
    lambda day: (
        "".join(CHINESE_DIGITS[int(digit)] for digit in str(day.year))
        + f"年{_chinese_number(day.month)}月{_chinese_number(day.day)}日"
    ),
)


@dataclass(frozen=True)
class DatesTask(Task):
    """A day in any of ``WAYS_OF_WRITING`` -> ``1999-03-03``."""

    def pairs(self, split: str, n: int, seed: int, max_length: int | None = None) -> list[Pair]:
        """See ``Task.pairs``. Days come in random order, the ways of writing in turn."""
        check_split(split)
        order = torch.randperm(N_DAYS, generator=torch.Generator().manual_seed(seed)).tolist()
        days = [day for day in map(_day, order) if split_of(day.isoformat()) == split]
        n_ways = len(WAYS_OF_WRITING)
        found: dict[Pair, None] = {}  # in May the full and the short name of the month make one pair
        for i in range(len(days) * n_ways):
            if len(found) == n:
                break
            # Each round takes every day once, in a way of writing it that the rounds before it did not use.
            tour, place = divmod(i, len(days))
            found[WAYS_OF_WRITING[(place + tour) % n_ways](days[place]), days[place].isoformat()] = None
        return list(found)

    def batch(self, generator: torch.Generator, size: int, max_length: int, split: str = "train") -> Batch:
        """See ``Task.batch``. Every day and every way of writing it is equally likely."""
        check_split(split)
        pairs: list[Pair] = []
        while len(pairs) < size:
            day = _day(int(torch.randint(N_DAYS, (1,), generator=generator)))
            way = WAYS_OF_WRITING[int(torch.randint(len(WAYS_OF_WRITING), (1,), generator=generator))]
            if split_of(day.isoformat()) == split:
                pairs.append((way(day), day.isoformat()))
        return self.encode(pairs)

    def reference(self, text: str) -> str:
        """See ``Task.reference``: the day that one of ``WAYS_OF_WRITING`` gives this text for."""
        wanted = " ".join(text.lower().split())
        for year in range(FIRST_DAY.year, LAST_DAY.year + 1):
            spellings = (f"{year % 100:02d}", "".join(CHINESE_DIGITS[int(digit)] for digit in str(year)))
            if not any(spelling in wanted for spelling in spellings):
                continue  # every way of writing a day has its year in it in one of these
            day = datetime.date(year, 1, 1)
            while day.year == year:
                if any(way(day).lower() == wanted for way in WAYS_OF_WRITING):
                    return day.isoformat()
                day += datetime.timedelta(days=1)
        return ""


def _day(number: int) -> datetime.date:
    return FIRST_DAY + datetime.timedelta(days=number)


def _every_character() -> list[str]:
    """Every character that occurs in the dates of four years, in lower case: all there are."""
    days = [_day(number) for number in range(4 * 366)] + [datetime.date(year, 1, 1) for year in range(1950, 2050)]
    return sorted({character for day in days for way in WAYS_OF_WRITING for character in way(day).lower()})


SRC_TOKENIZER = LowerCaseCharacterTokenizer(_every_character())
TGT_TOKENIZER = CharacterTokenizer("0123456789-")

DATES = DatesTask(
    name="dates",
    metric="exact_match",
    examples=(
        "March 3, 1999", "03/03/99", "3 Mar 1999", "1999年3月3日", "the 21st of July 2023", "二〇二四年十二月三十一日",
    ),
    min_length=8,
    max_length=29,
    data=DATA,
    src_tokenizer=SRC_TOKENIZER,
    tgt_tokenizer=TGT_TOKENIZER,
    preset=Preset(
        TransformerConfig(
            len(SRC_TOKENIZER), len(TGT_TOKENIZER), d_model=96, n_heads=4, d_ff=384, dropout=0.0, max_len=64
        ),
        TrainingConfig(
            steps=2000, batch_size=64, learning_rate=2e-3, warmup_steps=200, max_length=29, evaluate_every=250,
            evaluation_size=400, patience=8,
        ),
    ),
    n_test=1_000,
    mini_preset=None,
)
