"""A person chooses what they are told in the browser, at a web process that has an SMTP server."""

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
    server |= {"TASKHUB_SLACK_BOT_TOKEN": "xoxb-1", "TASKHUB_SLACK_APP_TOKEN": "xapp-1"}
    with web(hub, **server) as running:
        found = Visits(running, browser)
        yield found
        found.end()


def test_it_is_chosen_and_the_pages_are_usable_for_everybody(visits: Visits) -> None:
    page = visits.of("approver")
    go(page, "/accounts/")
    assert look(page, "notifications-account") == []
    page.get_by_role("link", name="What you are told, and where").click()
    expect(page.get_by_role("heading", name="Notifications", exact=True)).to_be_visible()
    assert look(page, "notifications-none") == []
    page.get_by_label("Once a day").check()
    page.get_by_label("Time of the daily message").fill("08:15")
    page.get_by_label("Quiet from").fill("22:00")
    page.get_by_label("Time zone").select_option("Europe/Berlin")
    visits.expected = {400}
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Quiet hours have a begin and an end, or neither.")).to_be_visible()
    expect(page.get_by_label("Quiet until")).to_be_focused()
    assert look(page, "notifications-refused") == []
    page.get_by_label("Quiet until").fill("07:00")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    expect(page.get_by_label("Quiet from")).to_have_value("22:00")
    expect(page.get_by_label("Time zone")).to_have_value("Europe/Berlin")
    page.get_by_label("Address").fill("ada.of.the.long.name.that.never.ends@mail.department.example.com")
    page.get_by_role("button", name="Save address").click()
    expect(page.get_by_text("A mail to ada")).to_be_visible()
    page.get_by_label("Slack account").fill("ada@example.com")
    page.get_by_role("button", name="Save Slack account").click()
    expect(page.get_by_text("A direct message to ada@example.com has a link that confirms it.")).to_be_visible()
    assert look(page, "notifications-pending") == []
    go(page, "/accounts/notifications/mail/confirm/some-token")
    assert look(page, "notifications-confirm") == []
    visits.expected = {400, 404}
    go(page, "/mails/stop/some-token")
    expect(page.get_by_text("This link ends no mails any more")).to_be_visible()
    assert look(page, "notifications-stop") == []


def test_the_zone_of_the_browser_is_the_one_that_is_begun_with(visits: Visits) -> None:
    page = visits.of("operator", timezone_id="America/Lima")
    go(page, "/accounts/notifications/")
    expect(page.get_by_label("Time zone")).to_have_value("America/Lima")
    page.get_by_label("Address").fill("olga@example.com")
    page.get_by_role("button", name="Save address").click()
    expect(page.get_by_text("A mail to olga")).to_be_visible()
    elsewhere = visits.of("operator", timezone_id="Europe/Berlin")
    go(elsewhere, "/accounts/notifications/")
    expect(elsewhere.get_by_label("Time zone")).to_have_value("America/Lima")
