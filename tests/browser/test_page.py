"""The page as a whole: arrival, links, languages, device, model, theme, size, keyboard, and no need of anybody else."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import pytest

from browser.looks import (
    NOT_OF_THE_PAGE,
    badly_sized,
    in_the_wrong_language,
    leaks,
    scroll_through,
    too_wide,
    visible_texts,
    walk,
)
from browser.visit import (
    TAB_NAMES,
    Visit,
    choose_language,
    decode_text,
    open_tab,
    source_labels,
    status,
    written_labels,
)
from transformer.devices import available_devices
from transformer.tasks import TASKS

# In both languages at once, to be found by all; and what Gradio says to screen readers when an answer is there: it
# speaks the browser's language, whatever is chosen on the page, and stands for a moment only.
HAS_GPU = len(available_devices()) > 1


@pytest.mark.first_visit
def test_on_arrival_an_example_is_decoded_without_a_click(page):
    text = page.locator(".gf-text textarea").input_value()
    assert source_labels(page) == [*text.split(), "<eos>"]
    assert written_labels(page) == [*text.split(), "<eos>"]
    chips = page.locator("[role=tabpanel] .gf-chip:visible")
    assert chips.count() >= len(source_labels(page)) + len(written_labels(page))
    assert " ms on CPU" in status(page)


def test_who_asks_for_nothing_costs_the_server_no_question_on_arrival(new_context, server_url):
    context = new_context()
    questions = []
    context.on("request", lambda request: request.method == "POST" and questions.append(request.url))
    visit = Visit(context, server_url, lang="en", dark=False, width=1440, height=900, query={})
    assert written_labels(visit.page)
    visit.close()
    assert (questions, visit.problems) == ([], [])


def test_the_page_has_one_heading_of_the_first_rank_and_a_language(page):
    assert page.locator("h1").all_inner_texts() == ["Glassformer"]
    assert page.title() == "Glassformer"
    assert page.locator("html").get_attribute("lang") == "en"


@pytest.mark.first_visit
def test_the_language_chosen_on_the_page_rewords_every_tab_and_keeps_text_and_run(page, settle):
    open_tab(page, "attention")  # two tabs are mounted, the others are not yet
    settle(page)
    open_tab(page, "decode")
    decode_text(page, "4 9 2")
    settle(page)
    run = page.evaluate("glassformer.trace.id")
    wrong = []
    for name, code in (("中文", "zh"), ("English", "en")):
        choose_language(page, name)
        settle(page)
        for tab in walk(page, settle):
            texts = visible_texts(page)
            found = [*in_the_wrong_language(texts, code, NOT_OF_THE_PAGE), *leaks(texts)]
            wrong += [f"{tab} after choosing {name}: {finding}" for finding in found]
        assert page.evaluate("glassformer.trace.id") == run
        assert page.locator(".gf-text textarea").input_value() == "4 9 2"
    assert not wrong, "\n".join(wrong)


def test_an_address_that_asks_for_what_is_not_there_opens_the_first_model_in_english(open_page):
    page = open_page(lang="tlh", query={"text": "5 6", "model": "../../nothing<b>"})
    assert page.locator(".gf-run").inner_text() == "Decode"
    assert "copy" in page.locator(".gf-model input").input_value()
    assert source_labels(page) == ["5", "6", "<eos>"]


def test_a_text_too_long_in_the_address_leaves_the_example_and_says_why_in_its_language(open_page):
    page = open_page(lang="zh", query={"text": "7 " * 150})
    assert page.locator("html").get_attribute("lang") == "zh-CN"
    assert "256" in status(page)
    assert "300" in status(page)
    assert page.locator(".gf-status:visible").get_attribute("role") == "alert"
    assert len(source_labels(page)) > 1


def test_the_link_to_share_reproduces_the_view(page, open_page, settle):
    choose_language(page, "中文")
    choose_model(page, "reverse")
    settle(page)
    decode_text(page, "8 & 3 <b> #1")
    settle(page)
    page.locator(".gf-share").click()
    page.wait_for_function("new URLSearchParams(location.search).has('text')")
    link = dict(parse_qsl(urlsplit(page.url).query))
    assert link == {"text": "8 & 3 <b> #1", "model": "reverse", "lang": "zh"}
    copy = open_page(lang=link.pop("lang"), query=link)
    assert source_labels(copy) == source_labels(page)
    assert written_labels(copy) == written_labels(page)
    assert copy.locator(".gf-text textarea").input_value() == "8 & 3 <b> #1"
    assert "reverse" in copy.locator(".gf-model input").input_value()
    assert copy.locator("html").get_attribute("lang") == "zh-CN"
    assert copy.locator(".gf-run").inner_text() == "解码"
    assert "毫秒" in status(copy)
    assert copy.locator(".gf-language input[value=zh]").is_checked()


def choose_model(page, name: str) -> None:
    page.locator(".gf-model input").click()
    page.get_by_role("option", name=name).click()


def test_another_model_decodes_its_first_example_and_offers_its_own(page, settle):
    choose_model(page, "reverse")
    settle(page)
    task = TASKS["reverse"]
    first = task.examples[0].split()
    assert source_labels(page) == [*first, "<eos>"]
    assert written_labels(page) == [*reversed(first), "<eos>"]
    offered = page.locator(".gf-examples label").all_inner_texts()
    assert [text.strip() for text in offered] == list(task.examples)


def test_an_example_is_decoded_by_one_press_and_can_be_pressed_again(page, settle):
    example = TASKS["copy"].examples[1]
    for _ in range(2):
        decode_text(page, "1 2")
        settle(page)
        page.locator(".gf-examples label", has_text=example).click()
        settle(page)
        assert source_labels(page) == [*example.split(), "<eos>"]
        assert page.locator(".gf-text textarea").input_value() == example


def test_the_device_switch_does_what_the_machine_can(page, settle):
    """CPU, GPU, CPU in one visit writes the same tokens; without a GPU its choice is disabled and says why."""
    written = written_labels(page)
    gpu = page.locator(".gf-device button[data-device=gpu]")
    if not HAS_GPU:
        assert gpu.get_attribute("aria-disabled") == "true"
        assert "neither CUDA nor Apple MPS was found" in gpu.get_attribute("title")
        gpu.press("Enter")  # it can be reached, so that it can answer
        assert "neither CUDA nor Apple MPS was found" in page.locator(".gf-device-note").inner_text()
        assert page.locator(".gf-device button[data-device=cpu]").get_attribute("aria-pressed") == "true"
        return
    for device in ("gpu", "cpu", "gpu"):
        page.locator(f".gf-device button[data-device={device}]").click()
        settle(page)
        assert written_labels(page) == written
        assert ("on CPU" in status(page)) == (device == "cpu")


def test_pressing_the_device_in_use_runs_again_and_changes_nothing(page, settle):
    written = written_labels(page)
    page.locator(".gf-device button[data-device=cpu]").click()
    settle(page)
    assert written_labels(page) == written
    assert "on CPU" in status(page)


@pytest.mark.first_visit
def test_a_tab_opened_cold_after_a_resize_and_one_hidden_while_the_run_changed_fit_the_window(page, settle):
    wrong = []
    page.set_viewport_size({"width": 800, "height": 900})
    for tab in reversed(TAB_NAMES):
        open_tab(page, tab)
        settle(page)
        scroll_through(page)
        settle(page)
        wrong += [f"{tab} opened cold: {finding}" for finding in badly_sized(page) + too_wide(page)]
    page.set_viewport_size({"width": 1440, "height": 900})
    decode_text(page, "31 30 29 28 27 26 25 24 23 22")
    settle(page)
    for tab in walk(page, settle):
        wrong += [f"{tab}: {finding}" for finding in badly_sized(page) + too_wide(page)]
        page.set_viewport_size({"width": 700, "height": 900})
        settle(page)
        wrong += [f"{tab} made narrow: {finding}" for finding in badly_sized(page) + too_wide(page)]
        page.set_viewport_size({"width": 1440, "height": 900})
        settle(page)
        wrong += [f"{tab} made wide again: {finding}" for finding in badly_sized(page) + too_wide(page)]
    assert not wrong, "\n".join(wrong)


PLOT_COLOURS = """() => [...document.querySelectorAll(".gf-chart-plot")].filter((plot) => plot.checkVisibility())
  .flatMap((plot) => [...plot.querySelectorAll(".xtick text, .ytick text")].slice(0, 1))
  .map((text) => getComputedStyle(text).fill)"""
CANVASES = """() => [...document.querySelectorAll("canvas")].filter((canvas) => canvas.checkVisibility())
  .map((canvas) => canvas.toDataURL())"""


def test_a_theme_changed_live_redraws_every_view(page, settle):
    wrong = []
    for tab in TAB_NAMES:
        page.evaluate("document.body.classList.remove('dark')")
        open_tab(page, tab)
        settle(page)
        scroll_through(page)
        settle(page)
        light_plots, light_canvases = page.evaluate(PLOT_COLOURS), page.evaluate(CANVASES)
        page.evaluate("document.body.classList.add('dark')")
        settle(page)
        dark_plots, dark_canvases = page.evaluate(PLOT_COLOURS), page.evaluate(CANVASES)
        wrong += [f"{tab}: {finding}" for finding in badly_sized(page)]
        for kind, light, dark in (("plot", light_plots, dark_plots), ("canvas", light_canvases, dark_canvases)):
            same = [i for i, (before, after) in enumerate(zip(light, dark, strict=True)) if before == after]
            if same:
                wrong.append(f"{tab}: {kind} {same} of {len(light)} look the same in the dark")
    assert not wrong, "\n".join(wrong)


def test_the_keyboard_reaches_every_main_control_in_reading_order(page):
    page.locator("h1").click()
    reached = []
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                """() => {
                  const at = document.activeElement;
                  const names = ["gf-model", "gf-device", "gf-language", "gf-share", "gf-text", "gf-run",
                    "gf-examples"];
                  return at.getAttribute("role") === "tab" ? "tab" : names.find((name) => at.closest("." + name)) ?? "";
                }"""
            )
        )
    order = list(dict.fromkeys(name for name in reached if name))
    assert order == ["gf-model", "gf-device", "gf-language", "gf-share", "gf-text", "gf-run", "gf-examples", "tab"]


def test_return_in_the_text_decodes_it(page, settle):
    page.locator(".gf-text textarea").fill("6 5 4")
    page.locator(".gf-text textarea").press("Enter")
    settle(page)
    assert source_labels(page) == ["6", "5", "4", "<eos>"]


@pytest.mark.first_visit
def test_screen_readers_are_told_in_words_that_an_answer_is_there(page):
    page.evaluate(
        """() => {
          window.said = [];
          new MutationObserver((changes) => {
            for (const { target } of changes) if (target.isConnected) window.said.push(target.textContent.trim());
          }).observe(document.body, { childList: true, characterData: true, subtree: true });
        }"""
    )
    decode_text(page, "2 3")
    # Gradio speaks once in five seconds at most, and had no words of its own for this.
    page.wait_for_function("said.some((text) => text === 'Done' || text.startsWith('common.'))")
    assert not [text for text in page.evaluate("said") if text.startswith("common.")]


def test_every_focused_control_shows_that_it_is_focused(page):
    page.locator("h1").click()
    plain = []
    for _ in range(16):
        page.keyboard.press("Tab")
        plain += page.evaluate(
            """() => {
              const at = document.activeElement;
              if (at === document.body) return [];
              const shows = [at, at.closest("label, .wrap, .gf-segments"), at.parentElement].filter(Boolean)
                .map((element) => getComputedStyle(element))
                .some((style) => (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) ||
                  (style.boxShadow !== "none" && !/rgba\\(0, 0, 0, 0\\)/.test(style.boxShadow)));
              return shows ? [] : [at.outerHTML.slice(0, 200)];
            }"""
        )
    assert not plain, "\n".join(plain)


def test_these_tests_see_a_request_that_leaves_and_the_browser_does_not_let_it(new_context, server_url):
    visit = Visit(new_context(), server_url, lang="en", dark=False, width=800, height=600, query={})
    assert visit.problems == []
    blocked = visit.page.evaluate("fetch('http://fonts.example.com/a.css').then(() => false, () => true)")
    visit.page.evaluate("console.error('a fault'); setTimeout(() => { throw new Error('another') })")
    visit.settle()
    problems = "\n".join(visit.problems)
    visit.close()
    assert blocked
    assert "a request left for a third party: http://fonts.example.com/a.css" in problems
    assert "console error: a fault" in problems
    assert "another" in problems


def test_where_a_login_is_set_nobody_sees_the_page_without_it(own_server, browser):
    server = own_server(GLASSFORMER_AUTH="teacher:chalk")
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.url)
    page.wait_for_selector("input[type=password]")
    assert page.locator(".gf-tabs").count() == 0
    assert context.request.get(f"{server.url}/config").status == 401
    assert context.request.get(f"{server.url}/health").json()["status"] == "ok"  # for whoever watches over the server
    page.locator("input[type=password]").fill("chalk")
    page.locator("input:not([type=password])").first.fill("teacher")
    page.get_by_role("button").first.click()
    page.wait_for_selector(".gf-tabs")
    context.close()
