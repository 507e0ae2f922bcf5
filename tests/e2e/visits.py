"""People in front of the console: who signs in, what the browser complained about, when a page is live."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from tests.support.hub import RunningHub
from tests.support.web import Web

PATIENCE: Final = 20_000
"""Milliseconds that anything expected of a page may take: the two cores are shared."""
DEPLOYS: Final = {
    "name": "Production deploys",
    "when": 'server.name == "demo" && tool.name == "deploy" && like(args.environment, "production")',
    "then": "ask",
    "group": "ops",
    "editable": ["version"],
}
"""The rule of the hub: deployments to production need an approval."""
STATUS: Final = re.compile(r"^Failed to load resource: the server responded with a status of (\d{3}) ")
ANSWERED: Final = re.compile(r"^Response Status Error Code (\d{3}) from ")
BROKEN: Final = re.compile(r"net::ERR_|^htmx:(sendError|timeout)|^WebSocket connection")
# htmx's own words for a request that was under way when its page was left.
LEFT: Final = re.compile(r"^htmx:(sendAbort|afterRequest), ")
# The page marks the first round of hints itself: from then on its socket is open.
MARK: Final = """
addEventListener("securitypolicyviolation", (event) => console.error(`CSP: ${event.violatedDirective}`));
addEventListener("hint", () => { document.documentElement.dataset.hinted = ""; }, true);
"""
LIVE: Final = """() => document.body.dataset.live === undefined
    || (document.documentElement.dataset.hinted !== undefined && !document.querySelector(".htmx-request"))"""

expect.set_options(timeout=PATIENCE)


class Visits:
    """Windows of one test. `end` closes them and fails on whatever a browser complained about."""

    signed_in: Final[dict[tuple[str, str], Any]] = {}
    """Cookies by hub and username: one sign-in per person is enough."""

    def __init__(self, hub: RunningHub | Web, browser: Browser) -> None:
        self.hub = hub
        self.browser = browser
        self.expected: set[int] = set()
        """HTTP statuses this test provokes; the browser reports each as an error."""
        self.cut = False
        """Whether this test breaks requests on their way; the browser and htmx report each."""
        self._contexts: list[BrowserContext] = []
        self._complaints: list[str] = []

    def window(self, **options: Any) -> Page:
        """A new browser profile's first page, watched."""
        context = self.browser.new_context(base_url=self.hub.base, **options)
        context.set_default_timeout(PATIENCE)
        context.add_init_script(MARK)
        context.on("console", self._said)
        context.on("weberror", lambda broken: self._complaints.append(f"page error: {broken.error}"))
        self._contexts.append(context)
        return context.new_page()

    def of(self, username: str, **options: Any) -> Page:
        """A page of a person who has signed in some time before."""
        known = (self.hub.base, username)
        if known not in self.signed_in:
            page = self.window()
            self.sign_in(page, username)
            self.signed_in[known] = page.context.storage_state()
            page.context.close()
        return self.window(storage_state=self.signed_in[known], **options)

    def sign_in(self, page: Page, username: str, next_path: str = "/") -> None:
        """Through the sign-in page, as a person does it."""
        users = json.loads((self.hub.data / "credentials.json").read_text())["users"]
        page.goto(f"/accounts/login/?next={next_path}")
        page.get_by_label("Username").fill(username)
        page.get_by_label("Password").fill(users[username]["password"])
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(next_path)

    def end(self) -> None:
        """Close every window. No complaint may be left."""
        for context in self._contexts:
            context.close()
        self.no_complaints()

    def no_complaints(self) -> None:
        """Fail on what a browser complained about since the last time."""
        found, self._complaints = self._complaints, []
        assert not found, "\n".join(found)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning") or LEFT.match(message.text):
            return
        status = STATUS.match(message.text) or ANSWERED.match(message.text)
        if self.cut and BROKEN.search(message.text):
            return
        if status is None or int(status[1]) not in self.expected:
            self._complaints.append(f"{message.type} on {message.page and message.page.url}: {message.text}")


def go(page: Page, path: str) -> None:
    """Open a page and wait until it is live: hints arrive, and the first round was fetched."""
    page.goto(path)
    page.wait_for_function(LIVE)
