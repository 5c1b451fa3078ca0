"""Cut into it and Paint masks in a real browser: outputs and numbers are those of a recomputation."""

from __future__ import annotations

import json

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import api_client
from browser.visit import decode_text, open_tab
from transformer.checkpoints import shipped_checkpoint
from transformer.conditions import PaintedMasks, paint
from transformer.importance import head_importance
from transformer.surgery import HeadCut, SubLayerCut, surgery
from transformer.tracing import trace_text

TEXT = "3 1 7 3 10 2"
CHECKPOINT = shipped_checkpoint("copy")


def open_bench(page: Page, settle, name: str, ready: str) -> None:
    open_tab(page, "lab")
    page.locator(f"[role=tab][data-tab-id=lab_{name}]").click()
    page.wait_for_selector(ready)
    settle(page)


def outcome(page: Page, box: str) -> tuple[list[str], list[str]]:
    """The chips of both lines; a place where nothing stands is left out."""
    lines = page.evaluate(
        "(box) => [0, 1].map((line) => [...document.querySelectorAll(`${box} .gf-out-pair:not(.gf-out-names)`)]"
        ".map((pair) => pair.children[line].textContent).filter((text) => text !== '∅'))", box)
    return tuple(lines)


def wait_for_outcome(page: Page, settle, box: str, does: str) -> None:
    page.wait_for_function(does)
    settle(page)
    page.wait_for_function("(box) => !document.querySelector(`${box} .gf-out-waits`)", arg=box)
    settle(page)


def change_said(page: Page, box: str) -> float:
    return float(page.locator(f"{box} .gf-out-number b").inner_text().replace("−", "-"))


def written(trace) -> list[str]:
    return [step.token for step in trace.steps]


def change_of(conditions) -> float:
    """How the log-probability of the usual output changes under ``conditions``, with that output fed."""
    plain = trace_text(CHECKPOINT, TEXT)
    ids = [CHECKPOINT.tgt_tokenizer.vocabulary.index(step.token) for step in plain.steps]
    forced = trace_text(CHECKPOINT, TEXT, prefix=ids, max_steps=len(ids), conditions=conditions)
    return forced.log_prob - plain.log_prob


