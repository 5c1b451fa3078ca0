"""Figures of positional encodings: what they draw is what the model adds, and the mathematics they claim holds."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from builders import tiny_checkpoint as build_tiny_checkpoint
from transformer.model import sinusoidal_encoding
from transformer.tracing import encode_source, trace_text
from viz import positions
from viz.tabs.language import say
from viz.tabs.positions import (
    MOST_CURVES,
    checked_dimensions,
    checked_measure,
    checked_side,
    draw_all,
    draw_curves,
    encoding_of,
    swap_effect,
    toggled_pair,
)
from viz.tabs.session import Session


def words(key: str, language: str = "en", **values: object) -> str:
    return say(language, f"positions.{key}", **values)


def exact_encoding(n_positions: int, d_model: int) -> np.ndarray:
    """The formula of the paper in float64, written without the project's help."""
    table = np.zeros((n_positions, d_model))
    for position in range(n_positions):
        for dimension in range(d_model):
            angle = position / 10000 ** ((dimension - dimension % 2) / d_model)
            table[position, dimension] = np.cos(angle) if dimension % 2 else np.sin(angle)
    return table


def own_session(text: str = "3 1 7 3 10 2", **changes: object) -> Session:
    checkpoint = build_tiny_checkpoint(**changes)
    return Session("own", trace_text(checkpoint, text), checkpoint)


sizes = st.tuples(st.integers(1, 40), st.integers(2, 48))


@given(sizes)
def test_the_models_sinusoidal_table_is_the_formula_of_the_paper(size):
    n_positions, d_model = size
    stored = sinusoidal_encoding(n_positions, d_model).numpy()
    assert np.allclose(stored, exact_encoding(n_positions, d_model), atol=6e-8)


