"""The written-out arithmetic of a weight: what is displayed equals a recomputation, and nothing in it is markup."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viz.arithmetic import STAGES, CodeLine, ShapeLine, arithmetic_html, cell_arithmetic, equals, is_rounded, shown

CODE = {stage: CodeLine("transformer/model.py:1", "a = b < c & d") for stage in STAGES}
SHAPES = {stage: ShapeLine("[B, H, T, S]", "[1, 2, 3, 4]") for stage in STAGES}
HOSTILE = ["<b>", "</td>", "<img src=x onerror=alert(1)>", '" onclick="x', "&amp;", "<script>", "'", "{key}"]
SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def echo(name: str, **values: object) -> str:
    """Words that are their own names."""
    return f"{name} {' '.join(f'{key}={value}' for key, value in values.items())}".strip()


def read_back(text: str) -> float:
    """The number that ``shown`` wrote."""
    text = text.replace("−", "-").replace("∞", "inf")
    if "×10" in text:
        mantissa, power = text.split("×10")
        return float(mantissa) * 10.0 ** int(power.translate(SUPERSCRIPTS))
    return float(text)


def html_of(cell, key_labels, **changes) -> str:
    settings = {
        "query": 0, "query_label": "q", "key_labels": key_labels, "hidden_because": "future", "code": CODE,
        "shapes": SHAPES, "words": echo, **changes,
    }
    return arithmetic_html(cell, **settings)


def displayed(html: str, stage: str) -> str:
    (value,) = re.findall(rf'data-value="{stage}">([^<]*)<', html)
    return value


@st.composite
def rows(draw):
    """A query, keys, a mask and one key of the row."""
    n_keys, width = draw(st.integers(1, 9)), draw(st.integers(1, 12))
    source = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = draw(st.sampled_from([0.01, 1.0, 8.0]))
    q, keys = source.normal(size=width) * size, source.normal(size=(n_keys, width)) * size
    allowed = np.array(draw(st.lists(st.booleans(), min_size=n_keys, max_size=n_keys)))
    return q.astype(np.float32), keys.astype(np.float32), allowed, draw(st.integers(0, n_keys - 1))


@given(rows())
def test_every_displayed_number_equals_a_recomputation_to_the_digits_shown(row):
    q, keys, allowed, key = row
    raw = sum(float(a) * float(b) for a, b in zip(q, keys[key], strict=True))
    scaled = raw / math.sqrt(len(q))
    scores = [sum(float(a) * float(b) for a, b in zip(q, k, strict=True)) / math.sqrt(len(q)) for k in keys]
    total = sum(math.exp(s) for s, seen in zip(scores, allowed, strict=True) if seen)
    weight = math.exp(scores[key]) / total if allowed[key] else 0.0
    html = html_of(cell_arithmetic(q, keys, allowed, key), ["k"] * len(keys))
    for stage, expected in (
        ("raw", raw), ("scaled", scaled), ("masked", scaled if allowed[key] else -math.inf), ("softmax", weight)
    ):
        assert read_back(displayed(html, stage)) == pytest.approx(expected, rel=5.1e-4, abs=1e-9)
    assert displayed(html, "weight") == displayed(html, "softmax")
    products = re.findall(r'data-product="\d+">([^<]*)<', html)
    assert [read_back(text) for text in products] == pytest.approx(list(q.astype(float) * keys[key]), rel=5.1e-4)


@given(rows())
def test_weights_of_a_row_sum_to_one_or_are_all_zero(row):
    cell = cell_arithmetic(*row)
    assert not np.isnan(cell.weights).any()
    assert cell.weights.sum() == pytest.approx(0.0 if cell.sees_nothing else 1.0)
    assert (cell.weights[~cell.row_allowed] == 0).all()


def test_a_masked_cell_has_a_weight_of_exactly_0_and_says_why():
    cell = cell_arithmetic(np.ones(2), np.ones((3, 2)), np.array([True, True, False]), 2)
    html = html_of(cell, ["a", "b", "c"], hidden_because="padding")
    assert (cell.weight, cell.masked) == (0.0, -math.inf)
    assert displayed(html, "softmax") == "0"
    assert displayed(html, "masked") == "−∞"
    assert "explain_hidden_padding" in html
    assert "explain_softmax_hidden" in html


def test_a_row_that_sees_nothing_has_zero_weights_and_says_so():
    cell = cell_arithmetic(np.ones(2), np.ones((3, 2)), np.zeros(3, bool), 1)
    html = html_of(cell, ["a", "b", "c"])
    assert cell.sees_nothing
    assert cell.weights.tolist() == [0, 0, 0]
    assert "explain_sees_nothing" in html
    assert "nan" not in html.lower()


class Texts(HTMLParser):
    """Every text, tag and attribute of an HTML."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}

    def handle_data(self, data):
        self.texts.append(data)


