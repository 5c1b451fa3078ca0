"""A server for many: turns, refusals in words, limits of size and disk, what is kept of visitors, health, the log."""

from __future__ import annotations

import asyncio
import ctypes
import io
import json
import threading
from types import SimpleNamespace

import gradio as gr
import httpx
import pytest
from fastapi import FastAPI, HTTPException
from gradio.data_classes import PredictBodyInternal
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

import app
from builders import run_coroutine
from test_training_worker import PATIENCE, job_of, until
from transformer.devices import available_devices, device_name
from transformer.errors import InputError
from viz.tabs import action_log, compressed
from viz.tabs.action_log import action, note, write_actions
from viz.tabs.compressed import PACK, Compressed
from viz.tabs.language import say_error
from viz.tabs.limits import LARGEST_REQUEST, RequestLimits, keep_for_download
from viz.tabs.serving import MOST_OF_ONE, VERSION, Page, Visitors, health
from viz.tabs.training_worker import Trainings


def request_of(**headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": raw})


@pytest.fixture
def page():
    """A page of one event, whose last input is the language."""
    with Page(analytics_enabled=False) as page:
        text, language, kept = gr.Textbox(), gr.Textbox(), gr.State([])
        gr.Button().click(lambda text, kept, language: (text, kept), [text, kept, language], [text, kept])
        page.forget_when_left()
    page.state_holder = Visitors()
    page.state_holder.set_blocks(page)
    page.trainings = Trainings(at_once=1, line_length=3)
    yield page
    page.trainings.close(PATIENCE)


async def ask(page: Page, visitor: str, language: str = "en", **headers: str) -> None:
    body = PredictBodyInternal(fn_index=0, data=["3 1 7", None, language], session_hash=visitor)
    success, _, _ = await page._queue.push(body, request_of(**headers), None)
    assert success


def served(page: Page) -> list[str]:
    """The visitors in the order in which their questions are taken."""
    taken = []
    while (found := page._queue.get_events()) is not None:
        taken += [event.session_hash for event in found[0]]
    return taken


def test_visitors_take_turns_however_many_questions_one_of_them_asks(page):
    async def asked() -> list[str]:
        for visitor in "aaabac":
            await ask(page, visitor)
        first = page._queue.get_events()[0][0].session_hash
        await ask(page, "d")  # comes when a's first question has been taken
        return [first, *served(page)]

    assert "".join(run_coroutine(asked())) == "abcadaa"


def test_a_visitor_with_many_questions_waiting_is_refused_and_others_are_not(page):
    async def asked() -> HTTPException:
        for _ in range(MOST_OF_ONE):
            await ask(page, "greedy")
        with pytest.raises(HTTPException) as refused:
            await ask(page, "greedy", "zh")
        await ask(page, "another")
        return refused.value

    refusal = run_coroutine(asked())
    assert refusal.status_code == 429
    assert refusal.detail == f"您已有 {MOST_OF_ONE} 个请求在排队：请先等它们完成。"


@pytest.mark.parametrize(
    ("language", "headers", "says"),
    [("en", {}, "2 questions are waiting"), ("zh", {}, "已有 2 个请求在排队"),
     (None, {"accept_language": "zh-CN,zh;q=0.9"}, "已有 2 个请求在排队"), (None, {}, "2 questions are waiting")],
)
def test_who_finds_the_queue_full_is_told_so_in_their_language(page, language, headers, says):
    page.queue(max_size=2)

    async def asked() -> HTTPException:
        await ask(page, "one")
        await ask(page, "two")
        with pytest.raises(HTTPException) as refused:
            await ask(page, "three", language, **headers)
        assert served(page) == ["one", "two"]
        await ask(page, "three")
        return refused.value

    refusal = run_coroutine(asked())
    assert (refusal.status_code, refusal.headers["Retry-After"]) == (429, "5")
    assert says in refusal.detail


def limited(called: list) -> httpx.AsyncClient:
    """A client of an app behind the limits, which reads what it is sent and says how much that was."""

    async def app(scope, receive, send):
        called.append(scope["path"])
        try:
            body = await Request(scope, receive).body()
        except HTTPException as error:
            await JSONResponse({"detail": error.detail}, error.status_code)(scope, receive, send)
        else:
            await JSONResponse({"read": len(body)})(scope, receive, send)

    return httpx.AsyncClient(transport=httpx.ASGITransport(app=RequestLimits(app)), base_url="http://server")


def send(path: str, content, called: list | None = None, **headers: str) -> httpx.Response:
    async def sent() -> httpx.Response:
        async with limited([] if called is None else called) as client:
            return await client.post(path, content=content, headers=headers)

    return run_coroutine(sent())


@pytest.mark.parametrize(
    ("language", "says"),
    [("en", f"at most {LARGEST_REQUEST} MB are read"), ("zh-CN", f"最多读取 {LARGEST_REQUEST} MB")],
)
def test_ten_megabytes_of_text_are_refused_in_words_before_they_are_read(language, says):
    called = []
    answer = send("/gradio_api/queue/join", b"7" * 10_000_000, called, **{"Accept-Language": language})
    assert (answer.status_code, called) == (413, [])
    assert says in answer.json()["detail"]


def test_a_body_that_does_not_tell_its_length_is_read_only_up_to_the_limit():
    n_sent = 0

    async def endless():
        nonlocal n_sent
        while n_sent < 100 * LARGEST_REQUEST:
            n_sent += 1
            yield b"7" * 1_000_000

    answer = send("/gradio_api/queue/join", endless())
    assert answer.status_code == 413
    assert n_sent <= LARGEST_REQUEST + 2


def test_what_is_within_the_limits_gets_through_whole():
    assert send("/gradio_api/queue/join", b"7" * 1_000_000).json() == {"read": 1_000_000}


def test_a_full_disk_refuses_files_and_downloads_in_words_and_nothing_else(monkeypatch, tmp_path):
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    monkeypatch.setenv("GLASSFORMER_DISK_MB", "1")
    assert send("/gradio_api/upload", b"x" * 1000).status_code == 200
    kept = keep_for_download(b"y" * 900_000, "a.json", str(tmp_path))
    answer = send("/gradio_api/upload", b"x" * 200_000)
    assert answer.status_code == 507
    assert "no room" in answer.json()["detail"]
    with pytest.raises(InputError) as refused:
        keep_for_download(b"z" * 200_000, "b.json", str(tmp_path))
    assert (refused.value.code, [file.name for file in tmp_path.rglob("*.json")]) == ("disk_full", ["a.json"])
    assert send("/gradio_api/queue/join", b"x" * 200_000).status_code == 200
    assert kept.endswith("a.json")


def test_a_disk_without_a_byte_left_is_said_like_a_full_quota(monkeypatch, tmp_path):
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))

    def no_space(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("viz.tabs.limits.save_bytes_to_cache", no_space)
    with pytest.raises(InputError) as refused:
        keep_for_download(b"z", "b.json", str(tmp_path))
    assert refused.value.code == "disk_full"


def fetch(app, *paths: str, root_path: str = "", **headers: str) -> list[httpx.Response]:
    async def fetched() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=app, root_path=root_path)
        async with httpx.AsyncClient(transport=transport, base_url="http://server", headers=headers) as client:
            return [await client.get(path) for path in paths]

    return run_coroutine(fetched())