@given(d_model=st.integers(2, 512), shift=st.integers(0, 500), position=st.integers(0, 500), data=st.data())
def test_a_shift_is_a_rotation_to_1e12_in_float64(d_model, shift, position, data):
    omega = positions.frequencies(d_model)[data.draw(st.integers(0, d_model // 2 - 1))]
    before, after = (np.array([np.sin(p * omega), np.cos(p * omega)]) for p in (position, position + shift))
    assert np.abs(positions.rotation_matrix(shift * omega) @ before - after).max() <= 1e-12


@given(size=st.tuples(st.integers(3, 40), st.integers(2, 48)), data=st.data())
def test_the_best_fitting_turn_of_a_sinusoidal_pair_is_the_shift_times_its_frequency(size, data):
    n_positions, d_model = size
    pair = data.draw(st.integers(0, d_model // 2 - 1))
    shift = data.draw(st.integers(0, n_positions - 1))
    numbers = exact_encoding(n_positions, d_model)[:, 2 * pair : 2 * pair + 2]
    expected = shift * positions.frequencies(d_model)[pair]
    fitted = positions.fitted_angle(numbers, shift)
    assert np.isclose(np.cos(fitted), np.cos(expected), atol=1e-12)
    assert np.isclose(np.sin(fitted), np.sin(expected), atol=1e-12)
    assert positions.rotation_residual(numbers, shift, fitted) <= 1e-12


def test_learned_positions_are_no_rotation_and_the_residual_says_so():
    numbers = np.random.default_rng(0).normal(size=(12, 2))
    assert positions.rotation_residual(numbers, 3, positions.fitted_angle(numbers, 3)) > 0.5


@given(n_positions=st.integers(2, 40), half=st.integers(1, 24), measure=st.sampled_from(["dot", "cosine"]))
def test_similarity_of_a_sinusoidal_encoding_depends_only_on_the_distance(n_positions, half, measure):
    alike = positions.similarity(exact_encoding(n_positions, 2 * half), measure)
    mean, low, high = positions.by_distance(alike)
    assert np.allclose(low, high, atol=1e-12)
    assert mean[0] == pytest.approx(half if measure == "dot" else 1)


def test_similarity_is_measured_against_numpy():
    encoding = np.random.default_rng(1).normal(size=(7, 5))
    lengths = np.linalg.norm(encoding, axis=1)
    assert np.allclose(positions.similarity(encoding, "dot"), encoding @ encoding.T)
    assert np.allclose(positions.similarity(encoding, "cosine"), encoding @ encoding.T / np.outer(lengths, lengths))
    mean, low, high = positions.by_distance(encoding @ encoding.T)
    third = [encoding[i] @ encoding[i + 3] for i in range(4)]
    assert (mean[3], low[3], high[3]) == pytest.approx((np.mean(third), min(third), max(third)))


def test_similarity_of_no_positions_is_zero_and_not_nan():
    assert np.array_equal(positions.similarity(np.zeros((4, 6)), "cosine"), np.zeros((4, 4)))


def test_an_unknown_measure_is_refused():
    with pytest.raises(ValueError, match="measure must be dot or cosine, got 'angle'"):
        positions.similarity(np.ones((2, 2)), "angle")


@pytest.mark.parametrize("d_model", [12, 7])
def test_curves_draw_exactly_the_chosen_columns_over_position(d_model):
    encoding = sinusoidal_encoding(10, d_model).numpy()
    chart = positions.curves_chart(encoding, [0, 3, 6], 4, words, True)
    drawn = {trace.hovertemplate.split(",")[0].split()[1]: trace for trace in chart.figure.data}
    assert sorted(drawn) == ["0", "3", "6"]
    for dimension, trace in drawn.items():
        assert np.array_equal(trace.x, np.arange(10))
        assert np.array_equal(trace.y, encoding[:, int(dimension)])
    assert chart.figure.layout.shapes[0].x1 == 3.5  # the four tokens of the text are shaded


def test_a_curve_of_a_dimension_the_model_lacks_is_refused():
    with pytest.raises(ValueError, match=r"dimensions must lie in 0\.\.5, got \[6\]"):
        positions.curves_chart(np.zeros((3, 6)), [6], 1, words, True)


def test_the_matrix_and_its_table_hold_the_encoding_row_for_row():
    encoding = sinusoidal_encoding(5, 7).numpy()
    chart = positions.matrix_chart(encoding, words)
    assert np.array_equal(chart.figure.data[0].z, encoding)
    assert chart.figure.layout.yaxis.autorange == "reversed"
    assert [row[0] for row in chart.table.rows] == list(range(5))
    assert [[float(cell) for cell in row[1:]] for row in chart.table.rows] == pytest.approx(encoding.round(3), abs=1e-6)


def test_similarity_charts_draw_what_similarity_measures():
    encoding = np.random.default_rng(2).normal(size=(6, 4))
    alike = positions.similarity(encoding, "cosine")
    assert np.array_equal(positions.similarity_chart(encoding, "cosine", words).figure.data[0].z, alike)
    high, low, mean = (trace.y for trace in positions.distance_chart(encoding, "cosine", words).figure.data)
    for drawn, measured in zip((mean, low, high), positions.by_distance(alike), strict=True):
        assert np.array_equal(drawn, measured)


def test_the_sentence_under_similarity_tells_rounding_from_real_differences():
    exact = positions.distance_chart(exact_encoding(9, 8), "dot", words).summary
    random = positions.distance_chart(np.random.default_rng(3).normal(size=(9, 8)), "dot", words).summary
    assert exact.startswith("Only the distance counts")
    assert random.startswith("Not only the distance counts")


def test_norms_keep_every_token_on_an_axis_of_positions_and_escape_it():
    labels = ["3", "3", "<b>", "&amp;", "␣"]
    embed = np.random.default_rng(4).normal(size=(5, 6))
    place = np.random.default_rng(5).normal(size=(5, 6))
    figure = positions.norms_chart(labels, embed, place, words).figure
    assert list(figure.layout.xaxis.tickvals) == [0, 1, 2, 3, 4]
    assert list(figure.layout.xaxis.ticktext) == ["3", "3", "&lt;b&gt;", "&amp;amp;", "␣"]
    drawn = [trace.y for trace in figure.data]
    for bars, values in zip(drawn, (embed, place, embed + place), strict=True):
        assert np.allclose(bars, np.linalg.norm(values, axis=1))


def test_norms_refuse_labels_that_do_not_fit():
    with pytest.raises(ValueError, match="2 labels, 3 embeddings and 3 positions"):
        positions.norms_chart(["a", "b"], np.ones((3, 2)), np.ones((3, 2)), words)


@pytest.mark.parametrize("d_model", [8, 9])
def test_the_rotation_picture_gets_the_stored_numbers_and_leaves_an_odd_last_dimension_out(d_model):
    encoding = sinusoidal_encoding(6, d_model).numpy()
    payload = json.loads(positions.rotation_payload(encoding, "sinusoidal"))
    numbers = np.frombuffer(base64.b64decode(payload["encoding"]["data"]), "<f4").reshape(payload["encoding"]["shape"])
    assert np.array_equal(numbers, encoding[:, :8])
    assert payload["n_pairs"] == 4
    assert len(payload["frequencies"]) == 4
    assert payload["frequencies"] == pytest.approx([10000 ** (-2 * i / d_model) for i in range(4)])


@given(st.integers(1, 64), st.integers(1, 64))
def test_the_first_dimensions_to_look_at_exist_and_come_in_pairs(d_model, n_positions):
    chosen = positions.default_dimensions(d_model, n_positions)
    assert chosen
    assert all(0 <= dimension < d_model for dimension in chosen)
    assert len(set(chosen)) == len(chosen)


def test_what_is_drawn_is_what_the_model_adds():
    session = own_session()
    for side in ("source", "target"):
        stored = getattr(session.checkpoint.model, "src_embedding" if side == "source" else "tgt_embedding").positions
        assert np.array_equal(encoding_of(session.checkpoint, side), stored.numpy())


@pytest.mark.parametrize("positional_encoding", ["sinusoidal", "learned", "none"])
@pytest.mark.parametrize(("d_model", "n_heads"), [(12, 2), (7, 1), (1, 1)])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_tab_fills_itself_for_every_kind_of_model(positional_encoding, d_model, n_heads, language):
    session = own_session(positional_encoding=positional_encoding, d_model=d_model, n_heads=n_heads)
    for side in ("source", "target"):
        answer = draw_all(session, side, [], "cosine", language)
        assert json.loads(answer[0])["kind"] == positional_encoding
        assert all(update["visible"] == (positional_encoding != "none") for update in answer[1:4])
        for text in answer[5:]:
            json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} reached the page"))


def test_without_positions_the_encoder_does_not_notice_a_swap_and_with_them_it_does():
    session = own_session(positional_encoding="sinusoidal")
    effect = swap_effect(session.checkpoint, session.trace)
    assert effect["with_positions"] > 0.01
    assert effect["without"] < 1e-5
    nothing = own_session(positional_encoding="none")
    assert swap_effect(nothing.checkpoint, nothing.trace)["with_positions"] < 1e-5


def test_a_swap_is_found_in_a_text_of_one_repeated_token():
    session = own_session("5 5 5")
    effect = swap_effect(session.checkpoint, session.trace)
    assert (effect["first"], effect["second"]) == (0, 3)  # the last one is <eos>


def test_choices_that_no_page_sends_are_held_within_the_model():
    assert checked_side("__class__") == "source"
    assert checked_side(["source"]) == "source"
    assert checked_measure(None) == "cosine"
    assert checked_measure("dot") == "dot"
    assert checked_dimensions([3, 3, -1, 99, "2", True, 2.0, None], 12) == [3]
    assert checked_dimensions("0", 12) == []
    assert checked_dimensions(None, 12) == []
    assert len(checked_dimensions(list(range(64)), 64)) == MOST_CURVES
    assert json.loads(draw_curves(own_session(), "no such side", [10**9], "en"))["figure"]["data"]


def test_a_click_on_a_column_puts_its_pair_in_and_another_takes_it_out():
    assert toggled_pair([0, 1], 5, 12) == [0, 1, 4, 5]
    assert toggled_pair([0, 1, 4, 5], 4, 12) == [0, 1]
    assert toggled_pair([0, 1], 0, 12) == [0, 1]  # the last pair stays: the figure is never empty
    assert toggled_pair([0, 1], 6, 7) == [0, 1, 6]  # the last dimension of an odd width has no partner
    full = list(range(8))
    assert toggled_pair(full, 11, 12) == [2, 3, 4, 5, 6, 7, 10, 11]


def test_a_long_text_in_a_short_model_shades_no_position_that_is_not_there():
    session = own_session("1 2 3 4 5 6 7 8 9 1 2 3 4 5 6", max_len=16)
    assert len(encode_source(session.checkpoint, session.trace.text)[0]) == 16
    shape = json.loads(draw_curves(session, "source", [0], "en"))["figure"]["layout"]["shapes"][0]
    assert shape["x1"] == 15.5


def test_words_of_the_tab_exist_in_both_languages_and_say_the_same_values():
    for language in ("en", "zh"):
        encoding = sinusoidal_encoding(8, 6).numpy()
        chart = positions.curves_chart(encoding, [0, 1], 3, partial(words, language=language), True)
        assert "6.28" in chart.summary


def test_a_trace_with_pads_keeps_its_labels_apart():
    session = own_session()
    padded = trace_text(session.checkpoint, "3 1", n_padding=4)
    text = draw_all(replace(session, trace=padded), "source", [], "cosine", "en")[10]
    labels = json.loads(text)["figure"]["layout"]["xaxis"]["ticktext"]
    assert labels == ["3", "1", "&lt;eos&gt;", *["&lt;pad&gt;"] * 4]


def test_reading_the_encoding_leaves_the_model_as_it_was():
    session = own_session(positional_encoding="learned")
    before = {name: value.clone() for name, value in session.checkpoint.model.state_dict().items()}
    draw_all(session, "target", [0, 1], "dot", "zh")
    assert all(torch.equal(value, before[name]) for name, value in session.checkpoint.model.state_dict().items())
