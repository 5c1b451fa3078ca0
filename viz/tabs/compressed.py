"""The page, its description and the scripts and styles it is made of go out compressed, each compressed once for all.

Gradio leaves that undone for the first two, and reads and compresses its own eighty files anew for every visitor.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from collections import OrderedDict
from hashlib import blake2b

import brotli
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATHS = ("/", "/config", "/plotly.min.js")  # what a path ends with, whatever prefix a proxy puts before it
# A script or style of Gradio's page, never a visitor's file ("file=..."). Its name holds a hash of its content: nothing
# else will ever be found there.
FILE = re.compile(r"(?:/[\w.-]+)*/assets/[\w.-]+-[\w-]{8,}\.(js|css)$")
SMALLEST = 1000  # bytes worth the trouble
KEPT = 16  # compressed bodies; every visitor gets the same few
FILES_KEPT = 256  # whole answers, of which the page needs about eighty
LARGEST_FILE = 500_000  # bytes of one that is kept, compressed
FOR_GOOD = {"Cache-Control": "public, max-age=31536000, immutable"}
PACK = {
    "br": lambda body: brotli.compress(body, quality=5),
    "gzip": lambda body: gzip.compress(body, 6, mtime=0),
}


class Compressed:
    """ASGI middleware: compresses each of these bodies once, and sends it to everybody who can take it.

    Gradio's own files are not even asked for again: their answers are kept whole.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._packed: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()
        self._files: OrderedDict[tuple[str, str], tuple[Message, Message]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = Headers(scope=scope) if scope["type"] == "http" and scope["method"] == "GET" else {}
        encoding = next((name for name in PACK if name in asked.get("accept-encoding", "")), None)
        if encoding is None or "range" in asked:
            await self.app(scope, receive, send)
        elif FILE.match(scope["path"]):
            await self._send_file(encoding, scope, receive, send)
        elif scope["path"].endswith(PATHS):
            await self.app(scope, receive, self._packing(encoding, {}, send))
        else:
            await self.app(scope, receive, send)

    async def _send_file(self, encoding: str, scope: Scope, receive: Receive, send: Send) -> None:
        key = encoding, scope["path"]
        if key in self._files:
            self._files.move_to_end(key)
            for message in self._files[key]:
                await send(dict(message))  # a copy: who sends it on may write into it
            return
        answer: list[Message] = []

        async def kept(message: Message) -> None:
            answer.append(message)
            await send(dict(message))

        await self.app(scope, receive, self._packing(encoding, FOR_GOOD, kept))
        start, body = answer
        if start["status"] == 200 and len(body["body"]) <= LARGEST_FILE:
            self._files[key] = start, body
            if len(self._files) > FILES_KEPT:
                self._files.popitem(last=False)

    def _packing(self, encoding: str, more_headers: dict[str, str], send: Send) -> Send:
        """A ``send`` that waits for the whole answer and passes it on in two messages, compressed where it pays."""
        start: Message = {}
        parts: list[bytes] = []

        async def gathered(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
                return
            parts.append(message.get("body", b""))
            if message.get("more_body"):
                return
            body = b"".join(parts)
            headers = MutableHeaders(raw=list(start["headers"]))
            if start["status"] == 200:
                headers.update(more_headers)
                if "content-encoding" not in headers and len(body) >= SMALLEST:
                    body = await self._pack(encoding, body)
                    headers["Content-Encoding"] = encoding
                    headers["Content-Length"] = str(len(body))
                    headers.add_vary_header("Accept-Encoding")
            await send({**start, "headers": headers.raw})
            await send({"type": "http.response.body", "body": body})

        return gathered

    async def _pack(self, encoding: str, body: bytes) -> bytes:
        key = encoding, blake2b(body, digest_size=16).digest()
        packed = self._packed.get(key)
        if packed is None:
            packed = await asyncio.to_thread(PACK[encoding], body)  # others are answered meanwhile
            self._packed[key] = packed
            if len(self._packed) > KEPT:
                self._packed.popitem(last=False)
        else:
            self._packed.move_to_end(key)
        return packed
