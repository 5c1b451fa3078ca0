"""How the app is launched, what it offers to programs, and that nothing a program sends makes it fall over."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from pathlib import Path

import pytest

import api_client
import app
from api_client import Refused
from browser.server import Server
from transformer.checkpoints import shipped_names
from transformer.devices import available_devices
from transformer.tracing import MAX_TEXT_LENGTH

NO_DEVICE = next(device for device in ("mps", "cuda") if device not in available_devices())


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for name in os.environ:
        if name.startswith("GLASSFORMER_") or name == "SPACE_ID":
            monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("server"))
    yield server
    server.stop()


@pytest.fixture
def untroubled(server):
    """Fails when a handler of ours fell over during the test. Gradio prints its own refusals too; those may stand."""
    server.new_log()
    yield server.url
    log = server.new_log()
    ours = [str(Path(app.__file__).parent / folder) for folder in ("viz", "transformer")]
    through = ("viz/tabs/serving.py", "viz/tabs/action_log.py")  # every event does, and what Gradio refuses
    handlers = [line for line in log.splitlines() if not any(file in line for file in through)]
    assert not any(folder in line for folder in ours for line in handlers), log


def test_it_listens_on_loopback_unless_told_otherwise():
    options = app.launch_options()
    assert options["server_name"] == "127.0.0.1"
    assert options["server_port"] == 7860
    assert options["auth"] is None


def test_a_space_listens_on_every_address(monkeypatch):
    monkeypatch.setenv("SPACE_ID", "someone/glassformer")
    assert app.launch_options()["server_name"] == "0.0.0.0"


def test_the_host_named_in_the_environment_goes_before_all(monkeypatch):
    monkeypatch.setenv("SPACE_ID", "someone/glassformer")
    monkeypatch.setenv("GLASSFORMER_HOST", "127.0.0.2")
    assert app.launch_options()["server_name"] == "127.0.0.2"


def test_a_login_in_the_environment_is_asked_for_and_may_hold_colons(monkeypatch):
    monkeypatch.setenv("GLASSFORMER_AUTH", "teacher:pass:word")
    assert app.launch_options()["auth"] == ("teacher", "pass:word")


def test_limits_come_from_the_environment(monkeypatch):
    given = {}

    class Recorder:
        def queue(self, **options):
            given.update(options)

        def launch(self, **options):
            given.update(options)

    monkeypatch.setattr(app, "build_page", Recorder)
    for name, value in (("PORT", "8123"), ("SESSIONS", "17"), ("QUEUE", "5")):
        monkeypatch.setenv(f"GLASSFORMER_{name}", value)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    app.main()
    assert (given["server_port"], given["state_session_capacity"], given["max_size"]) == (8123, 17, 5)


def test_nothing_is_reported_to_anybody():
    options = app.launch_options()
    assert os.environ["GRADIO_ANALYTICS_ENABLED"] == "False"
    assert options["enable_monitoring"] is False
    assert options["run_history"] is False
    assert options["show_error"] is False


def test_uploads_are_bounded_to_20_megabytes():
    assert app.launch_options()["max_file_size"] == "20mb"


def test_the_page_sends_nobody_to_a_third_party():
    options = app.launch_options()
    written = f"{options['css']} {options['head']}"
    assert "//cdn" not in written
    assert "googleapis" not in written
    assert "@import" not in written


def test_exactly_decode_attention_and_evaluate_are_public(server):
    events = api_client.config(server.url)["dependencies"]
    assert {e["api_name"] for e in events if e["api_visibility"] == "public"} == {"decode", "attention", "evaluate"}


def test_every_event_that_computes_waits_in_the_queue(server):
    by_name = {event["api_name"]: event for event in api_client.config(server.url)["dependencies"]}
    for name in ("decode", "attention", "evaluate", "use_model", "use_device", "open_link"):
        assert by_name[name]["queue"], name


def test_the_analytics_switch_is_off_in_the_page(server):
    assert api_client.config(server.url)["analytics_enabled"] is False


def test_decode_answers_a_program(server):
    (report,) = api_client.call(server.url, "decode", "copy", "3 1 7")
    assert report["src_tokens"] == ["3", "1", "7", "<eos>"]
    assert report["text"] == "3 1 7"


def test_attention_answers_a_program_with_rows_that_sum_to_one(server):
    (answer,) = api_client.call(server.url, "attention", "copy", "3 1 7", "cross", 1, 2)
    assert answer["key_tokens"] == ["3", "1", "7", "<eos>"]
    assert len(answer["weights"]) == len(answer["query_tokens"])
    assert [sum(row) for row in answer["weights"]] == pytest.approx([1.0] * len(answer["weights"]), abs=1e-5)


@pytest.mark.parametrize(
    ("endpoint", "values", "says"),
    [
        ("decode", ("copy", "9 " * MAX_TEXT_LENGTH * 5), f"{MAX_TEXT_LENGTH} characters, this one has 2560"),
        ("decode", ("copy", ""), "no tokens"),
        ("decode", ("copy", None), "a text was expected"),
        ("decode", ("copy", {"text": "3"}), "a text was expected"),
        ("decode", (["copy"], "3"), "a text was expected"),
        ("decode", ("../copy", "3"), "../copy"),
        ("decode", ("nothing", "3"), "nothing"),
        ("attention", ("copy", "3", "sideways", 1, 1), "encoder_self, decoder_self, cross"),
        ("attention", ("copy", "3", ["cross"], 1, 1), "encoder_self, decoder_self, cross"),
        ("attention", ("copy", "3", "cross", 0, 1), "layer must be a whole number from 1"),
        ("attention", ("copy", "3", "cross", 1, 99), "head must be a whole number from 1"),
        ("attention", ("copy", "3", "cross", 1.5, True), "layer must be a whole number from 1"),
        ("evaluate", ("copy", 10**9), "n must be a whole number from 1 to 200"),
        ("evaluate", ("copy", "all"), "n must be a whole number from 1 to 200"),
        ("evaluate", (None, 3), "a text was expected"),
    ],
)
def test_a_program_that_sends_nonsense_gets_a_sentence(untroubled, endpoint, values, says):
    with pytest.raises(Refused) as refused:
        api_client.call(untroubled, endpoint, *values)
    assert says in str(refused.value), refused.value


@pytest.mark.parametrize(
    ("text", "language", "says"),
    [
        (None, "en", "no tokens"),
        ("9 " * MAX_TEXT_LENGTH * 5, "en", f"{MAX_TEXT_LENGTH} characters, this one has 2560"),
        ("9 " * MAX_TEXT_LENGTH * 5, "zh", f"{MAX_TEXT_LENGTH} 个字符，这段有 2560 个"),
        ("   ", "zh", "请先输入内容"),
    ],
)
def test_the_page_s_own_decoding_refuses_with_a_sentence_in_the_visitor_s_language(untroubled, text, language, says):
    *_, status = api_client.forge(untroubled, page_decode(untroubled), [text, None, None, language])
    assert says in status
    assert 'role="alert"' in status


@pytest.mark.parametrize("text", [5, True, ["3"], {"a": 1}])
def test_something_else_in_the_place_of_the_text_is_read_as_text_or_refused(untroubled, text):
    *_, status = api_client.forge(untroubled, page_decode(untroubled), [text, None, None, "en"])
    assert "gf-status" in status


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("data", [{"device": NO_DEVICE}, {"device": "tpu"}, {"device": ["cpu"]}, {}, None, "cpu"])
def test_a_forged_device_gets_a_sentence_in_the_visitor_s_language(untroubled, data, language):
    *_, status = api_client.forge(
        untroubled, api_client.dependency(untroubled, "use_device"), [None, language], event_data=data
    )
    assert {"en": "device on this machine, found: cpu", "zh": "这台机器上没有设备"}[language] in status


@pytest.mark.parametrize("model", [["copy"], None])
def test_a_forged_model_gets_a_sentence(untroubled, model):
    *_, status = api_client.forge(untroubled, api_client.dependency(untroubled, "use_model"), [model, None, None, "en"])
    assert "There is no trained model" in status


@pytest.mark.parametrize("model", ["own", "nothing", "../copy", 5])
def test_a_model_that_is_not_on_the_list_is_refused(untroubled, model):
    with pytest.raises(Refused, match="not in the list of choices"):
        api_client.forge(untroubled, api_client.dependency(untroubled, "use_model"), [model, None, None, "en"])


@pytest.mark.parametrize("model", ["nothing", "../copy", None, 5, ["copy"]])
def test_a_link_with_an_unknown_model_opens_with_the_first_one(untroubled, model):
    *_, status = api_client.forge(
        untroubled,
        api_client.dependency(untroubled, "open_link"),
        [{"text": "3 1", "model": model}, None, None, "en"],
    )
    assert "3 tokens in" in status


def test_health_is_told_to_anybody_and_a_decode_leaves_one_line_without_its_text(server):
    server.new_log()
    api_client.call(server.url, "decode", "copy", "27 28 29")
    with urllib.request.urlopen(f"{server.url}/health") as answer:
        report = json.load(answer)
    assert (report["status"], report["queue_length"], report["trainings_running"]) == ("ok", 0, 0)
    deadline = time.monotonic() + 30
    while not (log := server.new_log()) and time.monotonic() < deadline:  # written when the answer is on its way
        time.sleep(0.05)
    (line,) = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert (line["action"], line["outcome"], line["device"]) == ("public_interface.decode", "ok", "cpu")
    assert "27" not in " ".join(str(value) for name, value in line.items() if name not in ("time", "ms", "wait_ms"))


def test_every_shipped_model_answers(server):
    for name in shipped_names():
        (report,) = api_client.call(server.url, "decode", name, "3 1 7 3")
        assert report["finished"], name


def page_decode(url: str) -> dict:
    """The event behind the Decode button."""
    events = api_client.config(url)["dependencies"]
    return next(e for e in events if e["api_name"].startswith("decode") and e["api_visibility"] == "private")
