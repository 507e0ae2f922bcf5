"""An admin disables, removes and helps people, who are in front of the console meanwhile."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.test_axe import look
from tests.e2e.visits import Visits, go
from tests.support.hub import RunningHub

pytestmark = pytest.mark.browser
SIGN_IN = re.compile(r"/accounts/login/\?next=")


@pytest.fixture
def mia(hub: RunningHub) -> Iterator[tuple[str, str]]:
    """Somebody of this test, and their password."""
    name = f"mia-{secrets.token_hex(3)}"
    password = hub.person("add", name, "--role", "operator")
    # As if she had chosen it since.
    user = "SELECT id FROM auth_user WHERE username = %s"
    hub.sql(f"UPDATE membership SET password_due = false WHERE user_id = ({user})", [name])
    yield name, password
    if hub.sql("SELECT 1 FROM membership JOIN auth_user ON auth_user.id = user_id WHERE username = %s", [name]):
        hub.person("remove", name)


def enter(page: Page, name: str, password: str) -> None:
    page.goto("/accounts/login/?next=/tasks/")
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


@pytest.fixture
def hers(visits: Visits, mia: tuple[str, str]) -> Page:
    """Her browser, signed in, with an open page that follows what happens."""
    page = visits.window()
    enter(page, *mia)
    page.wait_for_url("/tasks/")
    go(page, "/tasks/")
    return page


def change(admin: Page, name: str) -> None:
    """Open the line of one of the people."""
    go(admin, "/settings/")
    admin.get_by_role("link", name=f"Change {name}").click()


def test_whoever_is_disabled_is_led_out_of_the_open_page_at_once(
    visits: Visits, hub: RunningHub, mia: tuple[str, str], hers: Page
) -> None:
    admin = visits.of("admin")
    change(admin, mia[0])
    admin.get_by_role("link", name="Disable").click()
    expect(admin.get_by_role("heading", name=f"Disable {mia[0]}?")).to_be_visible()
    admin.get_by_role("button", name="Disable").click()
    expect(admin.locator("#notices")).to_contain_text("Disabled, and signed out everywhere.")
    expect(hers).to_have_url(SIGN_IN)
    visits.expected.add(403)
    enter(hers, *mia)
    expect(hers.get_by_role("heading", name="This account is disabled")).to_be_visible()
    change(admin, mia[0])
    admin.get_by_role("button", name="Enable").click()
    expect(admin.locator("#notices")).to_contain_text("Enabled. They may sign in again.")
    enter(hers, *mia)
    expect(hers).to_have_url(re.compile("/tasks/$"))


def test_whoever_is_removed_is_led_out_too(visits: Visits, mia: tuple[str, str], hers: Page) -> None:
    admin = visits.of("admin")
    change(admin, mia[0])
    admin.get_by_role("link", name="Remove").click()
    admin.get_by_role("button", name="Remove").click()
    expect(admin.locator("#notices")).to_contain_text(f"{mia[0]} is removed, and signed out everywhere.")
    expect(hers).to_have_url(SIGN_IN)


def test_a_forgotten_password_is_replaced_and_then_chosen(visits: Visits, mia: tuple[str, str], hers: Page) -> None:
    admin = visits.of("admin")
    visits.expected.add(400)
    change(admin, mia[0])
    admin.get_by_role("link", name="New password").click()
    field = admin.get_by_role("textbox", name="Password")
    expect(field).to_be_focused()
    field.fill("short")
    admin.get_by_role("button", name="Set password").click()
    expect(field).to_have_attribute("aria-invalid", "true")
    assert look(admin, "settings-password-wrong") == []
    admin.get_by_role("button", name="Set password").click()
    expect(admin.get_by_role("heading", name=f"{mia[0]} has a new password")).to_be_visible()
    assert look(admin, "settings-password-made") == []
    password = admin.locator("#password").inner_text()
    expect(hers).to_have_url(SIGN_IN)
    enter(hers, mia[0], password)
    expect(hers).to_have_url(re.compile("/accounts/password/change/[?]next=%2Ftasks%2F$"))
    expect(hers.locator(".notice.warning")).to_contain_text("Choose your own password to continue.")
    assert look(hers, "password-due") == []
    hers.get_by_label("Current password").fill(password)
    hers.get_by_label("New password", exact=True).fill("short")
    hers.get_by_label("New password, again").fill("short")
    hers.get_by_role("button", name="Change password").click()
    expect(hers.locator(".field .error").first).to_contain_text("at least 12 characters")
    assert look(hers, "password-due-wrong") == []
    hers.get_by_label("Current password").fill(password)
    hers.get_by_label("New password", exact=True).fill("a horse of another colour")
    hers.get_by_label("New password, again").fill("a horse of another colour")
    hers.get_by_role("button", name="Change password").click()
    go(hers, "/tasks/")
    expect(hers.get_by_role("heading", name="Tasks")).to_be_visible()
