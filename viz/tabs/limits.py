"""How much anybody may send and keep on the server's disk: checked before it is read or written."""

from __future__ import annotations

import os
from pathlib import Path

from fastapi import HTTPException
from gradio.processing_utils import save_bytes_to_cache
from gradio.utils import get_upload_folder
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transformer.errors import InputError
from viz.tabs.action_log import write
from viz.tabs.language import language_of_browser, say

MEGABYTE = 1_000_000
LARGEST_UPLOAD = 20  # MB a file, both files of a model together
# MB of any other request. The largest that the page sends is a million characters of pairs, each at most 6 bytes.
LARGEST_REQUEST = 8
MOST_SWALLOWED = 200  # MB of a refused one that are taken in so that its sender hears why
UPLOAD = "/upload"


def largest_folder() -> int:
    """Bytes that the files made for visitors and sent by them may have together."""
    return int(float(os.environ.get("GLASSFORMER_DISK_MB") or 1000) * MEGABYTE)


def has_room(n_bytes: int) -> bool:
    """Whether so many bytes more still fit into the folder for visitors' files, which is emptied by age."""
    return _size(Path(get_upload_folder())) + n_bytes <= largest_folder()


def _size(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_size
            except OSError:  # deleted meanwhile
                continue
    return total


def keep_for_download(content: bytes, name: str, folder: str) -> str:
    """Write a file that a visitor may fetch, straight into Gradio's cache, which is emptied by age; its path.

    Raises InputError when there is no room for it.
    """
    if not has_room(len(content)):
        raise InputError("disk_full")
    try:
        return save_bytes_to_cache(content, name, folder)
    except OSError:
        raise InputError("disk_full") from None


class RequestLimits:
    """ASGI middleware: refuses a body that is too large, without reading it where its length is told, and a file
    that there is no room for."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in ("POST", "PUT", "PATCH"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        language = language_of_browser(headers.get("accept-language"))
        is_upload = scope["path"].endswith(UPLOAD)
        # A form has some bytes besides its files, and Gradio itself checks the size of each.
        limit = 2 * LARGEST_UPLOAD if is_upload else LARGEST_REQUEST
        told = headers.get("content-length", "")
        length = int(told) if told.isascii() and told.isdigit() else None
        refusal = None
        if length is not None and length > limit * MEGABYTE:
            refusal = 413, "request_too_large", {"limit": limit}
        elif is_upload and not has_room(length or LARGEST_UPLOAD * MEGABYTE):
            refusal = 507, "no_room_for_file", {}
        if refusal is None:
            await self.app(scope, _bounded(receive, limit, language), send)
            return
        status, code, values = refusal
        write("request" if not is_upload else "upload", outcome="refused", ms=0.0, code=code)
        await _swallow(receive)  # who is still sending cannot hear an answer
        # The connection is not kept: beyond what was swallowed, nothing more of it is wanted.
        answer = JSONResponse(
            {"detail": say(language, f"hosting.{code}", **values)}, status, headers={"Connection": "close"}
        )
        await answer(scope, receive, send)


async def _swallow(receive: Receive) -> None:
    """Take in a refused body, up to a bound, and keep nothing of it."""
    n_bytes, more = 0, True
    while more and n_bytes < MOST_SWALLOWED * MEGABYTE:
        message = await receive()
        n_bytes += len(message.get("body", b""))
        more = message["type"] == "http.request" and message.get("more_body", False)


def _bounded(receive: Receive, limit: int, language: str) -> Receive:
    """``receive``, but for a body that tells no length and grows beyond ``limit`` MB."""
    n_bytes = 0

    async def bounded() -> Message:
        nonlocal n_bytes
        message = await receive()
        n_bytes += len(message.get("body", b""))
        if n_bytes > limit * MEGABYTE:
            raise HTTPException(413, say(language, "hosting.request_too_large", limit=limit))
        return message

    return bounded
