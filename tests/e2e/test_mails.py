"""A person chooses their mails in the browser, at a web process that has an SMTP server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.test_axe import look
from tests.e2e.visits import Visits, go
from tests.support.hub import RunningHub
from tests.support.web import web

pytestmark = pytest.mark.browser


@pytest.fixture
def visits(hub: RunningHub, browser: Browser) -> Iterator[Visits]:
    # Nobody listens there: no worker of this hub sends mails.
    server = {"TASKHUB_SMTP_URL": "smtp+plain://127.0.0.1:9", "PUBLIC_URL": "http://hub.example"}
    with web(hub, **server) as running:
        found = Visits(running, browser)
        yield found
        found.end()


def test_mails_are_chosen_and_the_pages_are_usable_for_everybody(visits: Visits) -> None:
    page = visits.of("approver")
    go(page, "/accounts/")
    assert look(page, "mails-account") == []
    page.get_by_role("link", name="Which mails, and when").click()
    expect(page.get_by_role("heading", name="Mails", exact=True)).to_be_visible()
    assert look(page, "mails-none") == []
    page.get_by_label("Address").fill("ada.of.the.long.name.that.never.ends@mail.department.example.com")
    page.get_by_label("Once a day").check()
    page.get_by_label("Time of the daily mail").fill("08:15")
    page.get_by_label("Quiet from").fill("22:00")
    page.get_by_label("Time zone").select_option("Europe/Berlin")
    visits.expected = {400}
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Quiet hours have a begin and an end, or neither.")).to_be_visible()
    expect(page.get_by_label("Quiet until")).to_be_focused()
    assert look(page, "mails-refused") == []
    page.get_by_label("Quiet until").fill("07:00")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("has a link that confirms it.")).to_be_visible()
    expect(page.get_by_label("Quiet from")).to_have_value("22:00")
    expect(page.get_by_label("Time zone")).to_have_value("Europe/Berlin")
    assert look(page, "mails-pending") == []
    go(page, "/accounts/mails/confirm/some-token")
    assert look(page, "mails-confirm") == []
    visits.expected = {400, 404}
    go(page, "/mails/stop/some-token")
    expect(page.get_by_text("This link ends no mails any more")).to_be_visible()
    assert look(page, "mails-stop") == []
