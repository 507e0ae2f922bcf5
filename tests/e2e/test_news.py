"""The bell in a browser: it counts while one looks elsewhere, says so, opens in place, and leads to the card."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.test_axe import look
from tests.e2e.test_inbox import deploys
from tests.e2e.visits import Visits, go
from tests.support.client import Client
from tests.support.hub import RunningHub

pytestmark = pytest.mark.browser


def test_the_bell_counts_and_says_what_is_new_and_leads_to_the_card(
    hub: RunningHub, visits: Visits, agent: Client
) -> None:
    tasks: list[str] = []
    try:
        page = visits.of("approver")
        page.set_viewport_size({"width": 1440, "height": 900})
        first, _ = deploys(hub, agent, 1)
        tasks += first
        go(page, "/tasks/")
        bell = page.locator(".rail [data-bell]")
        expect(bell).to_contain_text("new")
        page.goto("/news/")
        page.get_by_role("button", name="Mark all as read").click()
        expect(page.locator("#news-list")).to_contain_text("Nothing new")
        go(page, "/tasks/")
        expect(bell).to_have_text("News")
        more, questions = deploys(hub, agent, 2)
        tasks += more
        expect(bell).to_contain_text("2 new")
        expect(page.locator("#said")).to_contain_text("News: deploy waits for you")
        bell.focus()
        page.keyboard.press("Enter")
        panel = page.get_by_role("dialog", name="News")
        expect(panel).to_be_visible()
        expect(bell).to_have_attribute("aria-expanded", "true")
        expect(panel.get_by_role("button", name="Mark all as read")).to_be_focused()
        assert look(page, "news-panel") == []
        page.set_viewport_size({"width": 1440, "height": 900})
        page.keyboard.press("Escape")
        expect(panel).to_be_hidden()
        expect(bell).to_be_focused()
        bell.click()
        expect(panel).to_be_visible()
        bell.click()
        expect(panel).to_be_hidden()
        bell.click()
        panel.get_by_role("button", name="Mark all as read").click()
        expect(bell).to_have_text("News")
        expect(panel).to_contain_text("Nothing new")
        panel.get_by_role("link").first.click()
        page.wait_for_url(re.compile(rf"/inbox/{questions[-1]}/"))
    finally:
        for task in tasks:
            agent.cancel(task)


def test_it_fits_the_narrowest_page_and_works_without_scripts(hub: RunningHub, visits: Visits, agent: Client) -> None:
    tasks, questions = deploys(hub, agent, 1)
    try:
        page = visits.of("approver")
        page.set_viewport_size({"width": 320, "height": 640})
        go(page, "/tasks/")
        page.locator(".topbar [data-bell]").click()
        panel = page.get_by_role("dialog", name="News")
        expect(panel.get_by_role("link").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
        box = panel.bounding_box()
        assert box is not None
        assert (box["x"] >= 0, box["x"] + box["width"] <= 320) == (True, True)
        plain = visits.of("approver", java_script_enabled=False)
        plain.goto("/tasks/")
        plain.locator(".rail [data-bell]").click()
        plain.wait_for_url("**/news/")
        plain.get_by_role("button", name="Mark all as read").click()
        expect(plain.get_by_text("Nothing new")).to_be_visible()
        plain.locator(f'a[href="/inbox/{questions[0]}/"]').click()
        plain.wait_for_url(f"**/inbox/{questions[0]}/")
    finally:
        for task in tasks:
            agent.cancel(task)
