"""The X-ray in a browser: parts are chosen by mouse and keyboard, and shapes and numbers are the model's own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from browser.accessibility import serious_findings
from browser.visit import choose_language, decode_text, open_tab
from transformer.checkpoints import shipped_checkpoint
from transformer.tracing import record_values, trace_text
from transformer.xray import gradients, logit_lens, logit_shares, stream_norms

TEXT = "3 1 7 3 10 2"
PATTERN = "decoder.layers.1.cross_attn.hook_pattern"


def open_xray(page: Page, settle: Callable[[Page], None]) -> None:
    open_tab(page, "xray")
    page.wait_for_selector(".gf-xray-values h3")
    page.locator(".gf-xray-saliency").scroll_into_view_if_needed()
    page.wait_for_selector(".gf-xray-tokens li")
    settle(page)


def part(page: Page, address: str):
    return page.locator(f'.gf-xray-part[data-part="{address}"]')


def fact(page: Page, name: str) -> str:
    """What stands beside a figure's name, without its small print."""
    row = page.locator(".gf-xray-fact", has=page.locator("dt", has_text=name))
    return row.locator("dd").evaluate("(dd) => dd.firstChild.textContent")


def number(text: str) -> float:
    return float(text.replace("−", "-").replace("+", "").replace(",", ""))


def chosen(page: Page, address: str, title: str) -> None:
    """Wait until the values of ``address`` are on show."""
    expect(part(page, address)).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".gf-xray-values h3")).to_have_text(title)
    expect(page.locator(".gf-xray-busy")).to_have_count(0)


def table_values(page: Page) -> list[list[str]]:
    page.locator(".gf-xray-values summary").click()
    page.wait_for_selector(".gf-xray-values td")
    return page.evaluate(
        "[...document.querySelectorAll('.gf-xray-values table tr')].slice(1)"
        ".map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent))"
    )


def check_figures(page: Page, values: np.ndarray, shape: tuple[int, ...]) -> None:
    assert fact(page, "shape") == f"[{', '.join(map(str, shape))}]"
    for name, value in (("mean", values.mean()), ("standard deviation", values.std()), ("largest", values.max())):
        assert number(fact(page, name)) == pytest.approx(float(value), rel=0.01, abs=0.001)


@pytest.mark.first_visit
def test_parts_are_chosen_and_their_numbers_equal_a_recomputation(page: Page, settle):
    checkpoint = shipped_checkpoint("copy")
    trace = trace_text(checkpoint, TEXT)
    recorded = record_values(checkpoint, trace)
    open_xray(page, settle)

    # Something is chosen, nothing is empty, and every shape on the picture is that of this run.
    chosen(page, PATTERN, "Attention weights")
    shapes = page.evaluate(
        "[...document.querySelectorAll('.gf-xray-part[data-part]')]"
        ".map((part) => [part.dataset.part, part.getAttribute('aria-label')])"
    )
    assert len(shapes) > 40
    for address, label in shapes:
        if address != "probabilities":
            assert label.endswith(f"[{', '.join(map(str, recorded[address].shape))}]"), address
    head = page.evaluate("glassformer.selection.head")
    check_figures(page, recorded[PATTERN][head], (4, 7, 7))
    assert page.evaluate("[...document.querySelectorAll('.gf-xray-canvas')].every((one) => one.clientHeight > 60)")

    # A head of its picker is that of every other tab; the table holds its weights.
    page.locator(".gf-xray-heads button").nth(2).click()
    assert page.evaluate("glassformer.selection.head") == 2
    check_figures(page, recorded[PATTERN][2], (4, 7, 7))
    shown = np.array([[number(cell) for cell in row] for row in table_values(page)])
    np.testing.assert_allclose(shown, recorded[PATTERN][2], atol=6e-4)

    # A click on the residual stream, and what it costs in weights.
    stream = "decoder.layers.1.hook_resid_post"
    part(page, stream).click()
    chosen(page, stream, "Residual stream, out of the layer")
    check_figures(page, recorded[stream], (7, 64))
    assert fact(page, "parameters") == "0"
    settle(page)

    # By the keyboard: to the next part upwards, Enter.
    part(page, stream).focus()
    page.keyboard.press("ArrowDown")
    below = page.evaluate("document.activeElement.dataset.part")
    assert below not in (stream, None)
    page.keyboard.press("Enter")
    expect(part(page, below)).to_have_attribute("aria-pressed", "true")
    settle(page)
    check_figures(page, recorded[below], recorded[below].shape)

    # A folded layer opens, the other one of its stack folds.
    page.locator(".gf-xray-folded[data-stack=encoder]").click()
    expect(part(page, "encoder.layers.0.self_attn.hook_q")).to_have_count(1)
    expect(part(page, "encoder.layers.1.self_attn.hook_q")).to_have_count(0)
    part(page, "encoder.layers.0.self_attn.hook_q").click()
    chosen(page, "encoder.layers.0.self_attn.hook_q", "Queries q")
    assert page.evaluate("glassformer.selection.kind") == "encoder_self"
    assert fact(page, "parameters") == "4,160"
    assert page.locator(".gf-xray-values .gf-code").inner_text().startswith("transformer/model.py:")
    assert serious_findings(page, contrast=False) == []

    # Another language words all of it, and asks for no other numbers.
    choose_language(page, "中文")
    settle(page)
    expect(page.locator(".gf-xray-values h3")).to_have_text("查询 q")


