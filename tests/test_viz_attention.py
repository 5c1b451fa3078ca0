"""The attention map as a figure, the facts said of a head, and the tab's way from a choice to its numbers."""

from __future__ import annotations

import html as html_module
import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import tiny_checkpoint as build_tiny_checkpoint
from transformer.checkpoints import shipped_checkpoint
from transformer.errors import InputError
from transformer.tracing import ATTENTION_KINDS, address, record_values, trace_text
from viz.arithmetic import STAGES, shown
from viz.attention import LONGEST_MAP, attention_chart, head_facts, map_room
from viz.tabs.attention import (
    STAGE_HOOKS,
    Choice,
    checked_choice,
    derivation,
    facts_sentence,
    head_values,
    labels_of,
    map_json,
    percentage,
    shape_lines,
    usual_mask,
    words_in,
)
from viz.tabs.attention_code import CODE_LINES
from viz.tabs.language import ASSETS
from viz.text import token_labels

ENGLISH = words_in("en")


def weights_of(n_queries: int, n_keys: int, mask: np.ndarray | None = None, seed: int = 0) -> np.ndarray:
    scores = np.random.default_rng(seed).normal(size=(n_queries, n_keys))
    exponentials = np.exp(scores) * (True if mask is None else mask)
    total = exponentials.sum(axis=1, keepdims=True)
    return (exponentials / np.where(total, total, 1)).astype(np.float32)


def chart_of(values, queries, keys, mask=None, stage="softmax"):
    mask = np.ones(values.shape, bool) if mask is None else mask
    return attention_chart(values, mask, queries, keys, stage=stage, words=ENGLISH, summary="s")


def test_the_figure_holds_exactly_the_numbers_it_was_given():
    values = weights_of(3, 4)
    figure = chart_of(values, list("abc"), list("defg")).figure
    assert np.array_equal(figure.data[0].z, values)
    assert (figure.data[0].zmin, figure.data[0].zmax) == (0, 1)


def test_number_like_and_equal_tokens_keep_their_places_in_reading_order():
    tokens = ["3", "1", "7", "3", "10", "2", "<eos>"]
    layout = chart_of(weights_of(7, 7), tokens, tokens).figure.layout
    for axis in (layout.xaxis, layout.yaxis):
        assert axis.tickvals == tuple(range(7))
        assert axis.ticktext == ("3", "1", "7", "3", "10", "2", "&lt;eos&gt;")
    assert layout.xaxis.range == (-0.5, 6.5)
    assert layout.yaxis.range == (6.5, -0.5)  # row 0 on top


def test_the_axes_say_which_is_query_and_which_is_key():
    layout = chart_of(weights_of(2, 3), list("ab"), list("cde")).figure.layout
    assert "Query" in layout.yaxis.title.text
    assert "Key" in layout.xaxis.title.text
    assert (len(layout.yaxis.ticktext), len(layout.xaxis.ticktext)) == (2, 3)


def test_labels_are_shown_to_the_letter_on_axes_and_in_hover_texts():
    tokens = ["<s>", "</s>", "<b>", "<i>", "<sub>", "<br>", "&amp;", '"']
    figure = chart_of(weights_of(8, 8), tokens, tokens).figure
    assert [html_module.unescape(text) for text in figure.layout.xaxis.ticktext] == tokens
    assert not any("<" in text for text in figure.layout.xaxis.ticktext)
    assert "&quot;" not in "".join(figure.layout.xaxis.ticktext)  # which Plotly would show as it stands
    hover = figure.data[0].hovertext[2][5]
    assert re.findall(r"</?\w+>", hover) == ["<br>", "<br>", "<b>", "</b>"]  # ours, none of the tokens'
    assert "query <b> (row 2)" in html_module.unescape(hover)
    assert "key <br> (column 5)" in html_module.unescape(hover)


def test_hover_names_both_tokens_their_places_and_the_value_of_every_cell():
    values = weights_of(2, 3)
    hover = chart_of(values, ["a", "a"], ["b", "b", "b"]).figure.data[0].hovertext
    for row in range(2):
        for column in range(3):
            assert hover[row][column] == (
                f"query a (row {row})<br>key b (column {column})<br>weight: <b>{shown(values[row, column])}</b>"
            )


