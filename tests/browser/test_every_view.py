"""Every tab in both languages, light and dark, at three widths: drawn, whole, worded, and open to everyone.

Leaves a picture of each in ``tests/screenshots`` as ``<tab>-<language>-<theme>-<width>.png``.
"""

from __future__ import annotations

import pytest

from browser.accessibility import serious_findings
from browser.conftest import SCREENSHOTS
from browser.looks import badly_sized, in_the_wrong_language, leaks, too_wide, visible_texts, walk

WIDTHS = (1440, 1024, 390)
# axe needs seconds a view; the other language and the middle width have the same elements and colours.
CHECKED_BY_AXE = {("en", False, 1440), ("en", False, 390), ("en", True, 1440), ("en", True, 390)}
# In both languages at once, to be found by all; and Gradio's word to screen readers, in the browser's language.
LANGUAGE_PICKER = frozenset({"Language · 语言", "中文", "English", "Done", "完成"})


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_tab_is_whole(open_page, settle, lang, dark, width):
    SCREENSHOTS.mkdir(exist_ok=True)
    page = open_page(width=width, lang=lang, dark=dark)
    assert page.evaluate("glassformer.isDark()") is dark
    wrong = []
    for tab in walk(page, settle):
        name = f"{tab}-{lang}-{'dark' if dark else 'light'}-{width}"
        page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)
        texts = visible_texts(page)
        found = [
            *too_wide(page),
            *badly_sized(page),
            *leaks(texts),
            *in_the_wrong_language(texts, lang, LANGUAGE_PICKER),
        ]
        if (lang, dark, width) in CHECKED_BY_AXE:
            found += serious_findings(page, contrast=width == 1440 or not dark)
        wrong += [f"{name}: {finding}" for finding in found]
    assert not wrong, f"{len(wrong)} faults:\n" + "\n".join(wrong)