def test_a_token_is_taken_apart_and_another_step_takes_apart_another(page: Page, settle):
    checkpoint = shipped_checkpoint("copy")
    trace = trace_text(checkpoint, TEXT)
    lens, norms = logit_lens(checkpoint, trace, 3), stream_norms(checkpoint, trace)
    shares = logit_shares(checkpoint, trace)
    open_xray(page, settle)

    def check(step: int) -> None:
        rows = page.locator(".gf-xray-table tbody tr")
        first = rows.nth(0).locator(".gf-xray-candidate i").all_inner_texts()
        assert first == list(checkpoint.tgt_tokenizer.tokens(lens.token_ids[0, step]))
        lengths = [number(text) for text in page.locator(".gf-xray-norm b").all_inner_texts()]
        assert lengths == pytest.approx([norms.before[0, step], *norms.after[:, step]], rel=0.01)
        shown = page.evaluate(
            "[...document.querySelectorAll('.gf-xray-share[data-value]')].map((cell) => Number(cell.dataset.value))"
        )
        assert sorted(shown) == pytest.approx(sorted(shares.shares[:, step]), abs=1e-5)
        total = float(page.locator(".gf-xray-sum").get_attribute("data-value"))
        assert total == pytest.approx(sum(shown), abs=1e-6)
        assert total == pytest.approx(shares.logits[step], abs=1e-4)

    check(len(trace.steps) - 1)
    sentences = page.locator(".gf-xray-token .gf-xray-sentence")
    before = sentences.inner_text()
    page.locator(".gf-xray-steps button").nth(1).click()
    assert page.evaluate("glassformer.selection.step") == 2
    check(1)
    assert sentences.inner_text() != before
    page.locator(".gf-xray-saliency").scroll_into_view_if_needed()
    expect(page.locator(".gf-xray-saliency .gf-xray-sentence")).to_contain_text("written at step 2")
    source = page.evaluate(
        "[...document.querySelector('.gf-xray-side').querySelectorAll('li')].map((item) => Number(item.dataset.value))"
    )
    assert source == pytest.approx(gradients(checkpoint, trace, 1).source_saliency.tolist(), abs=1e-4)

    # Another text is another picture, with nothing left of the one before.
    decode_text(page, "5 2")
    settle(page)
    page.locator(".gf-xray-columns").scroll_into_view_if_needed()
    words = "Decoder, Layer 2, Cross-attention, Attention weights [4, 3, 3]"
    expect(part(page, PATTERN)).to_have_attribute("aria-label", words)
    page.locator(".gf-xray-token").scroll_into_view_if_needed()
    expect(page.locator(".gf-xray-steps button")).to_have_count(3)
