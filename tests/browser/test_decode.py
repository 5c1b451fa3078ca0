"""The stage: one decoded run, scrubbed, pointed at, pinned, saved and opened, in a real browser."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from browser.visit import choose_language, decode_text
from transformer.checkpoints import shipped_checkpoint
from transformer.trace_files import trace_to_json
from transformer.tracing import trace_text

TEXT = "3 1 7 3 10 2"
HOSTILE = ("<b>", "<img src=x onerror=alert(1)>", "&amp;", "${1+1}", "{{value}}", "שלום", "👩‍👩‍👧")


def written(page) -> list[str]:
    """The target chips that can be read at this step, <bos> first."""
    return page.locator(".gf-stage-target .gf-stage-slot:not(.gf-stage-later) .gf-chip").all_inner_texts()


def selection(page) -> dict:
    return page.evaluate("({...glassformer.selection})")


def candidates(page) -> list[str]:
    return page.locator(".gf-stage-candidates li:visible .gf-chip").all_inner_texts()


def upload(page, settle, name: str, content: bytes) -> None:
    page.locator("input[type=file][accept='.json']").first.set_input_files(
        {"name": name, "mimeType": "application/json", "buffer": content}
    )
    page.wait_for_timeout(200)
    settle(page)


@pytest.fixture(scope="module")
def trace():
    """A run of the copy model, as a file of it would hold."""
    return trace_text(shipped_checkpoint("copy"), TEXT)


@pytest.mark.first_visit
def test_the_stage_opens_on_the_last_step_of_a_decoded_example(page):
    steps = page.evaluate("glassformer.trace.steps.map((step) => step.token.label)")
    assert written(page) == ["<bos>", *steps]
    assert page.locator(".gf-stage-step-of").inner_text() == f"step {len(steps)} of {len(steps)}"
    assert candidates(page)[0] == steps[-1]
    assert page.locator(".gf-stage-say strong").first.inner_text().endswith("%")
    heads = page.evaluate("glassformer.trace.patterns.cross.shape.slice(0, 2)")
    assert page.locator(".gf-stage-head").count() == heads[0] * heads[1]


def test_scrubbing_shows_every_step_and_asks_the_server_for_nothing(page):
    steps = page.evaluate("glassformer.trace.steps")
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    slider = page.locator(".gf-stage input[type=range]")
    for step in range(len(steps), -1, -1):
        slider.evaluate("(input, step) => { input.value = step; input.dispatchEvent(new Event('input')); }", step)
        assert written(page) == ["<bos>", *[each["token"]["label"] for each in steps[:step]]]
        expected = [label for label, _ in steps[step - 1]["candidates"][:8]] if step else []
        assert candidates(page) == expected
        if step:
            assert page.locator(".gf-stage-is-written .gf-chip").inner_text() == steps[step - 1]["token"]["label"]
            assert page.locator(".gf-stage-say-token").first.inner_text() == steps[step - 1]["token"]["label"]
    page.wait_for_timeout(300)
    assert [url for url in requests if "heartbeat" not in url] == []


def test_the_percents_on_the_source_are_the_weights_of_the_row_that_asks(page):
    page.evaluate("glassformer.select({ step: 3, layer: 0, head: 1 })")
    chips = "[...document.querySelectorAll('.gf-stage-source .gf-chip')]"
    shown = page.evaluate(f"{chips}.map((chip) => chip.getAttribute('aria-description'))")
    weights = page.evaluate(
        """() => { const pattern = glassformer.headPattern("cross", 0, 1);
                   return Array.from({ length: pattern.columns }, (_, column) => pattern.get(2, column)); }"""
    )
    for text, weight in zip(shown, weights, strict=True):
        if weight >= 0.9995:
            assert text.startswith(("> 99.9", "100", ">")), text
        elif weight >= 0.01:
            assert float(text.split("\u202f")[0].strip("> ")) == pytest.approx(100 * weight, abs=0.51)
        else:
            assert text == ""


def test_the_percents_are_painted_above_the_chips_that_have_one(page):
    """They are on the canvas behind the chips: each has ink in its room exactly when it has something to say."""
    page.evaluate("glassformer.select({ step: 3, layer: 0, head: 1 })")
    said, painted = page.evaluate(
        """() => {
          const canvas = document.querySelector(".gf-stage-lines");
          const origin = canvas.getBoundingClientRect();
          const ratio = canvas.width / origin.width;
          const chips = [...document.querySelectorAll(".gf-stage-source .gf-chip")];
          return [chips.map((chip) => chip.getAttribute("aria-description") !== ""), chips.map((chip) => {
            const { left, top, width } = chip.getBoundingClientRect();
            const room = [left - origin.left, top - origin.top - 18, width, 16];
            const pixels = room.map((length) => Math.round(length * ratio));
            return canvas.getContext("2d").getImageData(...pixels).data.some((value) => value);
          })];
        }"""
    )
    assert painted == said
    assert True in said
    assert False in said


def test_the_marks_on_the_maps_follow_the_step_as_soon_as_the_maps_are_in_view(page):
    veils = """() => ["strip", "large"].map((name) => {
      const canvas = document.querySelector(`.gf-stage-${name} canvas`).getBoundingClientRect();
      const marks = document.querySelector(`.gf-stage-${name} .gf-marks`);
      const map = name === "strip" ? document.querySelector(".gf-stage-frame").getBoundingClientRect() : canvas;
      const top = marks.querySelector(".gf-marks-veil").getBoundingClientRect().top;
      return Math.round((10 * (top - map.top)) / map.height) / 10;
    })"""
    page.set_viewport_size({"width": 1280, "height": 420})
    page.evaluate("glassformer.select({ step: 2 })")
    rows = page.evaluate("glassformer.trace.patterns.cross.shape[2]")
    large = page.locator(".gf-stage-large-box")
    large.scroll_into_view_if_needed()
    page.wait_for_function(f"() => ({veils})().every((share) => share === {round(2 / rows, 1)})")
    page.locator(".gf-brand").scroll_into_view_if_needed()
    page.wait_for_function("document.querySelector('.gf-stage-maps').getBoundingClientRect().top > innerHeight + 100")
    page.wait_for_timeout(200)  # the browser tells the maps with a later frame
    page.evaluate("glassformer.select({ step: 5 })")
    page.wait_for_timeout(100)
    assert page.evaluate(veils) == [round(2 / rows, 1)] * 2
    large.scroll_into_view_if_needed()
    page.wait_for_function(f"() => ({veils})().every((share) => share === {round(5 / rows, 1)})")


def test_keys_move_the_stage_but_never_from_a_field(page):
    last = page.evaluate("glassformer.trace.steps.length")
    page.evaluate("document.activeElement.blur()")
    for key, step in (("Home", 0), ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", last)):
        page.keyboard.press(key)
        assert selection(page)["step"] == step, key
    page.locator(".gf-text textarea").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert selection(page)["step"] == last
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Space")
    page.wait_for_function(f"glassformer.selection.step > 0 && glassformer.selection.step < {last}")
    page.keyboard.press("Space")
    stopped = selection(page)["step"]
    page.wait_for_timeout(1300)
    assert selection(page)["step"] == stopped


def test_play_starts_over_at_the_end_and_advances_to_it(page):
    page.locator("[data-speed='4']").click()
    page.locator("[data-act=play]").click()
    page.wait_for_function("glassformer.selection.step === 1")
    page.wait_for_function("glassformer.selection.step === glassformer.trace.steps.length", timeout=15_000)
    page.wait_for_selector(".gf-stage-play:not(.gf-stage-is-playing)")


def test_a_click_pins_a_token_and_a_second_click_or_escape_lets_it_go(page):
    chip = page.locator(".gf-stage-target .gf-chip").nth(2)
    chip.click()
    assert selection(page)["query"] == 2
    assert chip.get_attribute("aria-pressed") == "true"
    page.locator(".gf-stage-say").hover()
    assert "gf-stage-asks" in chip.get_attribute("class")  # the lines are still those of the pinned token
    assert page.locator(".gf-stage-rows .gf-stage-on").inner_text() == chip.inner_text()
    chip.click()
    assert selection(page)["query"] is None
    page.locator(".gf-stage-source .gf-chip").nth(1).click()
    assert (selection(page)["query"], selection(page)["key"]) == (None, 1)
    page.keyboard.press("Escape")
    assert selection(page)["key"] is None


def test_pointing_at_a_token_shows_it_everywhere(page):
    page.locator(".gf-stage-source .gf-chip").nth(3).hover()
    assert page.locator(".gf-stage-columns .gf-stage-on").get_attribute("data-key") == "3"
    assert "position 4" in page.locator(".gf-stage-say").inner_text()
    page.locator(".gf-stage-say").hover()
    assert page.locator(".gf-stage-columns .gf-stage-on").count() == 0


def test_a_cell_of_the_large_map_tells_its_weight_and_can_be_pinned(page):
    canvas = page.locator(".gf-stage-large canvas")
    rows, columns = page.evaluate("glassformer.trace.patterns.cross.shape.slice(2)")
    box = canvas.bounding_box()
    spot = {"x": box["width"] * 1.5 / columns, "y": box["height"] * 1.5 / rows}
    canvas.hover(position=spot)
    weight = page.evaluate("glassformer.headPattern('cross', 0, 0).get(1, 1)")
    tip = page.locator(".gf-stage-tip").inner_text()
    assert "(row 2)" in tip
    assert "(column 2)" in tip
    assert f"{100 * weight:.1f} %" in tip or "99.9 %" in tip or "0.1 %" in tip
    canvas.click(position=spot)
    assert (selection(page)["query"], selection(page)["key"]) == (1, 1)


def test_the_head_chosen_on_the_strip_is_the_one_of_all_views(page):
    page.locator(".gf-stage-head[data-layer='1'][data-head='2']").click()
    assert (selection(page)["layer"], selection(page)["head"]) == (1, 2)
    assert page.locator(".gf-stage-large-name").inner_text().startswith("Layer 2, head 3")
    page.keyboard.press("ArrowLeft")  # on the strip the arrow keys choose the head, not the step
    assert (selection(page)["layer"], selection(page)["head"]) == (1, 1)
    page.evaluate("glassformer.select({ layer: 0, head: 3 })")
    assert page.locator(".gf-stage-head[aria-checked=true]").inner_text() == "L1 H4"


def test_another_kind_of_attention_lays_itself_out_from_the_model(page):
    for kind, queries in (("encoder_self", "source"), ("decoder_self", "target_in"), ("cross", "target_in")):
        page.locator(f".gf-stage button[data-kind={kind}]").click()
        labels = page.evaluate(f"glassformer.trace.{queries}.map((token) => token.label)")
        assert page.locator(".gf-stage-rows .gf-stage-axis-token").all_inner_texts() == labels
        assert page.locator(".gf-stage-lines").get_attribute("aria-label")


def test_a_saved_run_opens_again(page, settle):
    with page.expect_download() as started:
        page.locator(".gf-run-save").click()
    assert started.value.suggested_filename == "glassformer-copy.json"
    content = started.value.path().read_bytes()
    before = page.evaluate("[glassformer.trace.source.length, glassformer.trace.log_prob]")
    page.locator(".gf-text textarea").fill("9 9")
    page.locator(".gf-run").click()
    page.wait_for_function("glassformer.trace.source.length === 3")
    upload(page, settle, "run.json", content)
    assert page.evaluate("[glassformer.trace.source.length, glassformer.trace.log_prob]") == before
    assert page.locator(".gf-status:visible").inner_text().startswith("Opened a run of copy")
    assert page.locator(".gf-text textarea").input_value() == json.loads(content)["text"]


def test_a_file_that_is_no_run_is_refused_and_the_view_stays(page, settle):
    before = page.evaluate("glassformer.trace.id")
    for content in (b"not json", b"{}", b'{"format": "glassformer-trace", "version": 99}'):
        upload(page, settle, "run.json", content)
        page.wait_for_selector(".gf-status-problem")
        assert page.evaluate("glassformer.trace.id") == before
    assert written(page)[0] == "<bos>"


@pytest.mark.first_visit
def test_tokens_that_look_like_markup_are_shown_to_the_letter(page, settle, trace):
    source = (*HOSTILE, *trace.src_tokens)[: len(trace.src_tokens)]
    steps = tuple(
        replace(step, token=token, candidates=((token, 0.5), ("<script>", 0.2)))
        for step, token in zip(trace.steps, source, strict=True)
    )
    fed = ("<bos>", *source[:-1])
    forged = replace(trace, src_tokens=source, src_pieces=source, tgt_in_tokens=fed, steps=steps, task="<i>x</i>")
    upload(page, settle, "run.json", trace_to_json(forged).encode())
    assert page.locator(".gf-stage-source .gf-chip").all_inner_texts() == [token.replace(" ", "␣") for token in source]
    assert candidates(page)[1] == "<script>"
    assert page.locator(".gf-stage :is(img, script, b, i)").count() == 0
    assert "None of the models here" in page.locator(".gf-status:visible").inner_text()


def test_a_long_run_stays_within_the_page_at_every_width(page, settle):
    decode_text(page, " ".join(str(i % 32) for i in range(60)))
    page.wait_for_function("glassformer.trace.source.length === 61")
    for width in (1440, 1024, 390):
        page.set_viewport_size({"width": width, "height": 900})
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator(".gf-stage-source .gf-chip").count() == 61
        rights = page.locator(".gf-stage .gf-chip").evaluate_all(
            "(chips) => chips.map((chip) => chip.getBoundingClientRect().right)"
        )
        assert max(rights) <= width


def test_the_stage_speaks_chinese(page, settle):
    choose_language(page, "中文")
    settle(page)
    page.evaluate("glassformer.select({ step: 2 })")
    assert page.locator(".gf-stage-say").inner_text().startswith("为了写出")
    assert page.locator(".gf-stage-step-of").inner_text().startswith("第 2 步")
