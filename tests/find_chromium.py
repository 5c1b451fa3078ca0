"""See to a Chromium for the browser tests, and to a font for Chinese: ``python tests/find_chromium.py``.

The system's is taken where it starts; else Playwright fetches its own; else, as root on Debian or Ubuntu, the
package is installed. Ends with status 1 and a sentence when none can be had.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome")  # as in tests/browser/conftest.py
CHROMIUM_PACKAGES = ("chromium", "chromium-sandbox", "fonts-liberation")
FONT_PACKAGES = ("fontconfig", "fonts-noto-cjk")


def starts(path: str | None) -> bool:
    """Whether there is a browser at ``path`` that runs: a file alone may lack the libraries it needs."""
    if not path:
        return False
    try:
        return subprocess.run([path, "--version"], capture_output=True, timeout=120).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def system_chromium() -> str | None:
    """The browser that ``GLASSFORMER_CHROMIUM`` names, or the first one on the PATH."""
    asked = os.environ.get("GLASSFORMER_CHROMIUM")
    return asked or next((path for path in map(shutil.which, NAMES) if path), None)


def own_chromium() -> str:
    """Where Playwright keeps a browser of its own, whether it is there or not."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        return playwright.chromium.executable_path


def fetch_own_chromium() -> None:
    subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=False)


def can_install_packages() -> bool:
    return bool(shutil.which("apt-get")) and getattr(os, "geteuid", lambda: 1)() == 0


def install_packages(*packages: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        subprocess.run(["apt-get", "-q", *command], check=False, env=environment)


def find_chromium() -> str | None:
    """The path of a browser that starts, after trying to get one; None when there is none to be had."""
    path = system_chromium()
    if starts(path):
        return path
    if os.environ.get("GLASSFORMER_CHROMIUM"):
        return None  # the tests would take it all the same
    # One on the PATH that does not start would be taken by the tests too, so Playwright's own cannot help then.
    if path is None:
        if not starts(own_chromium()):
            fetch_own_chromium()
        if starts(own_chromium()):
            return own_chromium()
    if can_install_packages():
        install_packages(*CHROMIUM_PACKAGES)
    path = system_chromium()
    return path if starts(path) else None


def shows_chinese() -> bool:
    """Whether a font for Chinese is installed. Where fontconfig is not, only Debian is thought to lack one."""
    if not shutil.which("fc-list"):
        return not shutil.which("apt-get")
    return bool(subprocess.run(["fc-list", ":lang=zh"], capture_output=True, text=True).stdout.strip())


def main() -> int:
    if not shows_chinese() and can_install_packages():
        install_packages(*FONT_PACKAGES)
    if not shows_chinese():
        print("No font for Chinese was found: screenshots will show boxes in its place.", file=sys.stderr)
    path = find_chromium()
    if path is None:
        print(
            "The browser tests need a Chromium that starts: install Chromium or Chrome so that `chromium` or "
            "`google-chrome` is on the PATH, or set GLASSFORMER_CHROMIUM to its path.",
            file=sys.stderr,
        )
        return 1
    print(f"Browser: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
