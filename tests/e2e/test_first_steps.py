"""The overview of an empty hub: its first steps tick themselves off, and give way to the first task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.conftest import DEMO
from tests.e2e.visits import Visits, go
from tests.support.hub import RunningHub

pytestmark = pytest.mark.browser


@pytest.fixture
def empty(chromium: Path) -> Iterator[RunningHub]:
    """A hub without a server, and without a token in use."""
    running = RunningHub(servers=())
    try:
        running.sql("UPDATE access_token SET revoked_at = now()")
        yield running
    finally:
        running.stop()


def test_first_steps_tick_themselves_off_while_one_looks(empty: RunningHub, browser: Browser) -> None:
    visits = Visits(empty, browser)
    watched, page = visits.of("admin"), visits.of("admin")
    go(watched, "/")
    done = watched.locator(".steps li.done b")
    expect(watched.locator(".steps li")).to_have_count(3)
    expect(done).to_have_count(0)

    go(page, "/")
    page.get_by_role("link", name="Add one").click()
    page.get_by_role("link", name="Add server").first.click()
    page.get_by_label("Name", exact=True).fill("demo")
    page.get_by_label("Address or command").fill(DEMO)
    page.get_by_role("button", name="Add server").click()
    expect(done).to_have_text(["Connect a server"])

    go(page, "/")
    page.get_by_role("link", name="Issue one").click()
    page.get_by_role("link", name="New client").first.click()
    page.get_by_label("Name", exact=True).fill("first-agent")
    page.get_by_role("button", name="Issue token").click()
    expect(done).to_have_text(["Connect a server", "Give a client a token"])

    go(page, "/")
    page.get_by_role("link", name="choose a server’s tool").click()
    page.get_by_role("link", name="demo", exact=True).click()
    page.get_by_role("link", name="echo", exact=True).click()
    page.get_by_role("link", name="Try this tool").click()
    page.get_by_label("Text").fill("the first call")
    page.get_by_role("button", name="What would the rules say?").click()
    page.get_by_role("button", name="Call the tool").click()
    page.wait_for_url("**/tasks/*/")
    expect(watched.get_by_text("Three steps to your first task")).to_have_count(0)
    expect(watched.locator("a.row-link").first).to_contain_text("echo")
    visits.end()
