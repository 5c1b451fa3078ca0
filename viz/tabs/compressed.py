"""The page, its description and Plotly's script go out compressed, which Gradio leaves undone for the first two."""

from __future__ import annotations

import asyncio
import gzip
from collections import OrderedDict
from hashlib import blake2b

import brotli
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATHS = ("/", "/config", "/plotly.min.js")  # what a path ends with, whatever prefix a proxy puts before it
SMALLEST = 1000  # bytes worth the trouble
KEPT = 16  # compressed bodies; every visitor gets the same few
PACK = {
    "br": lambda body: brotli.compress(body, quality=5),
    "gzip": lambda body: gzip.compress(body, 6, mtime=0),
}


class Compressed:
    """ASGI middleware: compresses each of these bodies once, and sends it to everybody who can take it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._packed: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        taken = Headers(scope=scope).get("accept-encoding", "") if scope["type"] == "http" else ""
        encoding = next((name for name in PACK if name in taken), None)
        if encoding is None or scope["method"] != "GET" or not scope["path"].endswith(PATHS):
            await self.app(scope, receive, send)
            return
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
            if start["status"] == 200 and "content-encoding" not in headers and len(body) >= SMALLEST:
                body = await self._pack(encoding, body)
                headers["Content-Encoding"] = encoding
                headers["Content-Length"] = str(len(body))
                headers.add_vary_header("Accept-Encoding")
            await send({**start, "headers": headers.raw})
            await send({"type": "http.response.body", "body": body})

        await self.app(scope, receive, gathered)

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
