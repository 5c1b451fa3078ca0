"""A reference beside free running, and scores of own pairs: what the page says equals what the model computes."""

from __future__ import annotations

import math

import pytest

from browser.accessibility import serious_findings
from browser.looks import badly_sized, leaks, too_wide, visible_texts
from browser.visit import choose_language, decode_text, source_labels, written_labels
from transformer.checkpoints import shipped_checkpoint
from transformer.scoring import score_pairs
from transformer.teacher_forcing import compare
from viz.reference import percent

TEXT = "3 1 7 3 10 2"
HOSTILE = "<b>3</b> שלום 👨‍👩‍👧‍👦"


def write_reference(page, settle, text: str) -> None:
    page.locator(".gf-reference-text textarea").fill(text)
    page.locator(".gf-reference-compare").click()
    settle(page)


def row(page, number: int) -> list[str]:
    """The cells of one row over all lines; 0: positions, 1: reference, 2 and 3: its probabilities, 4 and 5: written."""
    return page.evaluate(
        """(n) => [...document.querySelectorAll(".gf-reference-lines table")].flatMap((table) =>
             [...table.rows[n].cells].slice(1).map((cell) => cell.innerText.split("\\n")[0].trim()))""",
        number,
    )


def note(page, section: str) -> str:
    return page.locator(f".gf-{section}-note .gf-status").inner_text()


def open_own_pairs(page) -> None:
    page.locator(".gf-own-pairs button.label-wrap").click()
    page.locator(".gf-own-pairs-text textarea").wait_for()


def score(page, settle, text: str) -> None:
    page.locator(".gf-own-pairs-text textarea").fill(text)
    page.locator(".gf-own-pairs-score").click()
    settle(page)


def test_a_reference_is_compared_and_what_is_said_is_what_the_model_computes(page, settle):
    section = page.locator(".gf-reference-card")
    section.scroll_into_view_if_needed()
    settle(page)
    # It comes filled in: what is right for the example, which this model writes by itself.
    assert page.locator(".gf-reference-text textarea").input_value() == TEXT
    assert "never part" in page.locator(".gf-reference-say").inner_text()
    assert page.locator(".gf-reference-parts").count() == 0

    reference = "3 1 9 3 10 2 5"
    write_reference(page, settle, reference)
    found = compare(shipped_checkpoint("copy"), TEXT, reference)
    assert found.parts_at == 2
    assert row(page, 1) == [*reference.split(), "<eos>"]
    assert row(page, 2) == [percent(math.exp(step.log_prob)) for step in found.forced]
    assert row(page, 3)[:7] == [percent(math.exp(step.reference_log_prob)) for step in found.free[:7]]
    assert row(page, 4)[:7] == [*TEXT.split(), "<eos>"]
    assert row(page, 5)[:7] == [percent(math.exp(step.log_prob)) for step in found.free]
    assert "they part" in page.locator("th.gf-reference-parts").inner_text()
    said = " ".join(page.locator(".gf-reference-say").inner_text().split())
    own, true = found.free[2], found.forced[2]
    assert said == (
        f"They part at token 3: the reference has 9 ({percent(math.exp(true.log_prob))}), "
        f"the model wrote 7 ({percent(math.exp(own.log_prob))})."
    )
    assert too_wide(page) + badly_sized(page) + leaks(visible_texts(page)) == []
    page.set_viewport_size({"width": 390, "height": 900})
    settle(page)
    assert too_wide(page) + badly_sized(page) + leaks(visible_texts(page)) == []
    assert row(page, 1) == [*reference.split(), "<eos>"]  # over several lines now

    # The same as a table, and in the other language.
    details = section.locator(".gf-chart-table")
    details.locator("summary").click()
    assert details.locator("tr").count() == 9
    choose_language(page, "中文")
    settle(page)
    assert "第 3 个 token 处分开" in " ".join(page.locator(".gf-reference-say").inner_text().split())
    assert page.locator(".gf-reference-text textarea").input_value() == reference
    assert too_wide(page) == []

    # Another text brings its own reference along.
    decode_text(page, "5 5 5 5")
    settle(page)
    section.scroll_into_view_if_needed()
    settle(page)
    assert page.locator(".gf-reference-text textarea").input_value() == "5 5 5 5"
    assert row(page, 1) == ["5", "5", "5", "5", "<eos>"]


