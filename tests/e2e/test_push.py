"""Web push in a browser, as far as one without a desktop goes. It has neither a push service nor notifications: a push
is handed to the service worker by the developer tools, and what the worker would show and open is noted in it."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.test_axe import look
from tests.e2e.visits import Visits, go
from tests.support.hub import RunningHub, wait_until
from tests.support.web import web

pytestmark = pytest.mark.browser
PAGE = "/accounts/notifications/"
NOTED = """() => {
    self.shown = [];
    self.opened = [];
    self.registration.showNotification = async (title, options) => { self.shown.push({ title, ...options }); };
    self.clients.openWindow = async (url) => { self.opened.push(url); };
}"""
CLICKED = """(path) => {
    const data = path === null ? undefined : { path };
    const event = new ExtendableEvent("notificationclick");
    self.dispatchEvent(Object.assign(event, { notification: { data, close() {} } }));
    return self.opened.pop();
}"""


def test_the_worker_shows_what_is_pushed_and_a_click_leads_to_the_card(hub: RunningHub, visits: Visits) -> None:
    page = visits.of("approver")
    go(page, "/inbox/")
    devtools = page.context.new_cdp_session(page)
    found: dict[str, str] = {}
    devtools.on(
        "ServiceWorker.workerRegistrationUpdated",
        lambda told: found.update({one["scopeURL"]: one["registrationId"] for one in told["registrations"]}),
    )
    devtools.send("ServiceWorker.enable")
    page.evaluate("async () => { await navigator.serviceWorker.register('/service-worker.js'); }")
    scope = page.evaluate("navigator.serviceWorker.ready.then((one) => one.scope)")
    assert scope == f"{hub.base}/"
    wait_until(lambda: page.evaluate("0") == 0 and found and page.context.service_workers, "the worker")
    (worker,) = page.context.service_workers
    worker.evaluate(NOTED)
    told = {"title": "Deploy it", "body": "demo · agent-a", "path": "/inbox/task/x/?key=approval", "tag": "msg_1"}
    for said in (json.dumps(told), "no JSON"):
        devtools.send(
            "ServiceWorker.deliverPushMessage", {"origin": hub.base, "registrationId": found[scope], "data": said}
        )
    wait_until(lambda: len(worker.evaluate("self.shown")) == 2, "both shown")
    assert worker.evaluate("self.shown") == [
        {"title": "Deploy it", "body": "demo · agent-a", "tag": "msg_1", "data": {"path": told["path"]}},
        {"title": "TaskHub", "body": "", "tag": "taskhub", "data": {"path": ""}},
    ]
    for path, leads in (
        (told["path"], f"{hub.base}{told['path']}"),
        ("https://evil.example/", hub.base),
        (None, scope),
    ):
        assert worker.evaluate(CLICKED, path) == leads, path


def test_the_page_of_browsers_is_usable_and_says_what_the_browser_refuses(
    hub: RunningHub, visits: Visits, browser: Browser
) -> None:
    with web(hub, PUBLIC_URL="https://hub.example") as process:
        own = Visits(process, browser)
        page = own.of("approver")
        go(page, PAGE)
        button = page.get_by_role("button", name="Notify this browser")
        expect(button).to_be_visible()
        assert look(page, "notifications-browsers") == []
        button.click()
        expect(page.locator("[data-push-said]")).to_have_text(re.compile("could not subscribe|does not allow"))
        own.end()
