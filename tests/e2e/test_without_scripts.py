"""Everything that matters works in a browser that runs no scripts."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.e2e.test_journeys import LONG, PRODUCTION, waiting
from tests.e2e.visits import Visits
from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub

pytestmark = pytest.mark.browser


def test_sign_in_and_filter_the_list(visits: Visits, agent: Client) -> None:
    kept = agent.create("countdown", {"seconds": 0, "steps": 1})
    agent.tool("echo", {"text": "not this one"}, caps=TASKS)
    page = visits.window(java_script_enabled=False)
    visits.sign_in(page, "viewer", "/tasks/")
    page.get_by_label("Search").fill(kept)
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_label("Search")).to_have_value(kept)
    assert parse_qs(urlsplit(page.url).query) == {"q": [kept]}
    expect(page.locator("tbody tr")).to_have_count(1)
    page.locator(f"#row-{kept} a.row-link").click()
    expect(page.locator("#task .now .badge").first).to_have_text("Finished")
    page.get_by_role("navigation", name="About this task").get_by_role("link", name="Timeline").click()
    expect(page.locator("ol.moments").first).to_contain_text("by agent-a as a client")


def test_answer_a_form_with_every_kind_of_field(hub: RunningHub, visits: Visits, agent: Client) -> None:
    task = agent.create("survey", {}, caps=TASKS)
    page = visits.of("operator", java_script_enabled=False)
    page.goto(f"/inbox/{waiting(hub, task)}/")
    page.get_by_label("Name").fill("Ada")
    page.get_by_label("Email").fill("ada.example")
    page.get_by_label("Website").fill("https://example.com/ada")
    page.get_by_label("Team size").fill("12")
    page.get_by_label("Satisfaction").fill("9.5")
    page.get_by_label("Send me news").check()
    page.get_by_label("Start date").fill("2026-08-01")
    page.get_by_label("Meeting").fill("2026-08-02T09:30:15")
    page.get_by_role("group", name="Colour").get_by_label("Blue").check()
    page.get_by_role("group", name="Plan").get_by_label("Enterprise").check()
    for language in ("python", "rust"):
        page.get_by_role("group", name="Languages").get_by_label(language).check()
    page.get_by_role("group", name="Topics").get_by_label("Audit log").check()
    visits.expected.add(422)
    page.get_by_role("button", name="Send answer").click()

    email = page.locator(".field", has=page.get_by_label("Email"))
    expect(email.locator(".error")).to_be_visible()
    expect(page.locator(".field .error")).to_have_count(1)
    expect(page.get_by_label("Email")).to_have_attribute("aria-invalid", "true")
    for label, value in (
        ("Name", "Ada"),
        ("Email", "ada.example"),
        ("Website", "https://example.com/ada"),
        ("Team size", "12"),
        ("Satisfaction", "9.5"),
        ("Start date", "2026-08-01"),
        ("Meeting", "2026-08-02T09:30:15"),
    ):
        expect(page.get_by_label(label)).to_have_value(value)
    for group, label in (
        ("Colour", "Blue"),
        ("Plan", "Enterprise"),
        ("Languages", "python"),
        ("Languages", "rust"),
        ("Topics", "Audit log"),
    ):
        expect(page.get_by_role("group", name=group).get_by_label(label)).to_be_checked()
    expect(page.get_by_label("Send me news")).to_be_checked()

    page.get_by_label("Email").fill("ada@example.com")
    page.get_by_role("button", name="Send answer").click()
    expect(page.locator("#notices")).to_contain_text("Answered. The task continues.")
    assert agent.until(task, "completed")["result"]["structuredContent"] == {
        "action": "accept",
        "answers": {
            "name": "Ada",
            "email": "ada@example.com",
            "website": "https://example.com/ada",
            "team_size": 12,
            "satisfaction": 9.5,
            "subscribe": True,
            "start_date": "2026-08-01",
            "meeting_at": "2026-08-02T09:30:15Z",
            "color": "blue",
            "plan": "enterprise",
            "languages": ["python", "rust"],
            "topics": ["audit"],
        },
    }


def test_decide_an_approval(hub: RunningHub, visits: Visits, agent: Client) -> None:
    task = agent.create("deploy", PRODUCTION, caps=TASKS)
    approval = waiting(hub, task)
    page = visits.of("approver", java_script_enabled=False)
    page.goto("/inbox/")
    page.locator(f"#question-{approval}").click()
    page.get_by_role("button", name="Approve").click()
    expect(page.locator("#notices")).to_contain_text("Approved. The tool runs now.")
    expect(page.locator(f"#question-{approval}")).to_have_count(0)
    page.goto(f"/inbox/{approval}/")
    expect(page.locator("#question-state")).to_contain_text("Already approved by approver")
    agent.cancel(task)


def test_cancel_on_a_page_of_its_own(visits: Visits, agent: Client) -> None:
    task = agent.create("countdown", LONG)
    page = visits.of("operator", java_script_enabled=False)
    page.goto(f"/tasks/{task}/")
    page.get_by_role("link", name="Cancel …").click()
    page.wait_for_url(f"/tasks/{task}/cancel")
    page.get_by_role("button", name="Cancel the task").click()
    page.wait_for_url(f"/tasks/{task}/")
    assert agent.until(task, "cancelled")["status"] == "cancelled"
    page.reload()
    expect(page.locator("#task .now .badge").first).to_have_text("Cancelled")
