"""The app as a process of its own for benchmarks, and scripted visitors who ask it over HTTP as a browser does."""

from __future__ import annotations

import asyncio
import json
import math
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

# The browser tests' server and browser serve here, too.
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from benchmarks.measuring import BenchmarkFailed
from browser.server import Server
from find_chromium import system_chromium

__all__ = [
    "BROWSER_ARGUMENTS",
    "Refused",
    "Visitor",
    "percentile",
    "resident_megabytes",
    "running",
    "running_together",
    "system_chromium",
]

NEWS = ("process_generating", "process_completed")
LONGEST_LINE = 2**24  # bytes of one message: a run of the largest model is a fraction of it
BROWSER_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Whatever asks for anything but this machine gets no answer, so a page that needs a third party does not work.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


class Refused(Exception):
    """The server answered with something else than data: a status, or a failed event."""


@contextmanager
def running(**options: object) -> Iterator[Server]:
    """``python app.py``, or what ``Server`` is told by ``options``, stopped at the end.

    Raises BenchmarkFailed when it does not start.
    """
    with tempfile.TemporaryDirectory(prefix="glassformer-benchmark-") as folder:
        try:
            server = Server(Path(folder), **options)
        except AssertionError as error:
            raise BenchmarkFailed(str(error).splitlines()[0]) from None
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def running_together(*options: dict[str, object]) -> Iterator[list[Server]]:
    """One ``running`` for each of ``options``, started at the same time: a start keeps one core busy."""
    with ExitStack() as stack, ThreadPoolExecutor() as threads:
        yield list(threads.map(lambda each: stack.enter_context(running(**each)), options))


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest of ``values`` that ``percent`` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def resident_megabytes(pid: int) -> float:
    """Memory that a process has in use, as Linux counts it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        raise BenchmarkFailed("resident memory is read from /proc, which only Linux has") from None
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1024


class Visitor:
    """One browser tab: a session of its own, and a connection that stays open for as long as it does.

    ``async with Visitor(url) as visitor: await visitor.ask("page.decode", ...)``
    """

    def __init__(self, url: str, events: dict[str, dict] | None = None) -> None:
        self.session = uuid4().hex[:11]
        self._host, self._port = urlsplit(url).hostname, urlsplit(url).port
        self._events = events
        self._heartbeat: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Visitor:
        if self._events is None:
            self._events = await self.events()
        reader, self._heartbeat = await self._send("GET", f"/gradio_api/heartbeat/{self.session}")
        await _head(reader)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._heartbeat.close()  # as when a tab closes

    async def events(self) -> dict[str, dict]:
        """The page's private events by their names, read from what every browser is told."""
        config = json.loads(await self.get("/config"))
        return {event["api_name"]: event for event in config["dependencies"] if event["api_visibility"] == "private"}

    async def get(self, path: str) -> bytes:
        """The body of a page. Raises Refused."""
        return await self._answer("GET", path)

    async def post(self, path: str, body: dict) -> dict:
        """The answer to a JSON body. Raises Refused."""
        return json.loads(await self._answer("POST", path, body))

    async def upload(self, content: bytes) -> int:
        """The status with which a file is taken or refused."""
        boundary = uuid4().hex
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="files"; filename="a.json"\r\n\r\n'
        body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
        kind = f"multipart/form-data; boundary={boundary}"
        reader, writer = await self._send("POST", "/gradio_api/upload", body, kind)
        try:
            return (await _head(reader))[0]
        finally:
            writer.close()

    async def ask_at_once(self, event: str, data: list) -> list:
        """The values of an event that does not queue. Raises Refused."""
        body = {"data": data, "fn_index": self._events[event]["id"], "session_hash": self.session}
        return (await self.post("/gradio_api/run/predict", body))["data"]

    async def ask(self, event: str, data: list, event_data: object = None) -> list:
        """The last values an event answers with. Raises Refused."""
        return [values async for values in self.follow(event, data, event_data)][-1]

    async def follow(self, event: str, data: list, event_data: object = None) -> AsyncIterator[list]:
        """The values of an event as they come. Raises Refused when it is not let in, or fails."""
        body = {"data": data, "event_data": event_data, "fn_index": self._events[event]["id"],
                "session_hash": self.session}
        joined = (await self.post("/gradio_api/queue/join", body))["event_id"]
        async with self.stream() as messages:
            async for message in messages:
                if message.get("event_id") != joined or message["msg"] not in NEWS:
                    continue
                if not message["success"]:
                    raise Refused(json.dumps(message["output"]))
                yield message["output"].get("data", [])
                if message["msg"] == "process_completed":
                    return
        raise Refused("the stream ended without an answer")

    @asynccontextmanager
    async def stream(self) -> AsyncIterator[AsyncIterator[dict]]:
        """What the server has to tell this visitor, message by message; the connection is cut at the end."""
        reader, writer = await self._send("GET", f"/gradio_api/queue/data?session_hash={self.session}")
        try:
            status, _ = await _head(reader)
            if status != 200:
                raise Refused(str(status))
            yield _messages(reader)
        finally:
            writer.close()

    async def _answer(self, method: str, path: str, body: dict | None = None) -> bytes:
        reader, writer = await self._send(method, path, None if body is None else json.dumps(body).encode())
        try:
            status, headers = await _head(reader)
            length = int(headers.get("content-length", -1))
            if length < 0:
                content = b"".join([part async for part in _chunks(reader)])
            else:
                content = await reader.readexactly(length)
        finally:
            writer.close()
        if status != 200:
            raise Refused(f"{status}: {content.decode(errors='replace')[:300]}")
        return content

    async def _send(
        self, method: str, path: str, content: bytes | None = None, kind: str = "application/json"
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=LONGEST_LINE)
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n"
        if content is not None:
            head += f"Content-Type: {kind}\r\nContent-Length: {len(content)}\r\n"
        writer.write(head.encode() + b"\r\n" + (content or b""))
        with suppress(ConnectionError):  # refused before all was sent: the answer says why
            await writer.drain()
        return reader, writer


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    status = int((await reader.readline()).split()[1])
    headers = {}
    while (line := (await reader.readline()).decode().strip()):
        name, value = line.split(":", 1)
        headers[name.lower()] = value.strip()
    return status, headers


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while (size := int((await reader.readline()).strip() or b"0", 16)):
        yield (await reader.readexactly(size + 2))[:-2]


async def _messages(reader: asyncio.StreamReader) -> AsyncIterator[dict]:
    kept = b""
    async for part in _chunks(reader):
        kept += part
        *whole, kept = kept.split(b"\n\n")
        for message in whole:
            yield json.loads(message.removeprefix(b"data: "))
