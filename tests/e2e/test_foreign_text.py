"""What a page shows of text that tries to be read as something else, measured in the browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.e2e.visits import Visits, go
from tests.support.client import TASKS, Client

pytestmark = pytest.mark.browser

STAGING = {"service": "checkout", "version": "1.4.2", "environment": "staging"}
# Where each letter of the element's text was drawn, in stored order. Marks are one letter each.
PLACES = """(element) => {
    const range = document.createRange();
    const found = [];
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        for (let at = 0; at < walker.currentNode.length; at++) {
            range.setStart(walker.currentNode, at);
            range.setEnd(walker.currentNode, at + 1);
            const box = range.getBoundingClientRect();
            if (box.width) found.push([walker.currentNode.data[at], box.left, box.top]);
        }
    }
    return found;
}"""


@pytest.mark.parametrize("view", ["summary", "list"])
def test_text_that_turns_itself_around_is_read_in_stored_order(visits: Visits, agent: Client, view: str) -> None:
    task = agent.create("deploy", {**STAGING, "service": "invoice\u202efdp.exe"}, caps=TASKS)
    page = visits.of("viewer")
    go(page, f"/tasks/{task}/" if view == "summary" else "/tasks/")
    line = page.locator(".args dd").first if view == "summary" else page.locator(f"#row-{task} .args")
    expect(line.locator(".sign")).to_have_text("U+202E")
    expect(line.get_by_role("img", name="U+202E right-to-left override")).to_be_visible()
    places = line.evaluate(PLACES)
    text = "".join(letter for letter, _, _ in places)
    assert "invoiceU+202Efdp.exe" in text
    lefts = [left for _, left, _ in places]
    assert lefts == sorted(lefts), "drawn from left to right, as stored"


def test_text_from_right_to_left_stays_among_itself(visits: Visits, agent: Client) -> None:
    """A Hebrew value before our own words does not pull them to its other side."""
    task = agent.create("deploy", {**STAGING, "service": "\u05d0\u05d1\u05d2"}, caps=TASKS)
    page = visits.of("viewer")
    go(page, f"/tasks/{task}/")
    value = page.locator(".args dd bdi").first
    expect(value).to_have_text("\u05d0\u05d1\u05d2")
    assert value.evaluate("(element) => getComputedStyle(element).unicodeBidi") == "isolate"
    lefts = [left for _, left, _ in value.evaluate(PLACES)]
    assert lefts == sorted(lefts, reverse=True)
