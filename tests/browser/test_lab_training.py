"""Break the training, in a browser: recorded pairs, and a pair of one's own that is stopped."""

from __future__ import annotations

import os
import re
import time

from playwright.sync_api import expect

from browser.accessibility import serious_findings
from browser.looks import badly_sized, leaks, too_wide, visible_texts
from browser.visit import choose_language, open_tab
from transformer.fault_pairs import recorded_pairs
from transformer.training_faults import TRAINING_FAULTS

STOP_SECONDS = 5.0  # two for the training, the rest for the way to the page


def finding(page) -> str:
    return page.locator(".gf-pair-says").inner_text()


def test_a_pair_is_shown_as_recorded_then_trained_stopped_and_kept(page, settle):
    open_tab(page, "lab")
    page.locator(".gf-benches [role=tab][data-tab-id=lab_training]").click()
    page.wait_for_selector(".gf-pair-list button")
    settle(page)
    assert page.locator(".gf-pair-list button").count() == len(TRAINING_FAULTS)
    # Opens with the leaking mask: nearly all tokens right in training, and nothing that can be used.
    record = recorded_pairs()["leaking_causal_mask"]
    cost = round(100 * (record["healthy"].ends()["exact"] - record["faulty"].ends()["exact"]))
    assert page.locator(".gf-pair-cost-number").inner_text() == f"−{cost}"
    assert "Accuracy in training does not show the bug" in finding(page)
    assert page.locator(".gf-pair .gf-samples tbody tr").count() == 5
    assert not serious_findings(page, ".gf-pair")
    choose_language(page, "中文")
    expect(page.locator(".gf-pair-go")).to_have_text("两边一起训练")
    expect(page.locator(".gf-pair-says")).to_contain_text("自由解码")
    choose_language(page, "English")
    expect(page.locator(".gf-pair-says")).to_contain_text("Accuracy in training does not show the bug")

    page.locator("[data-bug=post_ln_deep]").click()  # the one that takes longest: it is not over before it is stopped
    page.locator(".gf-pair-go").click()
    page.wait_for_selector(".gf-pair[data-state=running]")
    page.wait_for_function("document.querySelector('.gf-pair .gf-progress').getAttribute('aria-valuenow') > 3")
    page.locator("[data-bug=no_positions]").click()  # the record of another one meanwhile, and back
    page.wait_for_selector(".gf-pair[data-state=recorded]")
    expect(page.locator("[data-bug=post_ln_deep]")).to_have_text(re.compile("trains …$"))
    page.locator("[data-bug=post_ln_deep]").click()
    asked = time.monotonic()
    page.locator(".gf-pair-stop").click()
    page.wait_for_selector(".gf-pair[data-state=stopped]")
    assert time.monotonic() - asked < STOP_SECONDS * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    expect(page.locator(".gf-pair-sentence")).to_have_text(re.compile("^Stopped at step"))
    assert finding(page)
    expect(page.locator(".gf-pair-go")).to_be_enabled()
    page.locator("[data-bug=rate_too_high]").click()
    expect(page.locator(".gf-pair-says")).to_contain_text("ended in step 2")
    page.locator("[data-bug=post_ln_deep]").click()
    expect(page.locator(".gf-pair-sentence")).to_have_text(re.compile("^Stopped at step"))  # it is kept

    page.set_viewport_size({"width": 390, "height": 800})
    settle(page)
    texts = visible_texts(page)
    assert not leaks(texts)
    assert not too_wide(page)
    assert not badly_sized(page)
