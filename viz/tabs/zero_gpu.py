"""Hugging Face ZeroGPU Spaces lend a GPU to one call at a time, through the ``spaces`` package. Elsewhere: nothing."""

from __future__ import annotations

import importlib.util
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

HAS_SPACES = importlib.util.find_spec("spaces") is not None


def on_gpu(handler: Callable, seconds: int = 60) -> Callable:
    """``handler`` wrapped by ``spaces.GPU`` for at most ``seconds``, or as it is where there is no such package.

    On a ZeroGPU Space the handler then runs in a forked process: what goes in and comes out must be picklable.
    """
    if not HAS_SPACES:
        return handler
    import spaces

    return spaces.GPU(handler, duration=seconds)


class FileFlag:
    """``threading.Event`` for two processes: the flag is set when a file exists."""

    def __init__(self) -> None:
        self._path = Path(tempfile.gettempdir()) / f"glassformer-stop-{uuid4().hex}"

    def set(self) -> None:
        """Raise the flag."""
        self._path.touch()

    def is_set(self) -> bool:
        """Whether the flag was raised."""
        return self._path.exists()

    def clear(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)


def stop_flag() -> threading.Event | FileFlag:
    """A flag that the process in which an ``on_gpu`` handler runs can see."""
    return FileFlag() if HAS_SPACES else threading.Event()
