"""A person calls a tool in the console: from the tool's page to the result, and past a rule that asks."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.visits import Visits, go
from tests.support.hub import RunningHub

pytestmark = pytest.mark.browser


def opened(hub: RunningHub, page: Page, tool: str) -> None:
    """The form of a tool, reached from its page."""
    [(server, number)] = hub.sql(
        "SELECT o.server_id, o.id FROM tool o JOIN server s ON s.id = o.server_id"
        " WHERE s.name = 'demo' AND o.name = %s ORDER BY o.id LIMIT 1",
        [tool],
    )
    go(page, f"/servers/{server}/?tool={number}")
    page.get_by_role("link", name="Try this tool").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Try {tool}")


def test_a_tool_is_called_by_keyboard_and_its_result_read(hub: RunningHub, visits: Visits) -> None:
    page = visits.of("operator")
    opened(hub, page, "echo")
    expect(page.get_by_label("Text")).to_be_focused()
    visits.expected.add(422)
    page.get_by_role("button", name="What would the rules say?").press("Enter")
    expect(page.locator(".field .error")).to_contain_text("is required")
    page.get_by_label("Text").focus()
    page.keyboard.type("from the console")
    page.get_by_role("button", name="What would the rules say?").press("Enter")
    expect(page.get_by_text("No rule matches: it runs without an approval.")).to_be_visible()
    expect(page.locator(".args")).to_contain_text("from the console")
    button = page.get_by_role("button", name="Call the tool")
    expect(button).to_be_focused()
    before = hub.sql("SELECT count(*) FROM task")
    button.dblclick()
    page.wait_for_url("**/tasks/*/")
    expect(page.locator("#task .now .badge").first).to_have_text("Finished")
    expect(page.locator("#task")).to_contain_text("from the console")
    expect(page.locator("#task")).to_contain_text("operator in the console")
    assert hub.sql("SELECT count(*) FROM task") == [(before[0][0] + 1,)]


@pytest.mark.parametrize("scripts", [True, False])
def test_a_rule_that_asks_is_told_first_and_then_asks(hub: RunningHub, visits: Visits, scripts: bool) -> None:
    page = visits.of("operator", java_script_enabled=scripts, viewport={"width": 320, "height": 800})
    if scripts:
        opened(hub, page, "deploy")
    else:
        [(server, number)] = hub.sql(
            "SELECT o.server_id, o.id FROM tool o JOIN server s ON s.id = o.server_id"
            " WHERE s.name = 'demo' AND o.name = 'deploy' ORDER BY o.id LIMIT 1"
        )
        page.goto(f"/servers/{server}/?tool={number}")
        page.get_by_role("link", name="Try this tool").click()
    page.get_by_label("Service").fill("checkout")
    page.get_by_label("Version").fill(f"1.0.{int(scripts)}")
    page.get_by_role("group", name="Environment").get_by_label("production").check()
    page.get_by_role("button", name="What would the rules say?").click()
    expect(page.get_by_text("It waits until 1 of ops approves it.")).to_be_visible()
    expect(page.locator("tr.decides")).to_contain_text("Production deploys")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.get_by_role("button", name="Back", exact=True).click()
    expect(page.get_by_label("Service")).to_have_value("checkout")
    page.get_by_role("button", name="What would the rules say?").click()
    page.get_by_role("button", name="Call the tool").click()
    page.wait_for_url("**/tasks/*/")
    task = page.url.rstrip("/").rpartition("/")[2]
    expect(page.locator("#task .now .badge").first).to_contain_text(re.compile("approval|Waits|person", re.IGNORECASE))
    boss = visits.of("approver")
    go(boss, f"/inbox/task/{task}/")
    expect(boss.locator("main")).to_contain_text("operator in the console")
    boss.get_by_role("button", name="Approve", exact=True).click()
    expect(boss.get_by_text("Approved").first).to_be_visible()
    if not scripts:
        return
    # The tool asks for a confirmation then, which the person who called it may give.
    expect(page.locator("#task")).to_contain_text("for an answer by a person")
