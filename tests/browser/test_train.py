"""The Train tab in a browser: press Train, watch, stop, take the model along, and leave without a trace."""

from __future__ import annotations

import os
import re
import time

import pytest
from playwright.sync_api import Page, expect

from browser.visit import open_tab, written_labels
from transformer.tasks import TASKS

STOP_SECONDS = 2.0
ANSWER_SECONDS = 3.0  # from the worker's end to the words on the page
TRAINING_MS = 90_000
expect.set_options(timeout=30_000)


def allowed_seconds() -> float:
    """The two seconds and the way to the page; longer where more programs want to run than there are processors."""
    return (STOP_SECONDS + ANSWER_SECONDS) * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def begin(page: Page, button: str = ".gf-train-go", **settings: object) -> None:
    """Open the tab, choose the numbers given by their label's key, press the button."""
    open_tab(page, "train")
    expect(page.locator(".gf-curves")).to_be_visible()
    if settings:
        page.locator(".gf-train-more > button").click()
    for key, value in settings.items():
        words = page.evaluate("(key) => glassformer.t(`train.${key}`)", key)
        field = page.locator(f'input[type=number][aria-label*="{words}"]')
        field.fill(str(value))
        field.blur()
    page.locator(button).click()


def wait_for_state(page: Page, *states: str, timeout: float = TRAINING_MS) -> str:
    wanted = ",".join(f'.gf-curves[data-state="{state}"]' for state in states)
    page.wait_for_selector(wanted, timeout=timeout)
    return page.locator(".gf-curves").get_attribute("data-state")


def steps_done(page: Page) -> int:
    return int(page.locator("[data-figure=step]").inner_text().split("/")[0])


def colours_on(page: Page, selector: str) -> int:
    """How many different colours a canvas shows: an empty one has a single one."""
    return page.locator(selector).first.evaluate(
        """(canvas) => new Set(new Uint32Array(
             canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size"""
    )


def test_before_any_training_the_tab_shows_how_the_shipped_model_was_trained(page):
    open_tab(page, "train")
    wait_for_state(page, "shipped")
    assert re.fullmatch(r"[\d.]+ %", page.locator("[data-figure=exact]").inner_text())
    assert colours_on(page, "[data-panel=right] canvas") > 3
    assert colours_on(page, ".gf-timeline-large canvas") > 3
    assert page.locator(".gf-samples tbody tr:visible").count() == 5
    expect(page.locator(".gf-train-go")).to_be_enabled()
    expect(page.locator(".gf-train-stop")).to_be_disabled()


@pytest.mark.first_visit
def test_a_model_trained_here_is_watched_used_downloaded_and_opened_again(page, settle, tmp_path):
    begin(page, d_model=8, steps=60)
    assert wait_for_state(page, "steps", "target") == "steps"
    settle(page)
    assert steps_done(page) == 60
    sentence = page.locator(".gf-curves-sentence").inner_text()
    assert "60" in sentence
    assert "Kept" in sentence
    for panel in ("right", "loss", "rate"):
        assert colours_on(page, f"[data-panel={panel}] canvas") > 3

    slider = page.locator(".gf-timeline-track input")
    assert slider.get_attribute("max") == "3"  # before the first step, at 25, 50 and 60
    newest = page.locator(".gf-timeline-now").inner_text()
    slider.focus()
    page.keyboard.press("Home")
    assert page.locator(".gf-timeline-now").inner_text() != newest
    page.locator(".gf-map").nth(1).click()
    assert page.locator(".gf-map").nth(1).get_attribute("aria-pressed") == "true"

    before = page.evaluate("glassformer.trace.id")
    page.locator(".gf-own-use").click()
    expect(page.locator(".gf-own .gf-status")).to_contain_text("All tabs now show your model")
    settle(page)
    assert "(yours)" in page.locator(".gf-model input").input_value()
    n_layers = TASKS["copy"].mini_preset.model.n_decoder_layers
    assert page.evaluate("glassformer.trace.patterns.cross.shape[0]") == n_layers
    assert page.evaluate("glassformer.trace.id") != before
    own = written_labels(page)
    open_tab(page, "decode")
    assert page.locator("[role=tabpanel] .gf-chip:visible").count() > 0

    open_tab(page, "train")
    page.locator(".gf-own-files button").first.click()
    links = page.locator(".gf-own a[download]")
    expect(links).to_have_count(2)
    files = []
    for i in range(2):
        with page.expect_download() as waiting:
            links.nth(i).click()
        files.append(tmp_path / waiting.value.suggested_filename)
        waiting.value.save_as(files[-1])
    assert sorted(file.name for file in files) == ["meta.json", "model.safetensors"]

    page.locator(".gf-own input[type=file]").set_input_files(files)
    expect(page.locator(".gf-own .gf-status")).to_contain_text("Opened: a model of the task copy")
    settle(page)
    assert written_labels(page) == own


def test_a_pickle_is_refused_with_a_sentence_and_the_run_on_display_stays(page, settle, tmp_path):
    open_tab(page, "train")
    before = page.evaluate("glassformer.trace.id")
    (tmp_path / "model.pt").write_bytes(b"\x80\x04.")
    page.locator(".gf-own input[type=file]").set_input_files(tmp_path / "model.pt")
    expect(page.locator(".gf-own .gf-status-problem")).to_contain_text("model.pt is a pickle")
    settle(page)
    assert page.evaluate("glassformer.trace.id") == before


@pytest.mark.first_visit
def test_heads_that_cannot_share_the_width_are_refused_and_the_view_stays(page, settle):
    open_tab(page, "train")
    shown = page.locator("[data-figure=exact]").inner_text()
    page.locator(".gf-train-side label", has_text=re.compile(r"^\s*6\s*$")).click()
    page.locator(".gf-train-go").click()
    problem = page.locator(".gf-train-note .gf-status-problem").first
    expect(problem).to_contain_text("64 cannot be divided by 6")
    settle(page)
    assert (page.locator("[data-figure=exact]").inner_text(), shown != "–") == (shown, True)
    expect(page.locator(".gf-train-go")).to_be_enabled()


@pytest.mark.first_visit
def test_stop_ends_a_training_and_says_what_was_kept(page):
    begin(page, steps=3000, d_model=8)
    wait_for_state(page, "running")
    page.wait_for_function("parseInt(document.querySelector('[data-figure=step]').textContent) > 3")
    page.locator(".gf-train-stop").click(force=True)  # at once: the page keeps moving while it is drawn to
    asked = time.monotonic()
    wait_for_state(page, "stopped")
    assert time.monotonic() - asked < allowed_seconds()
    sentence = page.locator(".gf-curves-sentence").inner_text()
    assert re.match(r"Stopped at step \d+\. Kept: the weights of step \d+", sentence)
    expect(page.locator(".gf-train-go")).to_be_enabled()
    expect(page.locator(".gf-own-use")).to_be_enabled()


def test_a_second_visitor_waits_in_line_and_begins_when_the_first_closes_the_tab(open_page):
    first, second = open_page(), open_page(lang="zh")
    begin(first, steps=3000)
    wait_for_state(first, "running")
    begin(second, steps=30, d_model=8)
    wait_for_state(second, "waiting")
    assert "第 1 位" in second.locator(".gf-curves-sentence").inner_text()
    first.close()
    left = time.monotonic()
    wait_for_state(second, "running", "steps")
    assert time.monotonic() - left < allowed_seconds()
    assert wait_for_state(second, "steps", "target") == "steps"