@pytest.mark.first_visit
def test_the_map_names_real_numbers_and_cuts_give_the_output_of_a_recomputation(page: Page, settle):
    open_bench(page, settle, "surgery", ".gf-cut:not(.gf-cut-empty)")
    importance = head_importance(CHECKPOINT, trace_text(CHECKPOINT, TEXT))
    tiles = page.locator(".gf-cut-head")
    assert tiles.count() == sum(values.size for values in importance.log_prob_change.values())
    for tile in (tiles.first, tiles.last, tiles.nth(tiles.count() // 2)):
        kind, layer, head = (tile.get_attribute(f"data-{name}") for name in ("kind", "layer", "head"))
        expected = float(importance.log_prob_change[kind][int(layer), int(head)])
        assert abs(float(tile.inner_text().replace("−", "-")) - expected) <= 0.0051
    # It opens on the head that matters most, and nothing is empty.
    most = max(((abs(values[place]), kind, *place) for kind, values in importance.log_prob_change.items()
                for place in np.ndindex(values.shape)))
    chosen = page.locator(".gf-cut-head[aria-checked=true]")
    expect(chosen).to_have_count(1)
    assert [chosen.get_attribute(f"data-{name}") for name in ("kind", "layer", "head")] == [str(x) for x in most[1:]]
    assert outcome(page, ".gf-cut") == (written(trace_text(CHECKPOINT, TEXT)),) * 2

    # A head off, and a whole sub-layer zeroed.
    page.locator(".gf-cut-acts [data-act=off]").click()
    wait_for_outcome(page, settle, ".gf-cut", "document.querySelector('.gf-cut .gf-out-number')")
    cut = HeadCut(most[1], most[2], most[3])
    conditions = surgery([cut], CHECKPOINT.model.config)
    assert outcome(page, ".gf-cut")[1] == written(trace_text(CHECKPOINT, TEXT, conditions=conditions))
    assert change_said(page, ".gf-cut") == pytest.approx(change_of(conditions), abs=0.006)
    said = page.locator(".gf-cut .gf-out-number").inner_text()
    page.locator("[data-part='decoder.0.cross_attn']").click()
    wait_for_outcome(
        page, settle, ".gf-cut",
        f"document.querySelector('.gf-cut .gf-out-number').textContent !== {json.dumps(said)}")
    conditions = surgery([cut, SubLayerCut("decoder", 0, "cross_attn")], CHECKPOINT.model.config)
    assert outcome(page, ".gf-cut")[1] == written(trace_text(CHECKPOINT, TEXT, conditions=conditions))
    assert change_said(page, ".gf-cut") == pytest.approx(change_of(conditions), abs=0.006)
    assert page.locator(".gf-cut-chip").count() == 2

    # Another text keeps the cuts; taken back, both lines are the same again.
    decode_text(page, "5 5 5 5")
    settle(page)
    wait_for_outcome(page, settle, ".gf-cut", "document.querySelectorAll('.gf-cut .gf-out-number').length")
    after = trace_text(CHECKPOINT, "5 5 5 5", conditions=conditions)
    assert outcome(page, ".gf-cut") == (written(trace_text(CHECKPOINT, "5 5 5 5")), written(after))
    page.locator(".gf-cut-all").click()
    expect(page.locator(".gf-cut .gf-out-number")).to_have_count(0)
    before, now = outcome(page, ".gf-cut")
    assert before == now


def test_painted_masks_give_the_output_of_a_recomputation_and_hiding_all_says_so(page: Page, settle):
    open_bench(page, settle, "masks", ".gf-studio:not(.gf-studio-empty)")
    n = len(TEXT.split()) + 1
    masks = {"encoder": np.ones((n, n), bool), "decoder": np.tri(n, dtype=bool), "cross": np.ones((n, n), bool)}

    # By keyboard: the third query of cross-attention no longer sees the first two keys.
    canvas = page.locator("[data-mask=cross] canvas")
    canvas.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", " ", "ArrowRight", " "):
        canvas.press(key)
    masks["cross"][2, :2] = False
    wait_for_outcome(page, settle, ".gf-studio", "document.querySelector('.gf-studio .gf-out-number')")
    conditions = paint(PaintedMasks(**masks))
    assert outcome(page, ".gf-studio")[1] == written(trace_text(CHECKPOINT, TEXT, conditions=conditions))
    assert change_said(page, ".gf-studio") == pytest.approx(change_of(conditions), abs=0.006)
    expect(page.locator("[data-mask=cross] .gf-studio-note")).to_contain_text("2")
    page.locator(".gf-studio [data-do=undo]").click()
    expect(page.locator("[data-mask=cross] .gf-studio-note")).to_contain_text("1")

    # All hidden: it says so and shows numbers.
    for name in masks:
        page.locator(f"[data-mask={name}] [data-preset=nothing]").click()
        masks[name][:] = False
    wait_for_outcome(page, settle, ".gf-studio", "document.querySelector('.gf-studio-blind').textContent")
    conditions = paint(PaintedMasks(**masks))
    assert outcome(page, ".gf-studio")[1] == written(trace_text(CHECKPOINT, TEXT, conditions=conditions))
    expect(page.locator(".gf-studio-blind")).to_contain_text("Sees nothing")
    expect(page.locator("[data-mask=decoder] .gf-studio-note")).to_contain_text("Every query sees nothing")
    assert "NaN" not in page.locator(".gf-studio .gf-out").inner_text()
    page.locator(".gf-studio [data-do=reset]").click()
    expect(page.locator(".gf-studio .gf-out-number")).to_have_count(0)


@pytest.mark.parametrize(("name", "sent"), [
    ("cut_and_decoded", {"cuts": [{"kind": "cross", "layer": 40, "head": 0, "act": "off"}], "asked": 1}),
    ("cut_and_decoded", {"cuts": "everything", "asked": 1}),
    ("painted_and_decoded", {"encoder": ["1"], "decoder": ["1"], "cross": ["1"], "asked": 1}),
    ("painted_and_decoded", None),
])
def test_forged_cuts_and_masks_are_refused_with_a_sentence(server_url, name, sent):
    event = api_client.dependency(server_url, name)
    data = [None, "en"]
    (answer,) = api_client.forge(server_url, event, data, sent)
    problem = json.loads(answer)
    assert problem["part"] == "problem"
    assert "needed" in problem["sentence"]
