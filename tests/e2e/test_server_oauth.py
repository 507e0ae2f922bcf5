"""An admin and a person authorize a server by OAuth, in a browser that goes to its authorization server and back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.test_axe import look
from tests.e2e.visits import Visits, go
from tests.support.client import TASKS, Client
from tests.support.guarded import Guarded
from tests.support.hub import EXTRA, RunningHub
from tests.support.person import Person

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    """The server, whose authorization server sends everybody back at once: they are signed in there as `account`."""
    with Guarded() as server:
        yield server


@pytest.fixture(scope="module")
def hub() -> Iterator[RunningHub]:
    running = RunningHub(servers=(EXTRA,), TASKHUB_OAUTH_LOCAL_SERVERS="True", TASKHUB_OAUTH_REGISTRATION="True")
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def visits(hub: RunningHub, browser: Browser) -> Iterator[Visits]:
    found = Visits(hub, browser)
    yield found
    found.end()


def added(hub: RunningHub, guarded: Guarded, name: str, way: str) -> str:
    """The path of the page of the server under this name."""
    hub.manage("server", "add", f"{name}={guarded.base}/mcp", "--prefix", name, "--oauth", way)
    ((server,),) = hub.sql("SELECT id FROM server WHERE name = %s", [name])
    return f"/servers/{server}/"


def go_on(page: Page, guarded: Guarded, account: str) -> None:
    """From the page that shows where it leads, to the authorization server and back."""
    guarded.account = account
    expect(page.get_by_text("Go on only if you know that host.")).to_be_visible()
    page.get_by_role("link", name=f"Go on to {guarded.base.removeprefix('http://')}").click()


def test_an_admin_authorizes_a_server_for_all_and_takes_that_back(
    hub: RunningHub, visits: Visits, guarded: Guarded
) -> None:
    path, page = added(hub, guarded, "all", "shared"), visits.of("admin")
    go(page, path)
    expect(page.get_by_text("Nobody has authorized it yet.")).to_be_visible()
    page.get_by_role("button", name="Authorize", exact=True).click()
    assert look(page, "authorize") == []
    page.get_by_role("link", name="Back").click()
    page.wait_for_url(path)
    page.get_by_role("button", name="Authorize", exact=True).click()
    go_on(page, guarded, "acme")
    page.wait_for_url(path)
    expect(page.get_by_text("all is authorized.")).to_be_visible()
    expect(page.get_by_role("row", name="everyone")).to_contain_text("Good")
    expect(page.locator(".tool-list li", has_text="whoami")).to_be_visible()
    assert look(page, "authorized") == []
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("The authorization is revoked.")).to_be_visible()
    assert guarded.revoked


def test_a_person_authorizes_a_server_for_their_program_when_a_call_needs_it(
    hub: RunningHub, visits: Visits, guarded: Guarded
) -> None:
    path, admin = added(hub, guarded, "own", "each"), visits.of("admin")
    go(admin, path)
    admin.get_by_role("button", name="Authorize for its lists").click()
    go_on(admin, guarded, "lists")
    expect(admin.locator(".tool-list li", has_text="whoami")).to_be_visible()
    ((tool,),) = hub.sql(
        "SELECT exposed_name FROM tool t JOIN server s ON s.id = t.server_id WHERE s.name = 'own' AND t.name = 'whoami'"
    )
    with Person(hub, "operator") as person, Client(hub.base, person.program("Notebook")) as program:
        caps = {**TASKS, "elicitation": {"url": {}}}
        asked = program.tool(tool, caps={"elicitation": {"url": {}}}).result
        (request,) = asked["inputRequests"].values()
        page = visits.of("operator")
        go(page, request["params"]["url"])
        expect(page.get_by_role("heading", name="Authorize its server?")).to_be_visible()
        expect(page.get_by_text("You authorize it for the programs that act for you")).to_be_visible()
        assert look(page, "authorize-for-call") == []
        page.get_by_role("button", name="Authorize").click()
        go_on(page, guarded, "operators-own")
        page.wait_for_url("**/tasks/*/")
        expect(page.get_by_text("Calls that waited for it and go on: 1.")).to_be_visible()
        expect(page.get_by_text("operators-own").first).to_be_visible()
        assert guarded.called == ["operators-own"]
        assert program.tool(tool, caps=caps).result
