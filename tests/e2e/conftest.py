"""Real Chromium in front of a real hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.e2e.visits import Visits, go
from tests.support.client import Client
from tests.support.hub import RunningHub
from tests.support.needed import program

# The headless shell first: the same engine without a desktop's windows, for a third less of the processors' time.
PLACES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DEMO = "python:taskhub.demo.server:server"
# Two at once for each agent: a third task shows what a queued one looks like.
RUNNING = "2"


@pytest.fixture(scope="session")
def chromium() -> Path:
    """The browser's binary. Without one the tests are skipped, or fail where it is said to be needed."""
    return program("Chromium", *PLACES)


# Per package: while Playwright's own event loop is there, no other test could run one. `tests/workers.py` has these
# files follow each other.
@pytest.fixture(scope="package")
def browser(chromium: Path) -> Iterator[Browser]:
    """A running browser."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        try:
            yield running
        finally:
            running.close()


@pytest.fixture(scope="session")
def plain_hub(chromium: Path) -> Iterator[RunningHub]:
    """The hub of the session, with the demo server behind it and no policy set."""
    running = RunningHub(servers=(DEMO,), TASKHUB_CONTEXT_RUNNING=RUNNING)
    try:
        yield running
    finally:
        print(running.log.read_text())
        running.stop()


@pytest.fixture(scope="module")
def hub(plain_hub: RunningHub, browser: Browser) -> RunningHub:
    """The hub after the administrator's first errand: deployments to production need an approval."""
    [(server, tool, approval)] = plain_hub.sql("SELECT server_id, id, approval FROM tool WHERE name = 'deploy'")
    if approval:
        return plain_hub
    errand = Visits(plain_hub, browser)
    page = errand.of("admin")
    go(page, f"/servers/{server}/?tool={tool}")
    page.get_by_label("Require approval before the tool runs").check()
    page.get_by_label("Further argument 1").fill("environment")
    page.get_by_label("Further value 1").fill("production")
    page.get_by_label("Group that approves").fill("ops")
    page.get_by_role("button", name="Save policy").click()
    expect(page.get_by_label("Argument 1", exact=True)).to_have_value("environment")
    expect(page.locator(".tool-list li", has_text="deploy")).to_contain_text("Approval")
    errand.end()
    return plain_hub


@pytest.fixture
def visits(hub: RunningHub, browser: Browser) -> Iterator[Visits]:
    """Windows for this test; see `Visits`."""
    found = Visits(hub, browser)
    yield found
    found.end()


@pytest.fixture
def agent(hub: RunningHub) -> Iterator[Client]:
    """The client `agent-a`."""
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        yield client
