"""The console on a phone: what stands on the first screen, what a finger reaches, and what a refusal shows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.test_inbox import OPEN, deploys
from tests.e2e.visits import Visits, go
from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub, wait_until

pytestmark = pytest.mark.browser

PHONE: Final[dict[str, Any]] = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 2,
    "is_mobile": True,
    "has_touch": True,
}
"""The options of a browser that is a phone's."""


def top(found: Locator) -> float:
    """How far an element begins below the top of the screen, in CSS pixels."""
    # None while a hint has the element drawn anew.
    box = wait_until(found.bounding_box, "an element on the page")
    assert box is not None
    return box["y"]


def free(page: Page) -> tuple[float, float]:
    """Where the free part of the screen begins and ends, between the bar on top and the sticky buttons."""
    bar = page.locator(".topbar").bounding_box()
    assert bar is not None
    return bar["y"] + bar["height"], top(page.locator("#decision .form-actions"))


def test_a_card_begins_on_the_first_screen_and_filters_are_folded(
    hub: RunningHub, visits: Visits, agent: Client
) -> None:
    tasks, questions = deploys(hub, agent, 2)
    try:
        page = visits.of("approver", **PHONE)
        go(page, f"/inbox/{questions[0]}/")
        assert top(page.locator("#decision-title")) < 300
        expect(page.locator("#filters")).to_be_hidden()
        page.get_by_role("article").get_by_role("link", name="Inbox").tap()
        page.wait_for_url("**/inbox/")
        expect(page.locator(".inbox-list")).to_be_visible()
        assert top(page.locator(".inbox-list")) < 300
        tool = page.locator("#filters select[name=tool]")
        expect(tool).to_be_hidden()
        page.get_by_label("Filters").tap()
        tool.select_option("deploy")
        page.wait_for_url("**tool=deploy**")
        expect(tool).to_be_visible()
    finally:
        for task in tasks:
            agent.cancel(task)


def test_a_form_that_came_with_an_answer_sends_a_choice_at_once(hub: RunningHub, visits: Visits, agent: Client) -> None:
    tasks, questions = deploys(hub, agent, 3)
    try:
        page = visits.of("approver")
        go(page, f"/inbox/{questions[0]}/")
        page.locator("#decision").get_by_role("button", name="Approve").click()
        page.wait_for_url(f"**/inbox/{questions[1]}/")
        expect(page.get_by_role("button", name="Filter", exact=True)).to_be_hidden()
        page.get_by_label("Order").select_option(label="Newest")
        page.wait_for_url("**sort=**")
    finally:
        for task in tasks:
            agent.cancel(task)


def test_what_was_refused_is_in_sight(hub: RunningHub, visits: Visits, agent: Client) -> None:
    task = agent.create("survey", {}, caps=TASKS)
    asked = "SELECT question.id FROM question JOIN task ON task.id = task_id WHERE public_id = %s"
    wait_until(lambda: bool(hub.sql(asked, [task])), "the question")
    try:
        visits.expected.add(422)
        page = visits.of("approver", **PHONE)
        go(page, f"/inbox/{hub.sql(asked, [task])[0][0]}/")
        page.get_by_role("button", name="Send answer").tap()
        wrong = page.locator("[aria-invalid=true]").first
        expect(wrong).to_be_focused()
        begins, ends = free(page)
        box = wrong.bounding_box()
        assert box is not None
        assert (begins <= box["y"], box["y"] + box["height"] <= ends) == (True, True)
    finally:
        agent.cancel(task)


def test_a_finger_beside_the_box_selects_the_call(hub: RunningHub, visits: Visits, agent: Client) -> None:
    tasks, questions = deploys(hub, agent, 3)
    try:
        page = visits.of("approver", **PHONE)
        go(page, f"/inbox/{questions[0]}/alike")
        box = page.locator(f"#pick-{questions[1]}")
        box.scroll_into_view_if_needed()
        found = box.bounding_box()
        assert found is not None
        middle = found["x"] + found["width"] / 2, found["y"] + found["height"] / 2
        for across, down in ((-14, 0), (14, 0), (0, 14)):
            page.touchscreen.tap(middle[0] + across, middle[1] + down)
        expect(page.locator("[data-selected]")).to_have_text("1 of 3 selected")
        assert "/alike" in page.url
    finally:
        for task in tasks:
            agent.cancel(task)


def test_no_word_is_cut_or_covered_on_a_narrow_page(hub: RunningHub, visits: Visits) -> None:
    for width in (390, 320):
        page = visits.of("approver", **PHONE | {"viewport": {"width": width, "height": 844}})
        go(page, "/")
        for count in page.locator(".topbar .count").all():
            count.evaluate("count => { count.textContent = '20+'; }")
        boxes = [found.bounding_box() for found in page.locator(".topbar > *:visible").all()]
        for before, after in pairwise(boxes):
            assert before is not None
            assert after is not None
            assert before["x"] + before["width"] <= after["x"], width
        brand = page.locator(".topbar .brand")
        assert brand.evaluate("brand => brand.scrollWidth <= brand.clientWidth"), width
        for tile in page.locator(".tally > li").all():
            assert tile.evaluate("tile => tile.scrollWidth <= tile.clientWidth"), (width, tile.inner_text())
        go(page, "/accounts/")
        for button in page.locator("main .button:visible").all():
            place = button.bounding_box()
            assert place is not None
            assert place["x"] + place["width"] <= width - 16, button.inner_text()
        page.context.close()


def test_a_phone_does_not_enlarge_the_page_for_a_field(hub: RunningHub, visits: Visits) -> None:
    """iOS does so for letters below 16 pixels."""
    page = visits.of("approver", **PHONE)
    for path in ("/inbox/", "/tasks/", "/accounts/notifications/", "/accounts/away/"):
        go(page, path)
        small = page.evaluate("""() => [...document.querySelectorAll("input, select, textarea")]
            .filter((field) => !["checkbox", "radio", "hidden"].includes(field.type))
            .filter((field) => Number.parseFloat(getComputedStyle(field).fontSize) < 16).map((field) => field.name)""")
        assert small == [], path


def test_a_long_argument_stands_in_the_page_and_not_in_a_frame(hub: RunningHub, visits: Visits, agent: Client) -> None:
    call = {"service": "checkout", "environment": "production", "version": "7.9.9", "note": "line\n" * 80}
    task = agent.create("deploy", call, caps=TASKS)
    wait_until(lambda: len(hub.sql(OPEN, [[task]])) == 1, "the question")
    try:
        page = visits.of("approver", **PHONE)
        go(page, f"/inbox/{hub.sql(OPEN, [[task]])[0][0]}/")
        text = page.locator(".decision .args pre.code")
        expect(text).to_contain_text("line")
        assert text.evaluate("text => text.scrollHeight <= text.clientHeight + 1")
    finally:
        agent.cancel(task)
