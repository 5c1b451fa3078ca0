"""One server and one browser for all browser tests; any trouble on a page fails its test.

Use ``page`` for the plain page, which tests hand on from one to the next unless they are marked ``first_visit``,
``open_page(width=, lang=, dark=, query=)`` for any other, ``settle(page)`` after an action that asks the server, and
``open_tab(page, name)`` from ``browser.visit``.
The browser is the one ``tests/find_chromium.py`` sees to; Playwright's own where there is no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, sync_playwright

from browser.server import REPOSITORY, Server
from browser.visit import Visit
from find_chromium import system_chromium

SCREENSHOTS = REPOSITORY / "tests" / "screenshots"
BROWSER_ARGUMENTS = [
    "--no-sandbox",  # containers and CI run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Nothing but this machine can be reached, so a page that needs anything else cannot work in these tests.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server that all tests share which need no limits of their own."""
    server = Server(tmp_path_factory.mktemp("server"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def server_url(shared_server: Server) -> str:
    return shared_server.url


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """For contexts of one's own, each like the first visit of somebody new."""
    browser = playwright.chromium.launch(executable_path=system_chromium(), args=BROWSER_ARGUMENTS)
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def profile(playwright: Playwright, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """The browser of somebody who comes again: with what it has kept on disk, a page opens in 3/5 of the time."""
    context = playwright.chromium.launch_persistent_context(
        tmp_path_factory.mktemp("profile"),
        executable_path=system_chromium(),
        args=BROWSER_ARGUMENTS,
        locale="en-US",
        reduced_motion="reduce",
    )
    yield context
    context.close()


@pytest.fixture(scope="session")
def kept_visits(profile: BrowserContext) -> Iterator[list[Visit]]:
    """The visit that tests hand on, if there is one: opening a page costs ten times as much as going on with it."""
    visits: list[Visit] = []
    yield visits
    for visit in visits:
        visit.close()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start a server with an environment of its own: ``own_server(GLASSFORMER_AUTH="name:password")``."""
    servers: list[Server] = []

    def start(**environment: str) -> Server:
        folder = tmp_path / f"server-{len(servers)}"
        folder.mkdir()
        servers.append(Server(folder, **environment))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def new_context(browser: Browser) -> Iterator[Callable[[], BrowserContext]]:
    """``new_context()`` is the browser of somebody else."""
    contexts: list[BrowserContext] = []

    def new_context_() -> BrowserContext:
        contexts.append(browser.new_context(locale="en-US"))
        return contexts[-1]

    yield new_context_
    for context in contexts:
        context.close()


@pytest.fixture
def visits(
    shared_server: Server, kept_visits: list[Visit], request: pytest.FixtureRequest
) -> Iterator[list[Visit]]:
    """The visits of one test. Closes them and fails on anything that went wrong on a page or in the server's log."""
    shared_server.new_log()
    visits: list[Visit] = []
    yield visits
    if request.node.stash.get(_failed, False):
        SCREENSHOTS.mkdir(exist_ok=True)
        for i, visit in enumerate(visits):
            visit.page.screenshot(path=SCREENSHOTS / f"failed-{request.node.name[:80].replace('/', '-')}-{i}.png")
    if request.node.stash.get(_failed, False) or any(visit.problems for visit in kept_visits):
        kept_visits.clear()  # nothing is handed on from a test that failed
    for visit in visits:
        if visit not in kept_visits:
            visit.close()
    problems = [problem for visit in visits for problem in visit.problems]
    log = shared_server.new_log()
    if "Traceback" in log:
        problems.append(f"the server printed a traceback:\n{log}")
    assert not problems, f"{len(problems)} problems on the page:\n" + "\n".join(problems)


@pytest.fixture
def open_page(
    profile: BrowserContext, new_context: Callable[[], BrowserContext], server_url: str, visits: list[Visit]
) -> Callable[..., Page]:
    """Open the page, wait until it is drawn and settled, and watch it to the test's end.

    A second page of the same test is opened in another browser than the first.

    ``open_page(width=390, lang="zh", dark=True, query={"text": "3 1 7"}, height=900, url=another_server.url)``
    """

    def open_(
        *,
        width: int = 1440,
        height: int = 900,
        lang: str = "en",
        dark: bool = False,
        query: dict[str, str] | None = None,
        url: str = server_url,
    ) -> Page:
        context = new_context() if visits else profile
        visit = Visit(context, url, lang=lang, dark=dark, width=width, height=height, query=query or {})
        visits.append(visit)
        return visit.page

    return open_


@pytest.fixture
def page(
    open_page: Callable[..., Page], visits: list[Visit], kept_visits: list[Visit], request: pytest.FixtureRequest
) -> Page:
    """The plain page: English, light, 1440 px wide, its first example decoded, the first tab open.

    Earlier tests have used it, and what they chose on other tabs is as they left it: a test sets what it leans on.
    Marked ``first_visit`` it gets a page of its own, as it must if it leaves behind what ``Visit.start_over`` does not
    bring back.
    """
    if request.node.get_closest_marker("first_visit"):
        return open_page()
    if kept_visits:
        visits.append(kept_visits[0])
        kept_visits[0].start_over()
    else:
        open_page()
        kept_visits.append(visits[0])
    return kept_visits[0].page


@pytest.fixture
def settle(visits: list[Visit]) -> Callable[[Page], None]:
    """``settle(page)`` waits until the server owes the page nothing and the page is drawn."""

    def settle_(page: Page) -> None:
        next(visit for visit in visits if visit.page is page).settle()

    return settle_


_failed = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    """Remember a failure, so that the fixture can take a picture of the page as it was."""
    report = yield
    if report.when == "call":
        item.stash[_failed] = report.failed
    return report
