"""One line of JSON for each thing that was asked for: what, how long, where, how it ended. Never what a visitor wrote.

``{"time": ..., "action": "decode", "outcome": "ok", "ms": 31, "wait_ms": 2, "device": "cpu"}``; ``wait_ms`` is the time
in the queue before. ``outcome`` is ``ok``, ``refused`` (with ``code``: the input cannot be used, or the queue is full),
``failed`` (with ``error``: a mistake of ours), ``left`` (the visitor went away meanwhile), ``cancelled``, or for a
training how it ended.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import TextIO

import gradio as gr

log = logging.getLogger("glassformer.actions")
log.propagate = False  # a line is for machines and stands alone
log.setLevel(logging.CRITICAL + 1)  # until somebody wants it
# Of the action under way. A dict, so that what a handler's thread notes is seen here: threads get the same one.
_facts: ContextVar[dict | None] = ContextVar("facts_of_the_action", default=None)


def write_actions(stream: TextIO) -> None:
    """From now on, a line for each action goes to ``stream``."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)


def note(**facts: object) -> None:
    """Add to what will be written of the action under way; nothing where there is none."""
    noted = _facts.get()
    if noted is not None:
        noted.update(facts)


def write(action: str, *, outcome: str, ms: float, wait_ms: float = 0.0, device: str = "cpu", **more: object) -> None:
    """Write one line. ``more`` must be numbers and names of ours."""
    if not log.isEnabledFor(logging.INFO):
        return
    line = {
        "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        "action": action,
        "outcome": outcome,
        "ms": round(ms, 1),
        "wait_ms": round(wait_ms, 1),
        "device": device,
        **more,
    }
    log.info(json.dumps(line))


@contextmanager
def action(name: str, wait_ms: float = 0.0) -> Iterator[None]:
    """What happens inside is one action, and is written when it ends. Inside another one it is a part of that."""
    is_part = _facts.get() is not None
    token = None if is_part else _facts.set({})
    started = time.perf_counter()
    try:
        yield
    except asyncio.CancelledError:
        note(outcome="cancelled")
        raise
    except gr.Error:  # said to the caller in words
        facts = _facts.get()
        facts.setdefault("outcome", "refused")
        raise
    except Exception as error:
        note(outcome="failed", error=type(error).__name__)  # its message may quote the visitor
        raise
    finally:
        if token is not None:
            facts = {"outcome": "ok", **_facts.get()}
            _facts.reset(token)
            write(name, ms=1000 * (time.perf_counter() - started), wait_ms=wait_ms, **facts)
