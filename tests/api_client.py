"""The page's endpoints over plain HTTP, as a program would call them, or somebody who forges what the page sends."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from uuid import uuid4

TIMEOUT = 300  # seconds; for machines with more to do than these tests
# A proxy in the environment must not be asked for the loopback address.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Refused(Exception):
    """The server did not answer with data. The text is what it said instead."""


def _open(url: str, body: dict | None = None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        return _direct.open(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        raise Refused(f"{error.code}: {error.read().decode(errors='replace')}") from error


def config(url: str) -> dict:
    """What the page's browser side is told: components and dependencies."""
    with _open(f"{url}/config") as answer:
        return json.load(answer)


def dependency(url: str, api_name: str) -> dict:
    """The event with that name, public or private."""
    return next(event for event in config(url)["dependencies"] if event["api_name"] == api_name)


def call(url: str, name: str, *data: object) -> list:
    """The answer of a public endpoint. Raises Refused with the server's words."""
    with _open(f"{url}/gradio_api/call/{name}", {"data": data}) as answer:
        event = json.load(answer)["event_id"]
    with _open(f"{url}/gradio_api/call/{name}/{event}") as answer:
        kind = ""
        for line in answer.read().decode().splitlines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: ") and kind == "complete":
                return json.loads(line.removeprefix("data: "))
            elif line.startswith("data: ") and kind == "error":
                raise Refused(line)
    raise Refused("the stream ended without an answer")


def forge(url: str, event: dict, data: list, event_data: object = None, session: str | None = None) -> list:
    """Do as the page does for any event, private ones too, with any ``data``. Raises Refused."""
    session = session or uuid4().hex[:10]
    body = {"data": data, "event_data": event_data, "fn_index": event["id"], "session_hash": session}
    if not event["queue"]:
        with _open(f"{url}/gradio_api/run/predict", body) as answer:
            return json.load(answer)["data"]
    with _open(f"{url}/gradio_api/queue/join", body):
        pass
    with _open(f"{url}/gradio_api/queue/data?session_hash={session}") as stream:
        for raw in stream:
            line = raw.decode().strip()
            if not line.startswith("data: "):
                continue
            message = json.loads(line.removeprefix("data: "))
            if message["msg"] == "process_completed":
                if not message["success"]:
                    raise Refused(json.dumps(message["output"]))
                return message["output"]["data"]
    raise Refused("the stream ended without an answer")