def test_hostile_tokens_and_words_are_shown_to_the_letter_and_make_no_markup():
    keys = np.arange(2.0 * len(HOSTILE)).reshape(-1, 2) / 10
    cell = cell_arithmetic(np.ones(2), keys, np.ones(len(HOSTILE), bool), 2)
    plain = Texts(html_of(cell, ["k"] * len(HOSTILE), query_label="q", note="n"))
    page = Texts(
        html_of(cell, HOSTILE, query_label=HOSTILE[2], note="<i>n</i>", words=lambda name, **values: f"<u>{name}</u>")
    )
    assert page.tags == plain.tags
    assert page.attributes == plain.attributes
    for token in HOSTILE:
        assert token in page.texts
    assert "<i>n</i>" in page.texts


def test_each_stage_has_its_line_of_code_and_its_shapes():
    html = html_of(cell_arithmetic(np.ones(4), np.ones((1, 4)), np.ones(1, bool), 0), ["k"])
    sections = re.findall(r'<section class="gf-step" data-stage="(\w+)">(.*?)</section>', html)
    assert tuple(stage for stage, _ in sections) == STAGES
    for _, section in sections:
        assert "a = b &lt; c &amp; d" in section
        assert "transformer/model.py:1" in section
        assert "[1, 2, 3, 4]" in section


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (-0.0, "0"), (0.25, "0.25"), (1 / 3, "0.3333"), (-1.5, "−1.5"), (12345.678, "12346"), (4.0, "4"),
        (0.99999, "1.000"), (1.23456e-9, "1.235×10⁻⁹"), (9.99999e-6, "0.00001000"), (-math.inf, "−∞"),
        (1e12, "1.000×10¹²"),
    ],
)
def test_numbers_are_shown_to_four_digits(value, text):
    assert shown(value) == text


def test_a_rounded_number_is_marked_and_an_exact_one_is_not():
    assert equals(0.25) == "= 0.25"
    assert equals(0.99999) == "≈ 1.000"
    assert not is_rounded(-math.inf)
    with pytest.raises(ValueError, match="NaN"):
        shown(math.nan)


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_what_is_shown_is_within_half_a_unit_of_the_fourth_digit(value):
    assert read_back(shown(value)) == pytest.approx(value, rel=5.01e-4)
    if not is_rounded(value):
        assert read_back(shown(value)) == value


def test_shapes_that_do_not_fit_are_refused_with_both_numbers():
    with pytest.raises(ValueError, match=r"\(3, 2\) and \(4,\)"):
        cell_arithmetic(np.ones(4), np.ones((3, 2)), np.ones(3, bool), 0)
    with pytest.raises(ValueError, match="got 2 for 3 keys"):
        cell_arithmetic(np.ones(2), np.ones((3, 2)), np.ones(2, bool), 0)
    with pytest.raises(ValueError, match="no key 3 among 3"):
        cell_arithmetic(np.ones(2), np.ones((3, 2)), np.ones(3, bool), 3)
    with pytest.raises(ValueError, match="2 labels for 3 keys"):
        html_of(cell_arithmetic(np.ones(2), np.ones((3, 2)), np.ones(3, bool), 0), ["a", "b"])
