"""The app as a process of its own on a free loopback port, with its log."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
START_SECONDS = 300  # for machines with more to do than these tests; an idle one needs 5
STOP_SECONDS = 30

# A proxy in the environment must not be asked for the loopback address.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """``python app.py``, started when made. ``environment`` adds to ours, less all ``GLASSFORMER_*`` of ours.

    ``program`` is what Python runs in its place; it listens on the port that ``GLASSFORMER_PORT`` names.
    """

    def __init__(self, folder: Path, *, program: Sequence[str] = ("app.py",), **environment: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log_file = folder / "server.log"
        self._log_read = 0
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("GLASSFORMER_")}
        with self._log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, *program],
                cwd=REPOSITORY,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={
                    **inherited,
                    "PYTHONUNBUFFERED": "1",
                    "NO_PROXY": "127.0.0.1,localhost",
                    "no_proxy": "127.0.0.1,localhost",
                    "GRADIO_TEMP_DIR": str(folder / "uploads"),
                    "GLASSFORMER_PORT": str(self.port),
                    **environment,
                },
            )
        self._wait_until_it_answers()

    @property
    def pid(self) -> int:
        return self._process.pid

    def log(self) -> str:
        """Everything the server has printed."""
        return self._log_file.read_text(encoding="utf-8", errors="replace")

    def new_log(self) -> str:
        """What the server has printed since this was last asked."""
        log = self.log()
        new, self._log_read = log[self._log_read :], len(log)
        return new

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise AssertionError(f"the server ended with {self._process.returncode}:\n{self.log()}")
            try:
                with _direct.open(f"{self.url}/", timeout=5):
                    return
            except OSError as error:
                if getattr(error, "code", None) == 401:  # it asks for a login, so it answers
                    return
                time.sleep(0.2)
        self._process.kill()
        raise AssertionError(f"the server did not answer within {START_SECONDS} s:\n{self.log()}")

    def stop(self) -> None:
        """End it by SIGTERM. Raises AssertionError unless it ends by that, in time, with no traceback left unread."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"the server did not end within {STOP_SECONDS} s of SIGTERM:\n{self.log()}") from None
        # 0: a handler ended it; -15: the signal itself did.
        assert code in (0, -signal.SIGTERM), f"the server ended with {code}:\n{self.log()}"
        log = self.new_log()
        assert "Traceback" not in log, log
