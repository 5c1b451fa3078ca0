"""Every tab at three widths, in the dark and in Chinese: drawn, whole, worded, and open to everyone.

With ``SCREENSHOTS=1`` in the environment a picture of each is left in ``tests/screenshots``, as
``<tab>-<language>-<theme>-<width>.png``.
"""

from __future__ import annotations

import os

import pytest
from playwright.sync_api import Page

from browser.accessibility import serious_findings
from browser.conftest import SCREENSHOTS
from browser.looks import NOT_OF_THE_PAGE, badly_sized, in_the_wrong_language, leaks, too_wide, visible_texts, walk

HEIGHT = 900
SECOND_LOOK_MS = 3000
WIDTHS = {"en": (1440, 1024, 390), "en-dark": (1440,), "zh": (390,)}
# axe needs seconds a view, most of them for contrast; other widths and languages have the same elements and colours.
CONTRAST_CHECKED = {("en", False, 1440), ("en", True, 1440)}
REST_CHECKED = CONTRAST_CHECKED | {("en", False, 390)}


def faults_of(page: Page, lang: str) -> list[str]:
    """What is badly drawn, worded or translated in the view on show."""
    texts = visible_texts(page)
    return [
        *too_wide(page), *badly_sized(page), *leaks(texts), *in_the_wrong_language(texts, lang, NOT_OF_THE_PAGE)
    ]


@pytest.mark.parametrize("look", WIDTHS)
def test_every_tab_is_whole(open_page, settle, look):
    lang, dark = look.removesuffix("-dark"), look.endswith("-dark")
    page = open_page(width=WIDTHS[look][0], height=HEIGHT, lang=lang, dark=dark)
    assert page.evaluate("glassformer.isDark()") is dark
    wrong = []
    for width in WIDTHS[look]:
        page.set_viewport_size({"width": width, "height": HEIGHT})
        for tab in walk(page, settle):
            name = f"{tab}-{lang}-{'dark' if dark else 'light'}-{width}"
            if os.environ.get("SCREENSHOTS"):
                page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)
            contrast = (lang, dark, width) in CONTRAST_CHECKED
            checked_by_axe = (lang, dark, width) in REST_CHECKED
            found = faults_of(page, lang) + (serious_findings(page, contrast=contrast) if checked_by_axe else [])
            if found:  # a busy machine may still have been drawing: what is wrong stays wrong
                settle(page)
                page.wait_for_timeout(SECOND_LOOK_MS)
                settle(page)
                found = faults_of(page, lang) + (serious_findings(page, contrast=contrast) if checked_by_axe else [])
            wrong += [f"{name}: {finding}" for finding in found]
    assert not wrong, f"{len(wrong)} faults:\n" + "\n".join(wrong)
