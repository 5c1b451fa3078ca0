"""The Attention tab in a browser: what is clicked, what is shown, and that both are the model's own numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from browser.visit import choose_language, decode_text, open_tab
from transformer.checkpoints import shipped_checkpoint
from transformer.tracing import address, record_values, trace_text
from viz.arithmetic import shown
from viz.tabs.attention import STAGE_HOOKS

PLOT = ".gf-att .gf-chart-plot"


@pytest.fixture
def attention(page: Page, settle: Callable[[Page], None]) -> Page:
    """The tab on cross-attention after the softmax, which is what a first-time visitor finds."""
    open_attention(page, settle)
    return page


def open_attention(page: Page, settle: Callable[[Page], None]) -> None:
    open_tab(page, "attention")
    page.wait_for_selector(f"{PLOT} .main-svg")
    page.wait_for_selector(".gf-sum .gf-step")
    page.evaluate("glassformer.select({ kind: 'cross', stage: 'softmax' })")
    settle(page)


def map_values(page: Page) -> list[list[float]]:
    """The numbers in the chart, as Plotly has them; None where there is none."""
    return page.evaluate(
        f"""() => Array.from(document.querySelector("{PLOT}")._fullData[0].z,
             row => Array.from(row, number => Number.isFinite(number) ? number : null))"""
    )


def click_cell(page: Page, row: int, column: int) -> None:
    """Press the mouse on a cell of the map."""
    page.locator(PLOT).scroll_into_view_if_needed()
    x, y = page.evaluate(
        f"""([row, column]) => {{
          const plot = document.querySelector("{PLOT}"), box = plot.getBoundingClientRect();
          const {{ xaxis, yaxis }} = plot._fullLayout;
          return [box.left + xaxis._offset + xaxis.l2p(column), box.top + yaxis._offset + yaxis.l2p(row)];
        }}""",
        [row, column],
    )
    page.mouse.move(x, y)
    page.mouse.click(x, y)


def displayed(page: Page, stage: str) -> str:
    return page.locator(f'.gf-step [data-value="{stage}"]').inner_text()


def selection(page: Page) -> dict:
    return page.evaluate("glassformer.selection")


def recorded(page: Page, stage: str):
    """What the shipped model computes for the page's text in the selected head."""
    chosen = selection(page)
    checkpoint = shipped_checkpoint("copy")
    trace = trace_text(checkpoint, page.locator(".gf-text textarea").input_value())
    name = address(chosen["kind"], chosen["layer"], STAGE_HOOKS[stage])
    return record_values(checkpoint, trace, {name})[name][chosen["head"]]


@pytest.mark.first_visit
def test_the_first_view_is_the_strongest_cross_head_with_a_number_already_derived(page, settle):
    open_tab(page, "attention")
    page.wait_for_selector(".gf-sum .gf-step")
    settle(page)
    chosen = selection(page)
    trace = trace_text(shipped_checkpoint("copy"), page.locator(".gf-text textarea").input_value())
    strength = trace.patterns["cross"].max(axis=-1).mean(axis=-1)  # [L, H]
    assert chosen["kind"] == "cross"
    assert strength[chosen["layer"], chosen["head"]] == pytest.approx(strength.max(), abs=1e-4)
    weight = trace.patterns["cross"][chosen["layer"], chosen["head"], chosen["focusQuery"], chosen["focusKey"]]
    assert displayed(page, "softmax") == shown(weight)
    assert chosen["query"] is None  # nothing was pinned for the other tabs


def test_a_click_on_a_cell_derives_the_number_that_the_map_and_the_model_have_there(attention, settle):
    for row, column in ((1, 1), (2, 0)):
        click_cell(attention, row, column)
        settle(attention)
        assert (selection(attention)["query"], selection(attention)["key"]) == (row, column)
        assert displayed(attention, "softmax") == shown(map_values(attention)[row][column])
        for stage in STAGE_HOOKS:
            assert displayed(attention, stage) == shown(recorded(attention, stage)[row, column])


def test_each_stage_shows_its_own_map_and_marks_its_own_step(attention, settle):
    for stage in STAGE_HOOKS:
        attention.locator(f'.gf-att-stages [data-stage="{stage}"]').click()
        settle(attention)
        expected = recorded(attention, stage)
        values = map_values(attention)
        assert len(values) == len(expected)
        for row, numbers in enumerate(values):
            assert numbers == pytest.approx(list(expected[row]), rel=1e-5, abs=1e-6)
        borders = attention.evaluate(
            """() => Object.fromEntries([...document.querySelectorAll(".gf-step")].map(step =>
                 [step.dataset.stage, getComputedStyle(step).borderTopColor]))"""
        )
        assert [name for name in borders if list(borders.values()).count(borders[name]) == 1] == [stage]
    assert attention.locator('.gf-att-stages [aria-checked="true"]').count() == 1


