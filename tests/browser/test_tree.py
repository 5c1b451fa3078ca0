"""The search on the page: its choice, its tree, a token put in and taken back, in a real browser."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from browser.visit import READY_MS, choose_language, open_tab, status, written_labels
from builders import tiny_checkpoint as build_checkpoint
from transformer.checkpoints import save_checkpoint, shipped_checkpoint
from transformer.search_tree import search_tree
from transformer.trace_files import trace_to_json
from transformer.tracing import trace_text

TEXT = "3 1 7 3 10 2"
HOSTILE = ("<b>", "<img/src=x/onerror=alert(1)>", "&amp;", "${1+1}", "{n}", "שלום", "3", "7")


def wait_for_words(page: Page, selector: str, words: str) -> None:
    expect(page.locator(selector).filter(visible=True)).to_contain_text(words, timeout=READY_MS)


def show_tree(page: Page, settle) -> None:
    page.locator(".gf-tree").scroll_into_view_if_needed()
    page.wait_for_selector(".gf-tree:not(.gf-tree-stale) .gf-tree-node")
    settle(page)


def choose_method(page: Page, settle, method: str) -> None:
    page.locator(f".gf-search [data-method={method}]").click()
    page.wait_for_function("(method) => glassformer.trace.search === method", arg=method)
    settle(page)


def at_step(page: Page, step: int) -> None:
    page.evaluate("(step) => glassformer.select({ step, query: null, key: null })", step)


def press_candidate(page: Page, settle, place: int) -> str:
    row = page.locator(".gf-stage-candidates li").nth(place)
    token = row.locator(".gf-chip").inner_text()
    before = page.evaluate("glassformer.trace.id")
    row.locator("button").click()
    page.wait_for_function("(id) => glassformer.trace.id !== id", arg=before)
    settle(page)
    return token


def bar(page: Page) -> str:
    return page.locator(".gf-stage .gf-change p").inner_text()


@pytest.mark.first_visit  # it leaves settings behind that the tree is made with
def test_a_choice_of_search_decodes_again_at_once_and_the_status_names_it(page, settle):
    assert status(page).startswith("Greedy search: log-probability ")
    assert page.locator(".gf-search input:visible").count() == 0
    choose_method(page, settle, "beam")
    assert status(page).startswith("Beam search of width 4: log-probability ")
    assert page.locator(".gf-search input:visible").evaluate_all("(all) => all.map((input) => input.name)") == [
        "beam_width", "length_penalty",
    ]
    slider = page.locator(".gf-search [name=beam_width]")
    slider.evaluate("(input) => { input.value = 8; input.dispatchEvent(new Event('input')); }")
    wait_for_words(page, ".gf-status", "Beam search of width 8")
    settle(page)
    choose_method(page, settle, "sample")
    hot = page.locator(".gf-search [name=temperature]")
    hot.evaluate("(input) => { input.value = 2; input.dispatchEvent(new Event('input')); }")
    wait_for_words(page, ".gf-status", "seed 0 at temperature 2")
    settle(page)
    first = page.evaluate("[glassformer.trace.id, glassformer.trace.written.join(' ')]")
    page.locator(".gf-search-again").click()
    wait_for_words(page, ".gf-status", "seed 4 at temperature 2")
    settle(page)
    assert page.evaluate("[glassformer.trace.id, glassformer.trace.written.join(' ')]") != first
    # Another text is searched for in the same way.
    page.locator(".gf-text textarea").fill("5 5 5")
    page.locator(".gf-run").click()
    page.wait_for_function("glassformer.trace.source.length === 4")
    assert page.evaluate("glassformer.trace.search") == "sample"


def test_every_node_shows_its_probability_and_the_filter_and_the_table_agree(page, settle):
    show_tree(page, settle)
    tree = search_tree(shipped_checkpoint("copy"), TEXT)
    nodes = page.locator(".gf-tree-node")
    assert nodes.count() == len(tree.nodes)
    shown = nodes.evaluate_all(
        "(all) => all.map((node) => [node.querySelector('.gf-tree-token').textContent, node.title])"
    )
    for (token, facts), node in zip(shown, tree.nodes, strict=True):
        assert token == node.token
        if node.id == 0:
            continue
        total = float(facts.split("so far ", 1)[1].split(" (", 1)[0].replace("−", "-"))
        assert total == pytest.approx(node.total, abs=0.002)
        share = facts.split("probability ", 1)[1].split(" %")[0]
        if share.startswith(("under", "over")):
            assert math.exp(node.log_prob) < 0.0005 or math.exp(node.log_prob) > 0.9994
        else:
            assert float(share) == pytest.approx(100 * math.exp(node.log_prob), abs=0.06)
    boxes = nodes.evaluate_all(
        """(all) => all.map((node) => node.getBoundingClientRect())
                       .map(({ left, right, top, bottom }) => [left, right, top, bottom])"""
    )
    for i, (left, right, top, bottom) in enumerate(boxes):
        for other in boxes[i + 1 :]:
            assert right <= other[0] or other[1] <= left or bottom <= other[2] or other[3] <= top
    ends = page.locator(".gf-tree-end").all_inner_texts()
    assert any("greedy" in end and "beam 1" in end for end in ends)
    n_pruned = sum(not (node.greedy or node.beams or node.samples) for node in tree.nodes[1:])
    assert page.locator(".gf-tree-pruned:visible").count() == n_pruned > 0
    page.locator(".gf-tree-filter[data-search=pruned]").click()
    assert page.locator(".gf-tree-pruned:visible").count() == 0
    assert page.locator(".gf-tree-node:visible").count() == len(tree.nodes) - n_pruned
    page.locator(".gf-tree-filter[data-search=pruned]").click()
    page.locator(".gf-tree-table summary").click()
    assert page.locator(".gf-tree-table tr").count() == len(tree.nodes)


def test_a_pruned_node_is_put_on_the_stage_and_there_is_a_way_back(page, settle):
    show_tree(page, settle)
    own = written_labels(page)
    tree = search_tree(shipped_checkpoint("copy"), TEXT)
    node = next(n for n in tree.nodes if n.pruned_at and not (n.greedy or n.beams or n.samples) and n.depth == 2)
    first = tree.nodes[node.parent]
    box = page.locator(f".gf-tree-node[data-node='{node.id}']")
    drawn = page.locator(".gf-tree-node").first.evaluate_handle("(node) => node")
    box.click()
    page.wait_for_function("glassformer.trace.change !== null")
    settle(page)
    assert written_labels(page)[:2] == [first.token, node.token]
    assert page.evaluate("glassformer.selection.step") == 2
    assert box.get_attribute("aria-selected") == "true"
    assert page.locator(".gf-tree-node[aria-selected=true]").count() == 1
    assert bar(page).startswith("You are on another branch: ")
    assert page.locator(".gf-stage-is-written .gf-chip").inner_text() == node.token
    assert page.evaluate("(node) => node.isConnected", drawn), "the tree was drawn anew"
    page.locator(".gf-tree .gf-change button:visible").click()
    page.wait_for_function("glassformer.trace.change === null")
    settle(page)
    assert written_labels(page) == own
    assert page.locator(".gf-change:visible").count() == 0
    # A node of the run on display is only a step of it.
    page.locator(f".gf-tree-node[data-node='{tree.paths[0].nodes[2]}']").click()
    assert page.evaluate("[glassformer.selection.step, glassformer.trace.change]") == [3, None]


def test_the_arrow_keys_move_through_the_tree_and_enter_chooses(page, settle):
    show_tree(page, settle)
    at_step(page, 0)
    page.locator(".gf-tree-node[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    level = "document.activeElement.getAttribute('aria-level')"
    assert page.evaluate(level) == "3"
    page.keyboard.press("ArrowDown")
    assert page.evaluate(level) == "3"
    assert page.evaluate("glassformer.selection.step") == 0
    token = page.evaluate("document.activeElement.querySelector('.gf-tree-token').textContent")
    page.keyboard.press("Enter")
    page.wait_for_function("glassformer.selection.step === 2")
    settle(page)
    assert written_labels(page)[1] == token
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(level) == "2"
    page.keyboard.press("Home")
    assert page.evaluate(level) == "1"


def test_a_candidate_is_written_instead_marked_nested_and_taken_back(page, settle):
    own = written_labels(page)
    at_step(page, 3)
    first = press_candidate(page, settle, 2)
    assert written_labels(page)[:3] == [*own[:2], first]
    assert page.evaluate("glassformer.selection.step") == 3
    assert bar(page).startswith(f"At step 3 you wrote {first} where {own[2]} stood.")
    assert status(page).startswith("Given up to step 3, then: ")
    marked = page.locator(".gf-stage-target .gf-stage-put-in")
    assert [marked.count(), marked.first.inner_text()] == [1, first]
    once = written_labels(page)
    at_step(page, 4)
    second = press_candidate(page, settle, 1 if once[3] != page.locator(
        ".gf-stage-candidates li .gf-chip").nth(1).inner_text() else 2)
    assert written_labels(page)[:4] == [*once[:3], second]
    assert page.locator(".gf-stage-target .gf-stage-put-in").all_inner_texts() == [first, second]
    undo, undo_all = page.locator(".gf-stage .gf-change button").all()
    undo.click()
    page.wait_for_function("glassformer.trace.change.n === 1")
    settle(page)
    assert written_labels(page) == once
    at_step(page, 4)
    press_candidate(page, settle, 3)
    undo_all.click()
    page.wait_for_function("glassformer.trace.change === null")
    settle(page)
    assert written_labels(page) == own


def test_any_token_of_the_vocabulary_may_be_typed_and_what_is_none_gets_a_sentence(page, settle):
    own = written_labels(page)
    at_step(page, 2)
    field = page.locator(".gf-stage-another input")
    for typed, says in (("<b>x</b>", "of this model has no “<b>x</b>”"), ("3 1", "is 2 tokens for this model")):
        field.fill(typed)
        field.press("Enter")
        wait_for_words(page, ".gf-status-problem", says)
        settle(page)
        assert written_labels(page) == own
    field.fill(" 11 ")
    page.locator(".gf-stage-another button").click()
    page.wait_for_function("glassformer.trace.change !== null")
    settle(page)
    assert written_labels(page)[:2] == [own[0], "11"]
    assert field.input_value() == ""


@pytest.mark.first_visit
def test_hostile_tokens_are_shown_to_the_letter_in_tree_bar_and_table(page, settle, tmp_path):
    save_checkpoint(replace(build_checkpoint(HOSTILE, seed=2, tie_output=False), name="hostile"), tmp_path / "m")
    open_tab(page, "train")
    page.locator(".gf-own input[type=file]").set_input_files(sorted((tmp_path / "m").iterdir()))
    wait_for_words(page, ".gf-own .gf-status", "Opened: a model")
    settle(page)
    open_tab(page, "decode")
    show_tree(page, settle)
    page.wait_for_function("document.querySelector('.gf-tree:not(.gf-tree-stale)')")
    tokens = set(page.locator(".gf-tree-token").evaluate_all("(all) => all.map((token) => token.textContent)"))
    assert tokens & set(HOSTILE[:6]), "no hostile token is in the tree"
    at_step(page, 1)
    field = page.locator(".gf-stage-another input")
    field.fill(HOSTILE[1])
    field.press("Enter")
    page.wait_for_function("glassformer.trace.written[0].startsWith('<img')")
    settle(page)
    assert page.locator(".gf-stage .gf-change bdi").first.inner_text() == HOSTILE[1]
    page.locator(".gf-tree-table summary").click()
    assert page.locator("[role=tabpanel]:visible :is(script, img[src=x], b:not([class]))").count() == 0


@pytest.mark.first_visit
def test_a_run_of_a_model_that_is_not_here_cannot_be_continued_and_says_so(page, settle):
    trace = replace(trace_text(shipped_checkpoint("copy"), TEXT), weights_sha256="1" * 64)
    page.locator("input[type=file][accept='.json']").first.set_input_files(
        {"name": "run.json", "mimeType": "application/json", "buffer": trace_to_json(trace).encode()}
    )
    page.wait_for_function("glassformer.trace.is_fixed")
    settle(page)
    at_step(page, 2)
    assert page.locator(".gf-stage-candidates-hint").inner_text().startswith("None of the models here made this run")
    assert page.locator(".gf-stage-candidates li:visible button:not([aria-disabled=true])").count() == 0
    assert page.locator(".gf-stage-another input").is_disabled()
    page.locator(".gf-tree").scroll_into_view_if_needed()
    settle(page)
    assert page.locator(".gf-tree-hint").inner_text().startswith("None of the models here made this run")
    assert page.locator(".gf-tree-frame:visible").count() == 0
    page.locator(".gf-search [data-method=beam]").click()
    wait_for_words(page, ".gf-status", "The search is used from the next text on.")
    settle(page)
    assert page.evaluate("glassformer.trace.is_fixed")


def test_the_search_and_its_tree_speak_chinese(page, settle):
    choose_language(page, "中文")
    settle(page)
    show_tree(page, settle)
    assert status(page).startswith("贪心搜索：对数概率")
    assert page.locator(".gf-tree h3").inner_text() == "搜索树"
    at_step(page, 2)
    press_candidate(page, settle, 1)
    assert bar(page).startswith("在第 2 步，你把 ")
    assert "概率" in page.locator(".gf-tree-node").nth(1).get_attribute("aria-label")