def test_a_reference_that_cannot_be_read_gets_a_sentence_and_markup_is_shown_to_the_letter(page, settle):
    page.locator(".gf-reference-card").scroll_into_view_if_needed()
    settle(page)
    before = row(page, 1)
    for text, sentence in (
        ("  ", "no tokens in it"), ("1 " * 64, "at most 63 tokens besides <eos>, this reference has 64"),
        ("x" * 257, "256 characters, this one has 257"),
    ):
        write_reference(page, settle, text)
        assert sentence in note(page, "reference")
        assert row(page, 1) == before
        assert page.locator(".gf-reference-text textarea").input_value() == text
    write_reference(page, settle, HOSTILE)
    assert row(page, 1)[:4] == [f"<unk> {token}" for token in HOSTILE.split()] + ["<eos>"]
    assert page.locator(".gf-reference-note .gf-status").count() == 0
    assert "3 of the reference's pieces are not in the vocabulary" in page.locator(".gf-reference-facts").inner_text()
    assert page.locator(".gf-reference b, .gf-reference script").count() == 0
    assert too_wide(page) == []


@pytest.mark.first_visit
def test_own_pairs_are_scored_sorted_and_shown_on_the_stage(page, settle):
    open_own_pairs(page)
    assert page.locator(".gf-scores").is_hidden()
    pairs = [("3 1 7 3 10 2", "3 1 7 3 10 2"), ("5 5", "5 6"), ("1 2 3 4", "9 9 9 9"), ("<b>&amp;</b> שלום", "8")]
    score(page, settle, "\n".join(["source\ttarget", *("\t".join(pair) for pair in pairs), "no tab", "\tempty"]))
    scores = score_pairs(shipped_checkpoint("copy"), pairs)
    values = page.locator(".gf-scores-value").all_inner_texts()
    assert values == [f"{scores.bleu:.1f}", f"{scores.chrf:.1f}", "25.0 %"]
    assert "2 lines were skipped: 1 without a tab" in page.locator(".gf-scores-facts").inner_text()
    assert "4 pairs written and scored" in note(page, "own-pairs")

    def column(number: int) -> list[str]:
        cells = f".gf-scores tbody td:nth-child({number + 1})"
        return [text.split("\n")[0] for text in page.locator(cells).all_inner_texts()]

    by_score = sorted(range(4), key=lambda i: scores.chrf_of_each[i])
    assert column(1) == [pairs[i][1] for i in by_score]
    assert [text.split()[0] for text in column(3)] == [f"{scores.chrf_of_each[i]:.1f}" for i in by_score]
    page.locator(".gf-scores [data-order=best]").click()
    assert column(1) == [pairs[i][1] for i in reversed(by_score)]
    page.locator(".gf-scores [data-column=reference] button").click()
    assert column(1) == ["3 1 7 3 10 2", "5 6", "8", "9 9 9 9"]
    assert page.locator(".gf-scores [data-column=reference]").get_attribute("aria-sort") == "ascending"
    assert page.locator(".gf-scores b, .gf-scores script").count() == 0
    assert too_wide(page) + leaks(visible_texts(page)) == []
    assert serious_findings(page, contrast=True) == []

    page.locator(".gf-scores-source", has_text="5 5").click()
    settle(page)
    assert source_labels(page) == ["5", "5", "<eos>"]
    assert written_labels(page) == ["5", "5", "<eos>"]
    assert page.locator(".gf-text textarea").input_value() == "5 5"
    assert page.locator(".gf-scores tbody tr").count() == 4


@pytest.mark.first_visit
def test_bad_pairs_and_bad_files_get_a_sentence_and_nothing_is_lost(page, settle, tmp_path):
    open_own_pairs(page)
    good = "3 1\t3 1\n" * 201
    score(page, settle, good)
    assert "Only the first 200 pairs" in page.locator(".gf-scores-facts").inner_text()
    rows = page.locator(".gf-scores tbody tr").count()
    assert rows == 200

    def choose(name: str, content: bytes) -> str:
        (tmp_path / name).write_bytes(content)
        page.locator(".gf-own-pairs input[type=file]").set_input_files(tmp_path / name)
        settle(page)
        return note(page, "own-pairs")

    assert "latin.tsv is not UTF-8 text" in choose("latin.tsv", "h\xe4user\tx".encode("latin-1"))
    assert "picture.tsv is not a text file" in choose("picture.tsv", b"\x89PNG\x00\x01")
    assert "1 lines (no tab or too many cells: 1" in choose("commas.txt", b"a,b")
    assert page.locator(".gf-own-pairs-text textarea").input_value() == good.rstrip("\n") + "\n"
    for text, sentence in (("   ", "There are no pairs yet"), ("a b\nc d", "No line could be used as a pair")):
        score(page, settle, text)
        assert sentence in note(page, "own-pairs")
        assert page.locator(".gf-own-pairs-text textarea").input_value() == text
        assert page.locator(".gf-scores tbody tr").count() == rows
    assert "big.tsv is in the box: 200 pairs. It holds more" in choose("big.tsv", b"7 7\t7 7\n" * 1_250_000)
    page.locator(".gf-own-pairs-score").click()
    settle(page)
    assert page.locator(".gf-scores-value").all_inner_texts()[2] == "100.0 %"
