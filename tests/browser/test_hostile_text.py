"""Texts that broke other tools, typed into the page: shown to the letter, never run, never cut, or refused in words."""

from __future__ import annotations

from browser.looks import badly_sized, leaks, scroll_through, too_wide, visible_texts, walk
from browser.visit import decode_text, open_tab, source_labels, status, written_labels
from transformer.tracing import MAX_TEXT_LENGTH

MARKUP = ["<s>", "</s>", "<b>", "<i>", "<sub>", "<br>", "&amp;", "&lt;b&gt;", "${1+1}", "{{value}}", "{n}", "$x^2$"]
SCRIPTS = [
    "<script>alert(1)</script>",
    "<img/src=x/onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<a/href=javascript:alert(1)>3</a>",
    "${alert(1)}",
    "{{alert(1)}}",
]
ODD = ["每个人都有他的作战策略", "שלום", "مرحبا", "👨‍👩‍👧‍👦", "e\u0301", "𝔘𝔫𝔦", "\u202e3"]


def chips_on_the_stage(page) -> list[str]:
    """The source tokens as the first tab shows them."""
    return page.locator(".gf-stage-source .gf-chip").all_inner_texts()


def test_markup_is_shown_to_the_letter_and_nothing_in_it_runs_in_a_text_as_long_as_may_be(page, settle):
    tokens = [*MARKUP, *SCRIPTS]
    tokens.append("x" * (MAX_TEXT_LENGTH - len(" ".join(tokens)) - 1))  # as long as a text may be
    decode_text(page, " ".join(tokens))
    settle(page)
    assert source_labels(page) == [f"<unk> {token}" for token in tokens] + ["<eos>"]
    assert [" ".join(chip.split()) for chip in chips_on_the_stage(page)] == source_labels(page)
    wrong = []
    for tab in walk(page, settle):
        assert page.locator("[role=tabpanel]:visible script, img[src=x], a[href^=javascript]").count() == 0
        wrong += [f"{tab}: {finding}" for finding in too_wide(page) + badly_sized(page)]
    assert not wrong, "\n".join(wrong)
    # A dialog, had one opened, would have failed this test when its visit ends.


def test_tokens_on_axes_are_shown_to_the_letter(page, settle):
    decode_text(page, "<b>3</b> <sub>1</sub> &amp; <br>")
    settle(page)
    open_tab(page, "attention")
    settle(page)
    scroll_through(page)
    settle(page)
    shown = "\n".join(text for text, *_ in visible_texts(page))
    for token in ("<b>3</b>", "<sub>1</sub>", "&amp;", "<br>"):
        assert token in shown, f"{token} is not on the page"


def test_unknown_tokens_of_every_script_are_named_with_what_was_typed(page, settle):
    decode_text(page, " ".join(ODD))
    settle(page)
    labels = source_labels(page)
    assert len(labels) == len(ODD) + 1
    for label, typed in zip(labels, ODD, strict=False):
        shown = typed.replace("\u202e", "⟨202E⟩")  # a direction mark would turn what follows around
        assert label == f"<unk> {shown}"
    assert f"{len(ODD)} of the pieces you typed are not in its vocabulary" in status(page)
    assert "\ufffd" not in "".join(text for text, *_ in visible_texts(page))


def test_characters_that_draw_nothing_get_a_glyph(page, settle):
    decode_text(page, "3 \u200b 1 \ufeff a\u00adb")
    settle(page)
    assert source_labels(page) == ["3", "<unk> ⟨200B⟩", "1", "<unk> ⟨FEFF⟩", "<unk> a⟨00AD⟩b", "<eos>"]


def test_a_text_without_tokens_gets_a_sentence_and_the_last_good_view_stays(page, settle):
    chips = chips_on_the_stage(page)
    for text in ("", "   ", "\t \n", "\u3000"):
        before = page.evaluate("glassformer.trace.id")
        decode_text(page, text)
        settle(page)
        assert status(page).startswith("Type something first"), repr(text)
        assert page.locator(".gf-status:visible").get_attribute("role") == "alert"
        assert page.evaluate("glassformer.trace.id") == before
        assert chips_on_the_stage(page) == chips
        decode_text(page, " ".join(chips[:-1]))
        settle(page)
        assert f"{len(chips)} tokens in" in status(page)


def test_punctuation_alone_is_read_as_unknown_and_said_so(page, settle):
    decode_text(page, "... !? ;")
    settle(page)
    assert source_labels(page) == ["<unk> ...", "<unk> !?", "<unk> ;", "<eos>"]
    assert "3 of the pieces you typed are not in its vocabulary" in status(page)


def test_a_single_token_is_a_text(page, settle):
    decode_text(page, "9")
    settle(page)
    assert written_labels(page) == ["9", "<eos>"]
    for tab in walk(page, settle):
        assert badly_sized(page) == [], tab
        assert leaks(visible_texts(page)) == [], tab


def test_a_longer_text_is_refused_with_the_limit_and_its_length(page, settle):
    before = page.evaluate("glassformer.trace.id")
    for length in (MAX_TEXT_LENGTH + 1, MAX_TEXT_LENGTH * 10):
        decode_text(page, "策" * length)
        settle(page)
        assert f"The text may have {MAX_TEXT_LENGTH} characters, this one has {length}." in status(page)
        assert page.evaluate("glassformer.trace.id") == before


def test_as_many_symbols_as_the_model_has_places_are_all_shown(page, settle):
    n = 63  # with <eos>, its 64 positions
    decode_text(page, " ".join(["5"] * n))
    settle(page)
    assert source_labels(page) == ["5"] * n + ["<eos>"]
    assert len(chips_on_the_stage(page)) == n + 1
    assert "expect mistakes" in status(page)
    wrong = []
    for tab in walk(page, settle):
        wrong += [f"{tab}: {finding}" for finding in too_wide(page) + badly_sized(page)]
    assert not wrong, "\n".join(wrong)


def test_more_symbols_than_the_model_has_places_are_refused_with_both_numbers(page, settle):
    before = page.evaluate("glassformer.trace.id")
    for n in (64, 100):
        decode_text(page, " ".join(["5"] * n))
        settle(page)
        assert f"The model reads at most 63 tokens, this text has {n}." in status(page)
        assert page.evaluate("glassformer.trace.id") == before


def test_thirty_one_tokens_and_more_are_shown_whole_on_a_narrow_page(open_page, settle):
    page = open_page(width=390, query={"text": " ".join(str(number) for number in range(32))})
    assert source_labels(page) == [*map(str, range(32)), "<eos>"]
    assert chips_on_the_stage(page) == source_labels(page)
    assert too_wide(page) == []
