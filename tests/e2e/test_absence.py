"""A person goes away in the browser, and comes back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.test_axe import look
from tests.e2e.visits import Visits, go
from tests.support.hub import RunningHub

pytestmark = pytest.mark.browser


@pytest.fixture
def visits(hub: RunningHub, browser: Browser) -> Iterator[Visits]:
    found = Visits(hub, browser)
    yield found
    found.end()


def test_a_person_goes_away_and_comes_back_on_pages_usable_for_everybody(visits: Visits) -> None:
    page = visits.of("approver")
    go(page, "/accounts/")
    page.get_by_role("link", name="Say when you are away").click()
    assert look(page, "absence") == []
    visits.expected = {400}
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Give a date and a time.")).to_be_visible()
    assert look(page, "absence-refused") == []
    visits.expected = set()
    page.get_by_label("Away until").fill("2999-01-01T08:00")
    visits.expected = {400}
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Give a time in the future")).to_be_visible()
    page.evaluate("""() => {
        const later = new Date(Date.now() + 3 * 86400 * 1000).toISOString().slice(0, 16);
        document.querySelector('[name=until]').value = later;
    }""")
    page.get_by_label("Deputy").select_option(index=1)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("decides for you until then")).to_be_visible()
    assert look(page, "absence-account") == []
    page.get_by_role("button", name="I am back").click()
    expect(page.get_by_text("You are here.")).to_be_visible()