def test_labels_that_do_not_fit_are_refused_with_both_numbers():
    with pytest.raises(ValueError, match="2 labels for 3 rows"):
        chart_of(weights_of(3, 3), ["a", "b"], list("abc"))
    with pytest.raises(ValueError, match="4 labels for 3 columns"):
        chart_of(weights_of(3, 3), list("abc"), list("abcd"))
    with pytest.raises(ValueError, match=r"mask of shape \(3, 3\), got \(2, 3\)"):
        chart_of(weights_of(3, 3), list("abc"), list("abc"), np.ones((2, 3), bool))
    with pytest.raises(ValueError, match="not finite"):
        chart_of(np.full((1, 1), np.nan), ["a"], ["b"])
    with pytest.raises(ValueError, match="no stage 'last'"):
        chart_of(weights_of(1, 1), ["a"], ["b"], stage="last")


def test_hidden_cells_are_drawn_as_hidden_and_never_as_numbers():
    mask = np.tri(3, dtype=bool)
    scores = np.where(mask, np.arange(9.0).reshape(3, 3) - 4, -np.inf)
    chart = chart_of(scores, list("abc"), list("abc"), mask, "masked")
    numbers, ground, strokes = chart.figure.data
    assert np.array_equal(np.isnan(numbers.z), ~mask)
    assert np.array_equal(np.isnan(ground.z), mask)
    assert {*zip(strokes.x, strokes.y, strict=True)} == {(1, 0), (2, 0), (2, 1)}
    assert ground.hovertext[0][2].endswith("masked: may not attend")
    assert numbers.zmin == -numbers.zmax  # scores reach as far to both sides of 0
    assert chart.table.rows[0] == ["0 a", "−4", "masked", "masked"]
    assert "Infinity" not in chart.to_json()


def test_scores_before_the_mask_are_shown_in_hidden_cells_too():
    figure = chart_of(np.arange(9.0).reshape(3, 3), list("abc"), list("abc"), np.tri(3, dtype=bool), "raw").figure
    assert len(figure.data) == 1
    assert np.isfinite(figure.data[0].z).all()


def test_a_row_that_sees_nothing_is_drawn_as_such_and_holds_no_nan():
    mask = np.array([[True, True], [False, False]])
    chart = chart_of(weights_of(2, 2, mask), ["a", "b"], ["c", "d"], mask)
    (note,) = chart.figure.layout.annotations
    assert (note.y, note.text) == (1, "sees nothing")
    assert chart.figure.data[1].hovertext[1][0].endswith("sees nothing")
    assert "nan" not in json.dumps(chart.table.rows).lower()
    facts = head_facts(weights_of(2, 2, mask), mask)
    assert np.isfinite([facts.entropy_bits, facts.effective_keys, facts.offset_share]).all()
    assert head_facts(np.zeros((2, 2)), np.zeros((2, 2), bool)) is None


@pytest.mark.parametrize("n", [1, 2, 31, 64, 200])
def test_every_cell_of_a_map_of_any_length_is_there_and_labels_stay_apart(n):
    labels = [str(i % 7) for i in range(n)]
    chart = chart_of(weights_of(n, n), labels, labels)
    layout, room = chart.figure.layout, map_room(chart)
    assert chart.figure.data[0].z.shape == (n, n)
    assert len(chart.table.rows) == n
    cell = min(room["width"]["min"] - 120, LONGEST_MAP) / n
    ticks = layout.xaxis.tickvals
    assert len(ticks) == 1 or (ticks[1] - ticks[0]) * cell >= 12
    assert (len(ticks) == n) == (n <= 128)
    assert layout.xaxis.tickfont.size >= 12


def test_a_long_label_is_shortened_with_a_sign_on_the_axis_only():
    figure = chart_of(weights_of(1, 1), ["x" * 200], ["y" * 200]).figure
    assert figure.layout.yaxis.ticktext == ("x" * 13 + "…",)
    assert "x" * 200 in figure.data[0].hovertext[0][0]


