"""The Cost tab in a browser: what it shows is what transformer/cost.py comes to, and a press measures."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from browser.accessibility import serious_findings
from browser.visit import choose_language, open_tab
from transformer.checkpoints import shipped_checkpoint
from transformer.cost import BOOKS, KINDS, PAPER_SIZES, operations, sizes_of, total_of, values_of, with_parameters
from transformer.tracing import trace_text

RUN, MEASURED, SIMULATION = (
    f".gf-cost:has(.gf-cost-{part})" for part in ("books", "button", "sliders")
)


def parts(page: Page) -> dict[str, int]:
    """The parts on show and their numbers."""
    rows = page.locator(f"{RUN} tr[data-part]")
    return dict(rows.evaluate_all("(rows) => rows.map((row) => [row.dataset.part, Number(row.dataset.value)])"))


def costing(values: dict[str, int]) -> dict[str, int]:
    """Parts that cost nothing are not shown."""
    return {part: value for part, value in values.items() if value}


def check_simulation(page: Page, sizes: dict[str, int]) -> None:
    def shown(kind: str) -> dict[str, int]:
        items = page.locator(f"{SIMULATION} li[data-{kind}]")
        return dict(items.evaluate_all(f"(all) => all.map((li) => [li.dataset.{kind}, Number(li.dataset.value)])"))

    sizes = with_parameters(sizes)
    memory = values_of(BOOKS["memory"], sizes)
    assert shown("figure") == {
        "parameters": sizes["W"],
        "operations": operations(sizes),
        "cache": memory["self_cache"] + memory["cross_cache"],
        "patterns": sum(memory[f"{kind}_patterns"] for kind in ("encoder", "decoder", "cross")),
    }
    spent = values_of(BOOKS["once"], sizes) | values_of(BOOKS["writing"], sizes)
    assert shown("kind") == {kind: sum(spent[part] for part in of_kind) for kind, of_kind in KINDS.items()}


def test_costs_are_those_of_the_formulas_and_a_press_measures_them(page: Page, settle):
    checkpoint = shipped_checkpoint("copy")
    trace = trace_text(checkpoint, "3 1 7 3 10 2")
    sizes = sizes_of(checkpoint.model.config, len(trace.src_ids), len(trace.steps))
    open_tab(page, "cost")
    page.wait_for_selector(f"{RUN} .gf-cost-headline strong")
    headline = page.locator(f"{RUN} .gf-cost-headline").inner_text()
    assert "238,336 parameters" in headline
    ratio = operations(sizes, cached=False) / operations(sizes)
    assert f"{ratio:.1f} times as many" in headline

    # Every part of every book, and a formula with this run's sizes in it.
    assert parts(page) == costing(values_of(BOOKS["parameters"], sizes))
    page.locator(f"{RUN} [data-value=once]").click()
    assert parts(page) == values_of(BOOKS["once"], sizes)
    formula = page.locator(f"{RUN} tr[data-part=encoder_projections] .gf-cost-formula").inner_text()
    assert formula.replace("\n", "").split("=")[1].strip() == "8 · 7 · 642 · 2"  # 64²
    page.locator(f"{RUN} [data-value=memory]").click()
    assert parts(page) == values_of(BOOKS["memory"], sizes)
    page.locator(f"{RUN} [data-value=token]").click()
    slider = page.locator(f"{RUN} .gf-cost-token input")
    slider.fill("40")
    assert parts(page) == values_of(BOOKS["token"], {**sizes, "t": 40})
    page.locator(f"{RUN} [data-value=uncached]").click()
    assert parts(page) == values_of(BOOKS["token_uncached"], {**sizes, "t": 40})

    # The curve is read by the keyboard.
    chart = page.locator(f"{RUN} .gf-cost-cache .gf-cost-chart")
    chart.focus()
    page.keyboard.press("End")
    last = total_of(BOOKS["token"], {**sizes, "t": 64})
    assert f"{last:,}" in chart.get_attribute("aria-valuetext")

    # Nothing is asked of the server while sizes are moved.
    page.locator(SIMULATION).scroll_into_view_if_needed()
    page.wait_for_selector(f"{SIMULATION} li[data-figure]")
    settle(page)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    check_simulation(page, sizes)
    page.locator(f"{SIMULATION} [data-value=base]").click()
    base = {**sizes, **PAPER_SIZES["base"]}
    check_simulation(page, base)
    for letter, presses in (("B", 3), ("T", 2)):
        page.locator(f"{SIMULATION} input[data-letter={letter}]").focus()
        for _ in range(presses):
            page.keyboard.press("ArrowRight")
    check_simulation(page, {**base, "B": 8, "T": 16})
    page.locator(f"{SIMULATION} [data-value=own]").click()
    page.locator(f"{SIMULATION} input[data-letter=D]").focus()
    page.keyboard.press("ArrowLeft")
    check_simulation(page, {**sizes, "D": 48})
    assert [url for url in asked if "queue/join" in url] == []

    # Measured: both curves, the same tokens, and no GPU to compare with.
    page.locator(f"{MEASURED} .gf-cost-button").click()
    page.wait_for_selector(f"{MEASURED} .gf-cost-memory .gf-cost-chart path")
    expect(page.locator(".gf-cost-button")).to_have_text("Measure again")
    expect(page.locator(".gf-cost-taken")).to_contain_text("Measured on CPU")
    said = page.locator(".gf-cost-decoding p").first.inner_text()
    page.locator(".gf-cost-decoding summary").click()
    rows = page.locator(".gf-cost-decoding tr")
    expect(rows).not_to_have_count(0)
    assert f"Both ways wrote the same {rows.count() - 1} tokens" in said
    assert all(text.endswith(" ms") for text in rows.nth(1).locator("td").all_inner_texts())
    assert page.locator(".gf-cost-time path").count() == 3
    assert serious_findings(page, contrast=False) == []

    choose_language(page, "中文")
    expect(page.locator(".gf-cost-taken")).to_contain_text("测于")
    settle(page)
