"""The command palette by the keyboard."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.e2e.test_inbox import APPROVED, deploys
from tests.e2e.visits import Visits, go
from tests.support.client import Client
from tests.support.hub import RunningHub

pytestmark = pytest.mark.browser


def test_it_opens_pages_and_finds_actions_but_presses_none(hub: RunningHub, visits: Visits, agent: Client) -> None:
    tasks, (question,) = deploys(hub, agent, 1)
    try:
        page = visits.of("approver")
        go(page, "/")
        box, chosen = page.get_by_role("combobox", name="Go to a page"), page.locator("#palette [aria-selected]")
        page.keyboard.press("Control+k")
        expect(box).to_be_focused()
        page.keyboard.type("zzz")
        expect(page.locator("#palette [role=status]")).to_have_text("Nothing matches.")
        page.keyboard.press("Escape")
        expect(box).to_be_hidden()
        page.keyboard.press("Control+k")
        page.keyboard.type("inbox")
        expect(chosen).to_contain_text("Inbox")
        expect(box).to_have_attribute("aria-activedescendant", chosen.get_attribute("id") or "")
        page.keyboard.press("ArrowDown")
        expect(chosen).to_have_text("Inbox: all open")
        page.keyboard.press("Enter")
        page.wait_for_url("/inbox/?queue=all")
        go(page, f"/inbox/{question}/")
        page.keyboard.press("Control+k")
        page.keyboard.type("approve")
        expect(chosen).to_contain_text("Approve")
        page.keyboard.press("Enter")
        expect(page.locator("[data-key=a]")).to_be_focused()
        assert hub.sql(APPROVED, [[question]]) == [(0,)]
        page.keyboard.press("Control+k")
        expect(page.locator("#palette").get_by_role("option", name="Settings")).to_have_count(0)
    finally:
        for task in tasks:
            agent.cancel(task)