def test_the_facts_of_a_head_name_its_habit():
    ones = np.ones((5, 5), bool)
    for weights, habit, place in (
        (np.eye(5), "offset", 0),
        (np.eye(5, k=1) + np.eye(5, k=-4), "offset", 1),
        (np.eye(5)[::-1], "mirror", 4),
        (np.repeat(np.eye(5)[[3]], 5, axis=0), "column", 3),
        (np.full((5, 5), 0.2), "spread", None),
    ):
        facts = head_facts(weights, ones)
        assert facts.habit == habit
        if place is not None:
            assert getattr(facts, habit) == place
    assert head_facts(np.full((5, 5), 0.2), ones).effective_keys == pytest.approx(5)
    assert head_facts(np.eye(5), ones).entropy_bits == 0


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_head_is_said_in_words_of_its_own_numbers(language):
    weights = 0.9 * np.eye(4) + 0.1 * np.eye(4)[::-1]
    for kind in ATTENTION_KINDS:
        sentence = facts_sentence(head_facts(weights, np.ones((4, 4), bool)), kind, list("abcd"), words_in(language))
        assert "90.0 %" in sentence
        assert "0.47" in sentence  # bits of a 90 : 10 choice
    assert facts_sentence(None, "cross", [], ENGLISH) == "No row of this head may attend to anything."
    assert (percentage(0.9999), percentage(1.0), percentage(0.5)) == ("> 99.9", "100.0", "50.0")


@pytest.fixture(scope="module")
def trace(tiny_checkpoint):
    return trace_text(tiny_checkpoint, "3 1 7 3 10 2", n_padding=2)


@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_each_stage_of_a_map_is_what_the_model_computed_at_its_hook(tiny_checkpoint, trace, kind):
    values = head_values(tiny_checkpoint, trace, Choice(kind, 1, 1, "raw"))
    recorded = record_values(tiny_checkpoint, trace)
    for stage, hook in STAGE_HOOKS.items():
        assert np.array_equal(values.stages[stage], recorded[address(kind, 1, hook)][1])
    assert np.allclose(values.stages["softmax"], trace.patterns[kind][1, 1], atol=1e-6)
    assert np.array_equal(values.mask, usual_mask(trace, kind))


def test_padding_keys_are_apart_hidden_and_explained(tiny_checkpoint, trace):
    query_labels, key_labels = labels_of(trace, "cross")
    assert key_labels[-2:] == ["<pad>", "<pad>"]
    assert query_labels[0] == "<bos>"
    choice = Choice("cross", 0, 0, "softmax", 0, len(key_labels) - 1)
    numbers, html, said = derivation(head_values(tiny_checkpoint, trace, choice), trace, choice, ENGLISH)
    assert numbers["softmax"] == "0"
    assert "The key is padding" in html
    assert said.endswith("a weight of 0.")


def test_a_future_key_is_explained_as_one(tiny_checkpoint, trace):
    choice = Choice("decoder_self", 0, 0, "masked", 0, 1)
    _, html, _ = derivation(head_values(tiny_checkpoint, trace, choice), trace, choice, ENGLISH)
    assert "yet to be written" in html


def test_without_the_model_only_the_weights_are_shown_and_it_is_said(trace):
    choice = Choice("cross", 0, 0, "softmax", 1, 2)
    values = head_values(None, trace, choice)
    assert list(values.stages) == ["softmax"]
    numbers, html, _ = derivation(values, trace, choice, ENGLISH)
    assert numbers == {"softmax": shown(trace.patterns["cross"][0, 0, 1, 2])}
    assert "its weights are not here" in html
    assert json.loads(map_json(values, trace, choice, ENGLISH))["selects"] == {"x": "key", "y": "query"}


@pytest.mark.parametrize(("n_heads", "n_encoder_layers", "n_decoder_layers"), [(1, 1, 3), (2, 3, 1), (6, 2, 1)])
def test_any_number_of_heads_and_unequal_stacks_can_be_looked_into(n_heads, n_encoder_layers, n_decoder_layers):
    checkpoint = build_tiny_checkpoint(
        n_heads=n_heads, n_encoder_layers=n_encoder_layers, n_decoder_layers=n_decoder_layers
    )
    trace = trace_text(checkpoint, "1 2 3")
    for kind in ATTENTION_KINDS:
        n_layers = n_encoder_layers if kind == "encoder_self" else n_decoder_layers
        choice = checked_choice(trace, kind=kind, layer=n_layers - 1, head=n_heads - 1, stage="raw")
        assert f", {n_heads}, " in shape_lines(trace, choice)["raw"].numbers
        assert json.loads(map_json(head_values(checkpoint, trace, choice), trace, choice, ENGLISH))["summary"]
        with pytest.raises(InputError, match=f"from 0 to {n_layers - 1}"):
            checked_choice(trace, kind=kind, layer=n_layers, head=0, stage="raw")


