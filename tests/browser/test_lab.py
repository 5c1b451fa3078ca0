"""The benches that break and prove: what the page says of a fault is what the network computes under it."""

from __future__ import annotations

import pytest

from browser.accessibility import serious_findings
from browser.looks import badly_sized, leaks, too_wide, visible_texts
from browser.visit import choose_language, decode_text, open_tab, written_labels
from transformer.checkpoints import shipped_checkpoint
from transformer.fault_runs import faulty_run
from transformer.faults import FAULTS
from transformer.proofs import prove
from viz.faults import readable
from viz.surgery import aligned

TEXT = "3 1 7 3 10 2"


def open_lab(page, settle) -> None:
    open_tab(page, "lab")
    page.locator(".gf-benches [role=tab][data-tab-id=lab_faults]").click()
    page.locator(".gf-faults").scroll_into_view_if_needed()  # a bench asks for its answer when it is looked at
    page.wait_for_selector(".gf-faults-say:not(:empty)")
    settle(page)


def toggle(page, settle, name: str) -> None:
    page.locator(f"[data-fault={name}]").click()
    settle(page)
    page.wait_for_selector(".gf-faults-result:not(.gf-lab-busy)")


def switched_on(page) -> list[str]:
    return page.evaluate(
        """[...document.querySelectorAll("[data-fault][aria-pressed=true]")].map((each) => each.dataset.fault)"""
    )


def row(page, number: int) -> list[str]:
    """A row of both outputs over all lines; 1: the sound run, 2: the faulty one, 3: how much probability moved."""
    return page.evaluate(
        """(n) => [...document.querySelectorAll(".gf-faults-lines table")].flatMap((table) =>
             [...table.rows[n].cells].slice(1).map((cell) => cell.innerText.trim()))""",
        number,
    )


def expected_rows(names: list[str]) -> tuple[list[str], list[str], str]:
    run = faulty_run(shipped_checkpoint("copy"), TEXT, names)
    before, after = ([step.token for step in trace.steps] for trace in (run.healthy, run.faulty))
    pairs = aligned(before, after)
    rows = [
        ["–" if place is None else written[place] for place in places]
        for written, places in zip((before, after), zip(*pairs, strict=True), strict=True)
    ]
    n_different = sum(first != second for first, second in zip(*rows, strict=True))
    return *rows, f"{n_different} of {len(pairs)}"


@pytest.mark.first_visit
def test_each_fault_changes_or_keeps_the_output_as_a_recomputation_says(page, settle):
    open_lab(page, settle)
    assert switched_on(page) == ["no_positions"]  # it opens with something to see
    steady = [name for name in FAULTS if name != "dropout_left_on"]
    page.locator(".gf-faults-list .gf-lab-quiet").click()
    settle(page)
    assert row(page, 1) == row(page, 2) == [*TEXT.split(), "<eos>"]
    for name in steady:
        toggle(page, settle, name)
        before, after, count = expected_rows([name])
        assert (row(page, 1), row(page, 2)) == (before, after), name
        assert page.locator(".gf-faults-figure strong").first.inner_text() == count, name
        assert page.locator(".gf-faults-card").count() == 1
        assert page.locator(".gf-faults-proofs li").count() == len(FAULTS[name].must_fail)
        toggle(page, settle, name)
    assert switched_on(page) == []

    # Two at once, and two that contradict each other.
    toggle(page, settle, "no_residual")
    toggle(page, settle, "no_causal_mask")
    assert row(page, 2) == expected_rows(["no_residual", "no_causal_mask"])[1]
    toggle(page, settle, "causal_mask_off_by_one")
    refusal = page.locator(".gf-faults .gf-lab-problem").inner_text()
    assert "No causal mask and Causal mask off by one cannot be on together" in refusal
    assert sorted(switched_on(page)) == ["no_causal_mask", "no_residual"]
    toggle(page, settle, "no_positions")
    assert page.locator(".gf-faults .gf-lab-problem").is_hidden()
    assert len(switched_on(page)) == 3
    assert written_labels(page) == [*TEXT.split(), "<eos>"]  # the run on display is untouched


def test_the_benches_fit_the_page_in_both_languages_and_the_proofs_are_those_that_were_made(open_page, settle):
    page = open_page(width=390)
    open_lab(page, settle)
    assert too_wide(page) + badly_sized(page) + leaks(visible_texts(page)) == []
    assert serious_findings(page, contrast=True) == []
    page.locator(".gf-faults-must button").first.click()
    page.wait_for_selector(".gf-proofs:not([data-verdict=running])[data-verdict]")
    settle(page)

    def check(faults: list[str]) -> None:
        made = list(prove(shipped_checkpoint("copy"), TEXT, faults))
        rows = page.locator(".gf-proofs tbody tr")
        assert rows.count() == len(made)
        for i, proof in enumerate(made):
            words = rows.nth(i).inner_text()
            assert rows.nth(i).get_attribute("data-proof") == proof.name
            assert ("✓" in words) == proof.holds, proof.name
            if proof.holds:
                assert readable(proof.tolerance) in words or "exactly 0" in words
            else:
                assert "as expected" in words, proof.name
        n_hold = sum(proof.holds for proof in made)
        assert page.locator(".gf-proofs-count").inner_text() == f"{n_hold} of {len(made)} hold"

    check(["no_positions"])
    assert "Just as it must be: No positions breaks these 2" in page.locator(".gf-proofs-text").inner_text()
    page.locator(".gf-proofs-clear").click()
    page.wait_for_selector(".gf-proofs[data-verdict=sound]")
    check([])
    assert too_wide(page) + badly_sized(page) + leaks(visible_texts(page)) == []
    assert serious_findings(page, contrast=True) == []
    choose_language(page, "中文")
    settle(page)
    assert "必须成立的性质全部成立" in page.locator(".gf-proofs-text").inner_text()
    assert too_wide(page) == []


def test_another_browser_is_untouched_and_another_text_is_broken_anew(open_page, settle):
    first, second = open_page(), open_page()
    open_lab(first, settle)
    toggle(first, settle, "no_residual")
    decode_text(second, "5 5 4")
    settle(second)
    assert written_labels(second) == ["5", "5", "4", "<eos>"]
    decode_text(first, "9 8")
    settle(first)
    first.wait_for_selector(".gf-faults-result:not(.gf-lab-busy)")
    sound = [token for token in row(first, 1) if token != "–"]
    assert sound == ["9", "8", "<eos>"]
    assert sorted(switched_on(first)) == ["no_positions", "no_residual"]


def test_forged_names_are_refused_with_a_sentence(page, settle):
    open_lab(page, settle)
    for sent in (["no_such_fault"], ["no_causal_mask", "causal_mask_off_by_one"], ["<b>x</b>"]):
        page.evaluate(
            """(names) => { const lab = document.querySelector(".gf-lab");
                 lab.dataset.faults = names.join(" "); lab.dispatchEvent(new CustomEvent("gf-faults")); }""", sent,
        )
        refusal = page.locator(".gf-faults .gf-lab-problem")
        settle(page)
        refusal.wait_for(state="visible")
        assert refusal.inner_text().startswith(("There is no fault", "The faults No causal mask"))
        assert refusal.locator("b").count() == 0
        assert switched_on(page) == ["no_positions"]
