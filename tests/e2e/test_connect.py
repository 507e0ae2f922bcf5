"""Connect a client: choose a program and copy what to paste, by keyboard, without scripts, and without a clipboard."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.visits import Visits, go
from tests.support.hub import RunningHub

pytestmark = pytest.mark.browser

WITHOUT_CLIPBOARD = "Object.defineProperty(navigator, 'clipboard', {value: undefined})"


def issued(page: Page, client: str) -> str:
    """The token of a new client, on whose page it is shown."""
    page.goto("/clients/?new")
    page.get_by_label("Name", exact=True).fill(client)
    page.get_by_role("button", name="Issue token").click()
    return page.locator("#token").inner_text()


def pasted(page: Page) -> str:
    return str(page.evaluate("navigator.clipboard.readText()"))


def test_the_snippet_of_a_new_token_is_copied_by_keyboard_and_is_told(hub: RunningHub, visits: Visits) -> None:
    page = visits.of("admin", permissions=["clipboard-read", "clipboard-write"])
    token = issued(page, "copied")
    codex = page.get_by_role("link", name="Codex CLI")
    expect(page.get_by_role("link", name="Claude Code")).to_have_attribute("aria-current", "true")
    codex.focus()
    page.keyboard.press("Enter")
    expect(codex).to_have_attribute("aria-current", "true")
    expect(page.locator(".snippets > :visible")).to_have_count(1)
    page.keyboard.press("Tab")
    button = page.get_by_role("button", name="Copy what to paste into Codex CLI")
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#said")).to_have_text("Copied")
    expect(button).to_have_attribute("data-copied", "Copied")
    text = pasted(page)
    assert f'url = "{hub.base}/mcp"' in text
    assert f'"Bearer {token}"' in text
    expect(button).to_be_focused()


def test_a_page_without_a_clipboard_copies_all_the_same(visits: Visits) -> None:
    page = visits.of("admin", permissions=["clipboard-read", "clipboard-write"])
    page.add_init_script(WITHOUT_CLIPBOARD)
    go(page, "/clients/connect#connect-zed")
    button = page.get_by_role("button", name="Copy what to paste into Zed")
    button.click()
    expect(page.locator("#said")).to_have_text("Copied")
    expect(button).to_be_focused()
    other = page.context.new_page()  # which has one
    go(other, "/clients/connect")
    assert '"context_servers"' in pasted(other)


def test_a_program_is_chosen_without_scripts(visits: Visits) -> None:
    page = visits.of("admin", java_script_enabled=False)
    token = issued(page, "scriptless")
    expect(page.locator(".snippets > :visible h2")).to_have_text("Claude Code")
    page.get_by_role("link", name="LangChain", exact=True).click()
    expect(page.locator(".snippets > :visible h2")).to_have_text("LangChain")
    expect(page.locator("#snippet-langchain")).to_contain_text(f"Bearer {token}")
    expect(page.get_by_role("button", name=re.compile("^Copy"))).to_have_count(0)