@pytest.mark.parametrize(
    "forged",
    [
        {"kind": "other"}, {"kind": None}, {"kind": ["cross"]}, {"stage": "x" * 10_000}, {"layer": -1}, {"layer": "0"},
        {"head": 99}, {"head": 0.5}, {"head": True}, {"query": 1000}, {"key": None},
    ],
)
def test_a_forged_choice_is_refused_in_a_short_sentence(trace, forged):
    with pytest.raises(InputError) as refused:
        checked_choice(trace, **{"kind": "cross", "layer": 0, "head": 0, "stage": "raw", **forged})
    assert len(str(refused.value)) < 200


def test_shapes_follow_the_letters_of_the_code(trace):
    n_queries, n_keys = len(trace.tgt_in_tokens), len(trace.src_tokens)
    lines = shape_lines(trace, Choice("cross", 0, 0, "raw"))
    assert lines["raw"].letters == "[B, H, T, K] @ [B, H, K, S] → [B, H, T, S]"
    assert lines["raw"].numbers == f"[1, 2, {n_queries}, 6] @ [1, 2, 6, {n_keys}] → [1, 2, {n_queries}, {n_keys}]"
    assert "[B, 1, T, T]" in shape_lines(trace, Choice("decoder_self", 0, 0, "raw"))["masked"].letters


def test_the_lines_of_code_stand_in_the_source_where_they_say():
    for stage, hook in (("raw", "hook_raw_scores"), ("scaled", "hook_scaled_scores"), ("masked", "hook_attn_scores")):
        assert hook in CODE_LINES[stage].text
    assert "softmax" in CODE_LINES["softmax"].text
    for line in CODE_LINES.values():
        file, number = line.place.split(":")
        source = (ASSETS.parent / file).read_text(encoding="utf-8").splitlines()
        assert source[int(number) - 1].strip() == line.text


@given(
    st.lists(st.integers(0, 31), min_size=1, max_size=18),
    st.sampled_from(list(ATTENTION_KINDS)),
    st.randoms(use_true_random=False),
)
def test_any_displayed_number_of_the_shipped_model_equals_what_the_model_computed(numbers, kind, dice):
    """Any text, kind, head and cell: the derivation agrees with the recorded float32 values to what those can hold."""
    checkpoint = shipped_checkpoint("copy")
    symbols = checkpoint.src_tokenizer.vocabulary[4:]  # after the special tokens
    trace = trace_text(checkpoint, " ".join(symbols[n % len(symbols)] for n in numbers))
    place = [dice.randrange(size) for size in trace.patterns[kind].shape]
    choice = checked_choice(
        trace, kind=kind, layer=place[0], head=place[1], stage="softmax", query=place[2], key=place[3]
    )
    values = head_values(checkpoint, trace, choice)
    displayed, html, _ = derivation(values, trace, choice, ENGLISH)
    size = float(np.abs(values.q[choice.query] * values.k[choice.key]).sum())
    for stage in STAGES:
        recorded = float(values.stages[stage][choice.query, choice.key])
        if np.isinf(recorded):
            assert displayed[stage] == "−∞"
            continue
        text = displayed[stage].replace("−", "-")
        mantissa, _, power = text.partition("×10")
        power = power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
        number = float(mantissa) * 10.0 ** int(power or 0)
        # Half a unit of the fourth digit, and what float32 sums of products of this size may lose.
        assert number == pytest.approx(recorded, rel=1e-3, abs=2e-6 * max(size, 1))
    assert html.count("<section") == len(STAGES)


def test_labels_of_unknown_tokens_say_what_was_typed(tiny_checkpoint):
    trace = trace_text(tiny_checkpoint, "3 zebra 7")
    assert labels_of(trace, "encoder_self")[0] == token_labels(trace.src_tokens, trace.src_pieces)
    assert "<unk> zebra" in labels_of(trace, "cross")[1]
