"""A person sets up a second factor in a real browser, signs in with it, and approves a call that needs it."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.test_axe import look
from tests.e2e.test_people import enter
from tests.e2e.visits import Visits, go
from tests.support.client import TASKS, Client
from tests.support.factors import PERIOD, code_of
from tests.support.hub import RunningHub

pytestmark = pytest.mark.browser


@pytest.fixture
def mia(hub: RunningHub) -> Iterator[tuple[str, str]]:
    """An approver of this test, and their password."""
    name = f"mia-{secrets.token_hex(3)}"
    password = hub.person("add", name, "--role", "approver")
    user = "SELECT id FROM auth_user WHERE username = %s"
    hub.sql(f"UPDATE membership SET password_due = false WHERE user_id = ({user})", [name])
    yield name, password
    hub.person("remove", name)


@pytest.fixture
def word(visits: Visits) -> str:
    """A word of this test: a rule asks about deployments of it, and wants a second factor."""
    word = f"factor-{secrets.token_hex(4)}"
    admin = visits.of("admin")
    go(admin, "/rules/add")
    admin.get_by_label("Name", exact=True).fill(word)
    admin.get_by_label("When", exact=True).fill(f'tool.name == "deploy" && args.service == "{word}"')
    admin.get_by_label("With a second factor").check()
    admin.get_by_role("button", name="Save rule").click()
    expect(admin.get_by_text("saved: version")).to_be_visible()
    return word


def set_up(page: Page, password: str) -> tuple[str, list[str]]:
    """The secret of the new app, set up with the code before that of now, and the recovery codes."""
    go(page, "/accounts/")
    page.get_by_role("link", name="Set up an authenticator app").click()
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Confirm").click()
    secret = re.sub(r"\s", "", page.locator("#factor-secret").inner_text())
    expect(page.get_by_alt_text("QR code of the secret below")).to_be_visible()
    # The picture is there: the policy of the page lets it be shown.
    assert page.get_by_alt_text("QR code").evaluate("image => image.complete && image.naturalWidth > 0")
    assert look(page, "factor-set-up") == []
    step = int(time.time()) // PERIOD
    page.get_by_label("Code that the app shows now").fill(code_of(secret, step=step - 1))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    assert look(page, "factor-codes") == []
    codes = page.locator("#codes").inner_text().split()
    assert len(codes) == 10
    return secret, codes


def test_somebody_sets_one_up_signs_in_with_it_and_approves_with_it(
    visits: Visits, hub: RunningHub, mia: tuple[str, str], word: str, agent: Client
) -> None:
    before, window = visits.window(), visits.window()
    for page in (before, window):
        enter(page, *mia)
        page.wait_for_url("/tasks/")
    mine = "FROM sign_in s JOIN auth_user u ON u.id = s.user_id WHERE u.username = %s"
    sessions = hub.sql(f"SELECT s.digest, s.session_data, s.expire_date, s.user_id {mine}", [mia[0]])
    cookies = before.context.cookies()
    secret, codes = set_up(window, mia[1])
    assert len(sessions) == 2
    assert hub.sql(f"SELECT count(*) {mine}", [mia[0]]) == [(1,)], "the other is signed out"
    go(window, "/accounts/")
    expect(window.get_by_text("10 left")).to_be_visible()
    assert look(window, "factor-account") == []

    again = visits.window()
    enter(again, *mia)
    expect(again.get_by_role("heading", name="One more step")).to_be_visible()
    expect(again.get_by_label("Code")).to_be_focused()
    assert look(again, "factor-sign-in") == []
    # That of now, which is newer than the one of the set-up, however long the pages took.
    again.keyboard.type(code_of(secret, step=int(time.time()) // PERIOD))
    again.keyboard.press("Enter")
    again.wait_for_url("/tasks/")

    # In the window of before nothing was confirmed, as in any window five minutes later: it is let in again.
    expect(before.get_by_label("Password")).to_be_visible()
    for session in sessions:
        there = "INSERT INTO sign_in (digest, session_data, expire_date, user_id) VALUES (%s, %s, %s, %s)"
        hub.sql(f"{there} ON CONFLICT DO NOTHING RETURNING digest", session)
    before.context.add_cookies(cookies)
    visits.expected.add(422)
    task = agent.create("deploy", {"service": word, "version": "1", "environment": "staging"}, caps=TASKS)
    [(question,)] = hub.sql("SELECT id FROM question WHERE params #>> '{decided,rule}' = %s", [word])
    go(before, f"/inbox/{question}/")
    expect(before.locator("#inbox-list [aria-current]")).to_contain_text("second factor")
    card = before.locator("article.decision")
    code = card.get_by_label("Code of your second factor")
    assert look(before, "factor-card") == []
    before.set_viewport_size({"width": 1280, "height": 900})
    card.get_by_label("Reason").fill("as agreed")
    code.fill("000000")
    card.get_by_role("button", name="Approve").click()
    expect(card.get_by_text("That is not a code of yours")).to_be_visible()
    expect(card.get_by_label("Reason")).to_have_value("as agreed")
    # A draft of what was typed is kept in the tab, but no code.
    code.fill(codes[0])
    assert codes[0] not in before.evaluate("JSON.stringify({...sessionStorage})")
    code.press("Enter")
    expect(before.locator("#notices").get_by_text("Approved. The tool runs now.")).to_be_visible()
    agent.cancel(task)