def test_hidden_cells_of_the_decoder_have_no_number_and_can_be_asked_why(attention, settle):
    attention.locator('.gf-att-kinds [data-kind="decoder_self"]').click()
    settle(attention)
    values = map_values(attention)
    assert all((values[i][j] is None) == (j > i) for i in range(len(values)) for j in range(len(values)))
    click_cell(attention, 0, 2)
    settle(attention)
    assert displayed(attention, "masked") == "−∞"
    assert displayed(attention, "softmax") == "0"
    assert "yet to be written" in attention.locator(".gf-sum-body").inner_text()


def test_kind_head_stage_and_cell_can_be_chosen_with_the_keyboard_alone(attention, settle):
    attention.locator('.gf-att-grid [aria-checked="true"]').focus()
    attention.keyboard.press("Home")
    attention.keyboard.press("ArrowRight")
    attention.keyboard.press("ArrowDown")
    settle(attention)
    assert (selection(attention)["layer"], selection(attention)["head"]) == (1, 1)
    assert attention.evaluate("document.activeElement.getAttribute('aria-label')") == "Layer 2, head 2"
    assert "layer 2, head 2" in attention.locator(PLOT).get_attribute("aria-label")
    attention.locator('.gf-att-kinds [aria-checked="true"]').focus()
    attention.keyboard.press("ArrowUp")
    assert selection(attention)["kind"] == "decoder_self"
    attention.locator('.gf-att-stages [aria-checked="true"]').focus()
    attention.keyboard.press("ArrowLeft")
    assert selection(attention)["stage"] == "masked"
    attention.locator('[data-pick="query"]').select_option("3")
    attention.locator('[data-pick="key"]').select_option("1")
    settle(attention)
    assert displayed(attention, "masked") == shown(recorded(attention, "masked")[3, 1])


def test_choices_made_faster_than_answers_come_end_with_the_last_one(attention, settle):
    grid = attention.locator('.gf-att-grid [aria-checked="true"]')
    grid.focus()
    for key in ("Home", "ArrowRight", "ArrowDown", "ArrowRight", "ArrowUp"):
        attention.keyboard.press(key)
        attention.wait_for_timeout(60)  # long enough for each to be asked
    attention.evaluate("glassformer.select({ query: 2, key: 1 })")
    settle(attention)
    assert "layer 1, head 3" in attention.locator(PLOT).get_attribute("aria-label")
    assert displayed(attention, "softmax") == shown(recorded(attention, "softmax")[2, 1])


def test_tokens_stand_on_both_axes_in_reading_order_with_row_0_on_top(attention):
    ticks = {
        axis: attention.locator(f"{PLOT} .{axis}tick text").evaluate_all(
            "(all) => all.map(text => [text, text.getBoundingClientRect()]).map(([t, b]) => [t.textContent, b.x, b.y])"
        )
        for axis in "xy"
    }
    columns = [text for text, x, _ in sorted(ticks["x"], key=lambda tick: tick[1])]
    rows = [text for text, _, y in sorted(ticks["y"], key=lambda tick: tick[2])]
    tokens = attention.locator(".gf-text textarea").input_value().split()
    assert columns == [*tokens, "<eos>"]
    assert rows == ["<bos>", *tokens]


def test_a_selection_made_elsewhere_is_followed_when_the_tab_is_on_show_and_costs_nothing_before(page, settle):
    open_attention(page, settle)
    open_tab(page, "decode")
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "queue/join" in request.url else None)
    page.evaluate("for (let step = 0; step < 7; step += 1) glassformer.select({ step, query: step, key: 0 })")
    page.evaluate("glassformer.select({ kind: 'encoder_self', layer: 0, head: 2, query: 4, key: 2 })")
    settle(page)
    assert asked == []
    open_tab(page, "attention")
    settle(page)
    assert "Encoder self-attention, layer 1, head 3." in page.locator(PLOT).get_attribute("aria-label")
    assert displayed(page, "softmax") == shown(recorded(page, "softmax")[4, 2])
    assert page.locator('.gf-att-grid [aria-checked="true"]').get_attribute("aria-label") == "Layer 1, head 3"


def test_a_new_text_and_another_language_renew_the_tab(attention, settle):
    decode_text(attention, "9 9 9 4")
    settle(attention)
    assert len(map_values(attention)) == 5
    choose_language(attention, "中文")
    settle(attention)
    assert "交叉注意力" in attention.locator(PLOT).get_attribute("aria-label")
    assert "查询" in attention.locator(".gf-sum-body").inner_text()


def test_forty_tokens_are_all_labelled_on_a_map_that_fills_its_place_when_opened_hidden_and_after_a_resize(
    open_page, settle
):
    page = open_page(width=1200, query={"text": " ".join(str(i % 30) for i in range(40))})
    page.set_viewport_size({"width": 1024, "height": 800})
    open_attention(page, settle)
    assert len(map_values(page)[0]) == 41
    for width in (1024, 390, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.locator(f"{PLOT} .xtick text").count() == 41
        plot = page.locator(f"{PLOT} .main-svg").first.bounding_box()
        place = page.locator(".gf-att .gf-chart-scroll").bounding_box()
        assert plot["height"] > 300
        assert plot["width"] >= place["width"] - 2
        assert plot["width"] <= place["width"] + 2 or width == 390  # there, 41 columns are scrolled in their place
