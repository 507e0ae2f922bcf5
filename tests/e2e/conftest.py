"""Real Chromium in front of a real hub."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.e2e.visits import DEPLOYS, Visits, go
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
    # A test makes a tenant of its own there, with rules of its own.
    server, tool = plain_hub.demo_tool("deploy")
    [(tenant,)] = plain_hub.sql("SELECT tenant_id FROM server WHERE id = %s", [server])
    newest = "SELECT rules::text FROM rule_version WHERE tenant_id = %s ORDER BY number DESC LIMIT 1"
    listed = plain_hub.sql(newest, [tenant])
    if listed and DEPLOYS["name"] in listed[0][0]:
        return plain_hub
    errand = Visits(plain_hub, browser)
    page = errand.of("admin")
    go(page, f"/servers/{server}/?tool={tool}")
    page.get_by_role("link", name="Write a rule for this tool").click()
    page.get_by_label("Name", exact=True).fill(DEPLOYS["name"])
    page.get_by_label("Argument", exact=True).fill("environment")
    page.get_by_label("Comparison").select_option("is like")
    page.get_by_label("Value", exact=True).fill("production")
    page.get_by_role("button", name="Add to the expression").click()
    expect(page.get_by_label("When", exact=True)).to_have_value(re.compile('like\\(args.environment, "production"\\)$'))
    page.get_by_label("Group (optional)").fill(DEPLOYS["group"])
    page.get_by_label("Arguments that may be edited").fill("version")
    page.get_by_role("button", name="Save rule").click()
    expect(page.get_by_text("saved: version")).to_be_visible()
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