@pytest.mark.parametrize(("taken", "sent"), [("gzip, deflate, br", "br"), ("gzip", "gzip"), ("identity", None)])
def test_the_page_goes_out_compressed_once_and_whole(monkeypatch, taken, sent):
    packed = []
    counted = {name: lambda body, pack=pack: packed.append(1) or pack(body) for name, pack in PACK.items()}
    monkeypatch.setattr(compressed, "PACK", counted)
    page = "<p>3 1 7</p>" * 1000

    async def app(scope, receive, send):
        await Response(page, headers={"X-Kept": "yes"}, media_type="text/html")(scope, receive, send)

    for answer in fetch(Compressed(app), "/", "/", **{"Accept-Encoding": taken}):
        assert answer.headers.get("content-encoding") == sent
        assert (answer.text, answer.headers["x-kept"]) == (page, "yes")
    assert len(packed) == (1 if sent else 0)


def test_a_script_of_gradio_s_is_asked_for_once_and_kept_by_browsers():
    asked = []

    async def app(scope, receive, send):
        asked.append(scope["path"])
        status = 404 if "lost" in scope["path"] else 200
        await Response("let a = 1;" * 200, status, media_type="text/javascript")(scope, receive, send)

    kept = Compressed(app)
    files = ["/assets/Index-BtpqUM30.js", "/glass/assets/Index-BtpqUM30.js"]
    for answer in fetch(kept, *files, *files, **{"Accept-Encoding": "br"}):
        assert (answer.text, answer.headers["content-encoding"]) == ("let a = 1;" * 200, "br")
        assert "immutable" in answer.headers["cache-control"]
    assert asked == files
    others = ["/assets/lost-BtpqUM30.js", "/theme.css", "/gradio_api/file=/assets/Index-BtpqUM30.js"]
    for answer in fetch(kept, *others, *others, **{"Accept-Encoding": "br"}):
        assert "cache-control" not in answer.headers
    assert asked == [*files, *others, *others]


def test_answers_that_come_bit_by_bit_are_not_held_back_to_be_compressed():
    async def app(scope, receive, send):
        await StreamingResponse(iter(["data: 1\n\n"] * 1000), media_type="text/event-stream")(scope, receive, send)

    (answer,) = fetch(Compressed(app), "/gradio_api/queue/data", **{"Accept-Encoding": "br"})
    assert "content-encoding" not in answer.headers


def test_the_plotly_script_is_found_behind_a_proxy_whether_or_not_it_keeps_the_prefix():
    behind = FastAPI(routes=app.launch_options()["app_kwargs"]["routes"])
    for answer in fetch(behind, "/plotly/plotly.min.js", "/glass/plotly/plotly.min.js", root_path="/glass"):
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/javascript; charset=utf-8")


