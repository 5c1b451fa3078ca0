"""The Masks tab in a real browser: opened cold, nothing empty, and padding, convention, head and blind row work."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from browser.visit import decode_text, open_tab

N_BOARDS = 18


@pytest.fixture
def masks_tab(page: Page, settle) -> Page:
    """The tab of masks with every board drawn, three pads and a row that sees nothing, as it opens first."""
    open_tab(page, "masks")
    settle(page)
    wait_for_boards(page)
    page.locator(".gf-mask-blind input").check()
    pad_with(page, 3)
    settle(page)
    return page


def wait_for_boards(page: Page) -> None:
    page.wait_for_function(
        "(n) => [...document.querySelectorAll('.gf-board-canvas')].filter((c) => c.clientHeight > 20).length === n",
        arg=N_BOARDS,
    )


def open_table(page: Page, view: int) -> None:
    """Open the table twin of the view of this number, counted from the top."""
    page.locator(".gf-mask-view details").nth(view).evaluate("(details) => { details.open = true; }")
    page.wait_for_function(
        "(view) => document.querySelectorAll('.gf-mask-view details')[view].querySelector('td')", arg=view
    )


def table(page: Page, view: int, board: int = 0) -> list[list[str]]:
    """The cells of one board's table, its head row and column included."""
    return page.evaluate(
        "([view, board]) => [...document.querySelectorAll('.gf-mask-view details')[view]"
        ".querySelectorAll('table')[board].rows].map((row) => [...row.cells].map((cell) => cell.textContent))",
        [view, board],
    )


def pad_with(page: Page, n: int) -> None:
    page.locator(".gf-mask-controls input[name=n_padding]").evaluate(
        "(input, n) => { input.value = n; input.dispatchEvent(new Event('input', {bubbles: true})); }", n
    )
    page.wait_for_function(
        "(n) => document.querySelector('[data-board=padding] .gf-shape').textContent.endsWith(`${7 + n}]`)", arg=n
    )


def test_opened_cold_every_board_is_drawn_and_none_is_wider_than_the_page(open_page, settle):
    page = open_page(width=390, lang="zh", dark=True)
    open_tab(page, "masks")
    settle(page)
    wait_for_boards(page)
    empty = page.evaluate(
        "() => [...document.querySelectorAll('.gf-board-canvas')].filter((canvas) => !canvas.getContext('2d')"
        ".getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value)).length"
    )
    assert empty == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(".gf-effects tbody tr").count() == 8


def test_each_pad_adds_a_column_to_every_board(masks_tab: Page):
    page = masks_tab
    open_table(page, 0)
    for n in (0, 1, 8):
        pad_with(page, n)
        head, row = table(page, 0)
        assert head[1:] == ["3", "1", "7", "3", "10", "2", "<eos>", *["<pad>"] * n]
        assert row[1:] == ["True"] * 7 + ["False"] * n


def test_the_convention_flips_every_printed_value_and_no_weight(masks_tab: Page):
    page = masks_tab
    open_table(page, 2)
    open_table(page, 3)
    mask, weights = table(page, 2), table(page, 3)
    assert mask[1][1:3] == ["True", "False"]
    picture = "() => document.querySelector('[data-board=causal] canvas').toDataURL()"
    before = page.evaluate(picture)
    page.get_by_role("button", name="1 = ignore").click()
    flipped = {"True": "False", "False": "True"}
    assert [row[1:] for row in table(page, 2)[1:]] == [[flipped[cell] for cell in row[1:]] for row in mask[1:]]
    assert table(page, 3) == weights
    assert page.evaluate(picture) != before
    page.get_by_role("button", name="1 = may attend").click()
    assert page.evaluate(picture) == before


def test_pads_get_weight_without_the_mask_and_exactly_none_with_it(masks_tab: Page):
    page = masks_tab
    open_table(page, 1)
    without, masked = ([row[8:] for row in table(page, 1, board)[1:]] for board in (0, 1))
    assert all(float(cell) > 0 for row in without for cell in row)
    assert all(cell == "0" for row in masked for cell in row)


def test_the_table_twin_shows_the_row_that_sees_nothing_and_the_switch_gives_it_sight(masks_tab: Page, settle):
    page = masks_tab
    open_table(page, 8)
    blind = int(page.locator(".gf-mask-blind select").input_value())
    assert table(page, 8, 1)[1 + blind][1:] == ["0"] * 10
    page.locator(".gf-mask-blind input").uncheck()
    settle(page)
    page.wait_for_function(
        "(row) => [...document.querySelectorAll('.gf-mask-view details')[8].querySelectorAll('table')[1]"
        ".rows[row].cells].some((cell) => Number(cell.textContent) > 0)",
        arg=1 + blind,
    )
    assert page.locator(".gf-effects tbody tr").count() == 7


def test_the_head_is_the_one_that_all_tabs_share(masks_tab: Page, settle):
    page = masks_tab
    open_table(page, 1)
    first = table(page, 1)
    page.locator(".gf-mask-controls select[name=head]").select_option(index=2)
    assert page.evaluate("glassformer.selection.head") == 2
    page.wait_for_function("document.querySelector('[data-board=with]').textContent.includes('head 3')")
    assert table(page, 1) != first
    page.evaluate("glassformer.select({head: 0, layer: 0})")
    page.wait_for_function("document.querySelector('[data-board=with]').textContent.includes('head 1')")
    assert page.locator(".gf-mask-controls select[name=head]").input_value() == "0"


def test_the_arrow_keys_read_a_cell_with_its_reason(masks_tab: Page):
    page = masks_tab
    canvas = page.locator("[data-board=causal] canvas").first
    canvas.focus()
    for key in ("ArrowRight", "ArrowRight"):
        canvas.press(key)
    readout = page.locator(".gf-board-readout:not([hidden])")
    expect(readout).to_contain_text("Query 0 <bos>")
    expect(readout).to_contain_text("False hidden: future")
    canvas.blur()
    expect(readout).to_have_count(0)


def test_another_text_fills_the_boards_anew(masks_tab: Page, settle):
    page = masks_tab
    decode_text(page, "5 5 5 5")
    page.wait_for_function("document.querySelector('[data-board=padding] .gf-shape').textContent.endsWith('8]')")
    settle(page)
    open_table(page, 0)
    assert table(page, 0)[0][1:] == ["5", "5", "5", "5", "<eos>", *["<pad>"] * 3]


def test_markup_in_the_text_is_shown_to_the_letter(masks_tab: Page, settle):
    page = masks_tab
    decode_text(page, "<b> <img/src/onerror=alert(1)> 3")
    page.wait_for_function("document.querySelector('[data-board=padding] .gf-shape').textContent.endsWith('7]')")
    settle(page)
    open_table(page, 0)
    assert table(page, 0)[0][1:4] == ["<unk> <b>", "<unk> <img/src/onerror=alert(1)>", "3"]
