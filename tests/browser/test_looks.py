"""The checks of the other browser tests find what they look for."""

from __future__ import annotations

import pytest

from browser.accessibility import serious_findings
from browser.looks import badly_sized, in_the_wrong_language, leaks, too_wide, visible_texts


@pytest.fixture
def show(browser):
    """``show(html)`` gives a plain page of 400 x 300 pixels with that body."""
    context = browser.new_context(viewport={"width": 400, "height": 300})

    def show_(html: str):
        page = context.new_page()
        page.set_content(f"<!doctype html><html lang=en><title>t</title><body><main>{html}</main>")
        return page

    yield show_
    context.close()


def seen(text: str, is_code: bool = False) -> list[tuple[str, str, bool]]:
    return [(text, "here", is_code)]


@pytest.mark.parametrize(
    "text", ["decode.play", "step undefined", "NaN %", "loss: null", "[object Object]", "{n} to go"]
)
def test_a_missing_value_or_word_is_found(text):
    assert len(leaks(seen(text))) == 1


@pytest.mark.parametrize("text", ["Decode", "nullify", "transformer/model.py:95", "<pad> 3", "$x$"])
def test_words_that_only_look_like_a_missing_one_are_left_alone(text):
    assert leaks(seen(text)) == []


def test_code_may_say_none():
    assert leaks(seen("mask[None, :]", is_code=True)) == []


@pytest.mark.parametrize(
    ("text", "language"),
    [("Copy link", "zh"), ("the model reads at most 64 tokens", "zh"), ("复制链接", "en"), ("step 步", "en")],
)
def test_a_text_of_the_other_language_is_found(text, language):
    assert len(in_the_wrong_language(seen(text), language, frozenset())) == 1


@pytest.mark.parametrize(("text", "language"), [("CPU", "zh"), ("复制链接", "zh"), ("Copy link", "en"), ("中文", "en")])
def test_names_and_the_page_s_own_language_are_left_alone(text, language):
    assert in_the_wrong_language(seen(text), language, frozenset({"中文"})) == []


def test_only_what_is_visible_is_read_with_its_labels(show):
    page = show(
        "<p>seen</p><p hidden>hidden</p><script>var unread</script><code>None</code>"
        "<button aria-label='a label' title='a tip'>x</button><img alt='a picture' style='display:none'>"
    )
    texts = visible_texts(page)
    assert sorted(text for text, *_ in texts) == ["None", "a label", "a tip", "seen", "x"]
    assert [text for text, _, is_code in texts if is_code] == ["None"]


def test_a_page_wider_than_its_window_is_found_with_what_makes_it_so(show):
    (finding,) = too_wide(show("<div class='culprit' style='width: 900px'>wide</div>"))
    assert "div.culprit to 9" in finding


def test_a_wide_thing_in_a_box_that_scrolls_is_no_fault(show):
    assert too_wide(show("<div style='overflow-x: auto'><div style='width: 900px'>wide</div></div>")) == []


def test_a_canvas_without_size_and_a_plot_never_drawn_are_found(show):
    page = show("<canvas id=flat width=10 height=0 style='height:0'></canvas><div class=gf-chart-plot>soon</div>")
    found = badly_sized(page)
    assert len(found) == 2
    assert "canvas" in found[0]
    assert "never drawn" in found[1]


def test_a_plot_drawn_for_another_width_is_found(show):
    page = show("<div class=gf-chart-plot style='width:300px'><svg class=main-svg width=700 height=50></svg></div>")
    (finding,) = badly_sized(page)
    assert "is 300 px wide, its drawing 700 px" in finding


def test_what_is_hidden_may_have_no_size(show):
    assert badly_sized(show("<div hidden><canvas width=0 height=0></canvas></div>")) == []


def test_axe_finds_a_button_without_a_name_and_grey_on_grey(show):
    page = show("<h1>t</h1><button></button><p style='color:#bbb;background:#ddd'>hardly to be read</p>")
    findings = "\n".join(serious_findings(page))
    assert "critical button-name" in findings
    assert "serious color-contrast" in findings
    assert "<p style=" in findings