def test_a_visitor_s_state_is_their_own_and_holds_no_description_of_the_page(page):
    state = next(block for block in page.blocks.values() if isinstance(block, gr.State))
    one, other = page.state_holder["one"], page.state_holder["other"]
    one[state._id].append("mine")
    assert (one[state._id], other[state._id], state.value) == (["mine"], [], [])
    changed = gr.Textbox(label="changed", render=False)
    text = next(block._id for block in page.blocks.values() if isinstance(block, gr.Textbox))
    one[text] = changed
    assert one[text] is changed
    assert other[text] is page.blocks[text]
    assert (list(one.components), list(other.components)) == ([], [])


def test_a_visitor_whose_tab_closed_is_forgotten_unless_they_are_heard_of_again(monkeypatch):
    monkeypatch.setenv("GLASSFORMER_KEEP_SECONDS", "0.1")
    with Page(analytics_enabled=False) as page:
        page.forget_when_left()
    page.state_holder = Visitors()
    page.state_holder.set_blocks(page)
    (leave,) = [fn.fn for fn in page.fns.values() if any(event == "unload" for _, event in fn.targets)]

    async def left() -> list[list[str]]:
        for visitor in ("gone", "back", "there"):
            page.state_holder[visitor]
            page._queue.pending_event_ids_session[visitor] = set()
        for visitor in ("gone", "back"):
            await leave(SimpleNamespace(session_hash=visitor))
        await asyncio.sleep(0.05)
        page.state_holder["back"]
        seen = []
        for _ in range(2):
            await asyncio.sleep(0.1)
            seen.append(sorted(page.state_holder.session_data))
            assert sorted(page._queue.pending_event_ids_session) == seen[-1]
        return seen

    assert run_coroutine(left()) == [["back", "there"], ["there"]]


def test_health_says_how_busy_the_server_is(page):
    async def asked() -> dict:
        await ask(page, "one")
        page.state_holder["one"]
        scope = {"type": "http", "app": SimpleNamespace(get_blocks=lambda: page, state_holder=page.state_holder)}
        return json.loads((await health(Request(scope))).body)

    first = page.trainings.start("one", job_of())
    page.trainings.start("two", job_of())
    until(lambda: first.history.steps)
    assert run_coroutine(asked()) == {
        "status": "ok", "version": VERSION, "device": device_name(available_devices()[-1]), "trainings_running": 1,
        "trainings_waiting": 1, "queue_length": 1, "queue_limit": None, "visitors_kept": 1,
    }


@pytest.fixture
def lines(monkeypatch):
    """The lines that are written during a test."""
    stream = io.StringIO()
    monkeypatch.setattr(action_log.log, "handlers", [])
    monkeypatch.setattr(action_log.log, "level", action_log.log.level)
    write_actions(stream)
    return lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_action_is_one_line_with_what_was_noted_in_it_by_whatever_thread(lines):
    async def acted() -> None:
        with action("runs.decode", wait_ms=7), action("inner"):
            await asyncio.to_thread(note, device="cuda")

    run_coroutine(acted())
    note(device="nowhere")  # outside of any action
    (line,) = lines()
    assert {**line, "time": "", "ms": 0} == {
        "time": "", "action": "runs.decode", "outcome": "ok", "ms": 0, "wait_ms": 7, "device": "cuda"
    }


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (gr.Error("about secret"), {"outcome": "refused"}),
        (KeyError("secret"), {"outcome": "failed", "error": "KeyError"}),
        (asyncio.CancelledError(), {"outcome": "cancelled"}),
    ],
)
def test_how_an_action_ended_is_written_without_a_word_of_the_visitor_s(lines, error, told):
    with pytest.raises(type(error)), action("page.decode"):
        raise error
    (line,) = lines()
    assert told.items() <= line.items()
    assert "secret" not in json.dumps(line)


def test_input_that_was_refused_is_written_by_its_code(lines):
    with action("page.decode"):
        say_error("en", InputError("task_unknown", name="secret", known="copy"))
    (line,) = lines()
    assert (line["outcome"], line["code"]) == ("refused", "task_unknown")
    assert "secret" not in json.dumps(line)


def test_a_killed_training_is_told_as_failed_and_the_next_one_has_its_turn(lines, caplog):
    registry = Trainings(at_once=1, seconds=120)
    killed, following = registry.start("one", job_of()), registry.start("two", job_of(steps=2))
    until(lambda: killed.history.steps)
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(killed._thread.ident), ctypes.py_object(SystemExit)
    ) == 1
    until(lambda: following.is_over)
    assert killed.join(PATIENCE)
    assert (killed.outcome.code, killed.outcome.checkpoint, following.outcome.code) == ("failed", None, "steps")
    assert [line["outcome"] for line in lines() if line["action"] == "training"] == ["failed", "steps"]
    assert following.id not in {thread.name for thread in threading.enumerate()} or following.join(PATIENCE)
    registry.close()
