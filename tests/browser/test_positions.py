"""The Positions tab in a real browser: opened cold, nothing empty, and its choices do what they say."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from browser.visit import open_tab
from transformer.checkpoints import shipped_checkpoint

N_CHARTS = 5


@pytest.fixture
def positions_tab(page: Page, settle) -> Page:
    """The page with the tab of positions just opened, every chart drawn."""
    open_tab(page, "positions")
    settle(page)
    wait_for_charts(page)
    return page


def wait_for_charts(page: Page) -> None:
    page.wait_for_function(
        "(n) => [...document.querySelectorAll('[role=tabpanel] .js-plotly-plot')]"
        ".filter((plot) => plot.offsetParent && plot._fullData && plot._fullData.length).length === n",
        arg=N_CHARTS,
    )


def panel(page: Page):
    return page.locator("[role=tabpanel]:visible", has=page.locator(".gf-rotation"))


def plot_data(page: Page, index: int) -> list:
    """What Plotly drew in the chart of this number, counted from the top of the tab."""
    return page.evaluate(
        "(index) => [...document.querySelectorAll('[role=tabpanel] .js-plotly-plot')]"
        ".filter((p) => p.offsetParent)[index]._fullData"
        ".map((trace) => ({name: trace.name, y: trace.y && Array.from(trace.y)}))",
        index,
    )


def slide(page: Page, name: str, value: int) -> None:
    page.locator(f".gf-rotation input[name={name}]").evaluate(
        "(input, value) => { input.value = value; input.dispatchEvent(new Event('input', {bubbles: true})); }", value
    )


def matrix_numbers(page: Page) -> list[float]:
    cells = page.locator(".gf-term-turn .gf-matrix span").all_inner_texts()
    return [float(cell.replace("−", "-")) for cell in cells]


def residual(page: Page, name: str) -> float:
    return float(page.locator(f"[data-residual={name}]").inner_text().replace("−", "-"))


def test_opened_cold_every_chart_has_height_and_the_width_of_its_card(open_page, settle):
    page = open_page(width=390, lang="zh", dark=True)
    open_tab(page, "positions")
    settle(page)
    wait_for_charts(page)
    boxes = page.evaluate(
        "() => [...document.querySelectorAll('[role=tabpanel] .gf-chart-plot')].filter((p) => p.offsetParent)"
        ".map((p) => ({height: p.clientHeight, width: p.clientWidth, drawn: p.querySelector('.main-svg').clientWidth}))"
    )
    assert len(boxes) == N_CHARTS
    for box in boxes:
        assert box["height"] > 250
        assert box["width"] > 240
        assert abs(box["drawn"] - box["width"]) <= 1


def test_after_a_resize_the_charts_follow_the_width(positions_tab: Page, settle):
    positions_tab.set_viewport_size({"width": 800, "height": 900})
    positions_tab.wait_for_function(
        "() => [...document.querySelectorAll('[role=tabpanel] .gf-chart-plot')].filter((p) => p.offsetParent)"
        ".every((p) => Math.abs(p.querySelector('.main-svg').clientWidth - p.clientWidth) <= 1)"
    )


def test_moving_the_position_leaves_the_matrix_and_changes_the_hand(positions_tab: Page):
    page = positions_tab
    slide(page, "pair", 2)
    slide(page, "shift", 5)
    slide(page, "position", 1)
    before, equation = matrix_numbers(page), page.locator(".gf-rotation .gf-equation").inner_text()
    slide(page, "position", 7)
    assert matrix_numbers(page) == before
    assert page.locator(".gf-rotation .gf-equation").inner_text() != equation
    d_model = shipped_checkpoint("copy").model.config.d_model
    angle = 5 * 10000 ** (-4 / d_model)
    cos, sin = math.cos(angle), math.sin(angle)
    assert before == pytest.approx([cos, sin, -sin, cos], abs=6e-5)


def test_the_residuals_shown_are_those_of_the_stored_numbers_and_of_rounding(positions_tab: Page):
    page = positions_tab
    slide(page, "pair", 1)
    slide(page, "shift", 3)
    slide(page, "position", 4)
    stored = shipped_checkpoint("copy").model.src_embedding.positions.double().numpy()
    angle = 3 * 10000 ** (-2 / stored.shape[1])
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    missed = np.linalg.norm(stored[:-3, 2:4] @ turn.T - stored[3:, 2:4], axis=1)
    assert residual(page, "here") == pytest.approx(missed[4], rel=0.06)
    assert residual(page, "all") == pytest.approx(missed.max(), rel=0.06)
    assert residual(page, "exact") <= 1e-15


def test_a_small_clock_chooses_its_pair_and_a_long_shift_holds_the_position_in_range(positions_tab: Page):
    page = positions_tab
    page.locator(".gf-small-clock").nth(3).click()
    expect(page.locator(".gf-small-clock").nth(3)).to_have_attribute("aria-pressed", "true")
    slide(page, "position", 60)
    slide(page, "shift", 60)
    max_len = shipped_checkpoint("copy").model.config.max_len
    assert int(page.locator(".gf-rotation input[name=position]").input_value()) <= max_len - 1 - 60
    assert "NaN" not in page.locator(".gf-rotation").inner_text()


def test_the_curves_follow_the_chosen_dimensions_and_a_click_on_a_column_adds_its_pair(positions_tab: Page, settle):
    page = positions_tab
    n_before = len(plot_data(page, 0))
    page.locator(".gf-dimensions").get_by_role("button", name=re.compile("remove", re.I)).first.click()
    page.wait_for_function(
        "(n) => document.querySelector('[role=tabpanel] .gf-dimensions').closest('.gf-card')"
        ".querySelector('.js-plotly-plot')._fullData.length === n",
        arg=n_before - 1,
    )
    settle(page)
    stored = shipped_checkpoint("copy").model.src_embedding.positions.numpy()
    drawn = [np.array(trace["y"]) for trace in plot_data(page, 0)]
    assert all(any(np.allclose(curve, stored[:, d]) for d in range(stored.shape[1])) for curve in drawn)
    matrix = page.locator("[role=tabpanel]:visible .js-plotly-plot").nth(1)
    matrix.locator(".nsewdrag").click(position={"x": 60, "y": 60})
    settle(page)
    page.wait_for_function(
        "(n) => document.querySelector('[role=tabpanel] .gf-dimensions').closest('.gf-card')"
        ".querySelector('.js-plotly-plot')._fullData.length > n",
        arg=n_before - 1,
    )


def test_the_measure_changes_both_pictures_of_similarity(positions_tab: Page, settle):
    page = positions_tab
    assert max(plot_data(page, 2)[2]["y"]) == pytest.approx(1)
    page.locator(".gf-measure label", has_text="Dot product").click()
    d_model = shipped_checkpoint("copy").model.config.d_model
    settle(page)
    page.wait_for_function(
        "() => Math.max(...[...document.querySelectorAll('[role=tabpanel] .js-plotly-plot')]"
        ".filter((p) => p.offsetParent)[2]._fullData[2].y) > 2"
    )
    assert max(plot_data(page, 2)[2]["y"]) == pytest.approx(d_model / 2)
