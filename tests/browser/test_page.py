"""The page as a whole: arrival, links, language, device, model, theme."""

from __future__ import annotations


def test_on_arrival_an_example_is_decoded_without_a_click(page):
    assert page.evaluate("glassformer.trace.steps.length") > 0
    status = page.locator(".gf-status").inner_text()
    assert " ms on CPU" in status, status
