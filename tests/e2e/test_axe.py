"""Every page, wide and narrow, light and dark: no serious fault that axe finds, and nothing sticks out.

With `TASKHUB_SHOTS=directory` each is saved as `page-width-scheme.png`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.e2e.test_journeys import LONG, PRODUCTION, waiting
from tests.e2e.visits import DEPLOYS, Visits, go
from tests.support.client import EVERYTHING, TASKS, Client
from tests.support.hub import RunningHub, wait_until

pytestmark = pytest.mark.browser

WIDTHS: Final = ((1440, 900), (390, 844))
SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
# Half of the four: each width and each scheme once, or axe would take half of the suite's time.
ASKED: Final = ((1440, "light"), (390, "dark"))
GRAVE: Final = ("serious", "critical")
PLACES: Final = (
    "overview",
    "tasks",
    "tasks-none",
    "task-queued",
    "task-working",
    "task-waiting",
    "task-approval",
    "task-finished",
    "task-error",
    "task-faulted",
    "task-cancelled",
    "task-timeline",
    "task-questions",
    "task-log",
    "task-wire",
    "task-cancel",
    "inbox",
    "inbox-form",
    "inbox-approval",
    "inbox-sampling",
    "inbox-link",
    "inbox-decided",
    "inbox-alike",
    "news",
    "audit",
    "audit-event",
    "clients",
    "clients-new",
    "client",
    "client-revoke",
    "connect",
    "connect-one",
    "servers",
    "servers-new",
    "server-import",
    "server",
    "server-tool",
    "server-edit",
    "server-disable",
    "server-remove",
    "rules",
    "rules-tried",
    "rule-new",
    "rule",
    "rule-versions",
    "rule-version",
    "workers",
    "settings",
    "settings-person",
    "webhooks",
    "webhooks-new",
    "webhook",
    "webhook-edit",
    "webhook-rotate",
    "settings-disabled",
    "notifications",
    "settings-disable",
    "settings-remove",
    "settings-password",
    "account",
    "password",
    "missing",
)
# Chromium may keep a colour of the other scheme in an element it has not laid out again.
PAINTED: Final = """() => {
    const root = document.documentElement;
    root.style.display = "none";
    root.getBoundingClientRect();
    root.style.display = "";
    return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""
RULES: Final = [
    {"name": "Asks", "when": 'client.name == "nobody"', "then": "ask", "group": "ops", "quorum": 2},
    {"name": "Hides", "when": 'client.name == "nobody"', "then": "hide", "shadow": True},
    {"name": "Denies", "when": " && ".join(['client.name == "nobody"'] * 9), "then": "deny", "words": "Not today."},
    {"name": "Allows", "when": "", "then": "allow", "enabled": False},
]
"""One that does each, and none that matches a call of this hub. They stand below `DEPLOYS`."""
AXE: Final = Axe().axe_script
GRAVE_ONES: Final = """(grave) => axe.run({resultTypes: ["violations"]}).then((found) =>
    found.violations.filter((fault) => grave.includes(fault.impact)))"""
FITS: Final = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"


def answered_at_once(hub: RunningHub, client: Client, tool: str, arguments: dict[str, str]) -> str:
    """The task of a call that is answered before anybody is given a handle."""
    client.tool(tool, arguments, caps=EVERYTHING)
    found: str = hub.sql(
        "SELECT public_id FROM task JOIN tool ON tool.id = tool_id WHERE name = %s ORDER BY task.id DESC", [tool]
    )[0][0]
    return found


@pytest.fixture(scope="module")
def scene(hub: RunningHub) -> Iterator[dict[str, str]]:
    """A hub with a task of each state and a question of each kind: the path of every page."""
    with Client(hub.base, hub.tokens["agent-a"]) as client, Client(hub.base, hub.tokens["agent-b"]) as busy:
        running = [busy.create("countdown", LONG) for _ in range(2)]
        wait_until(lambda: hub.sql("SELECT count(*) = 2 FROM task WHERE state = 'working'")[0][0], "two running tasks")
        queued = busy.create("countdown", LONG)
        finished = client.create("deploy", {**PRODUCTION, "environment": "staging"})
        client.until(finished, "input_required")
        [key] = client.get(finished).result["inputRequests"]
        client.update(finished, {key: {"action": "accept", "content": {"confirm": True}}})
        error = answered_at_once(hub, client, "fail", {"kind": "tool_error"})
        faulted = answered_at_once(hub, client, "fail", {"kind": "protocol_error"})
        cancelled = client.create("countdown", LONG)
        client.cancel(cancelled)
        ended = ((finished, "completed"), (error, "completed"), (faulted, "failed"), (cancelled, "cancelled"))
        for task, status in ended:
            client.until(task, status)
        form = client.create("survey", {}, caps=TASKS)
        sampling = answered_at_once(hub, client, "summarize", {"text": "Tasks outlive the connection that made them."})
        link = client.create("visit", {}, caps=TASKS)
        approval = client.create("deploy", PRODUCTION, caps=TASKS)
        server, deploy = hub.demo_tool("deploy")
        [(agent, token)] = hub.sql(
            "SELECT auth_context.id, access_token.id FROM auth_context"
            " JOIN access_token ON context_id = auth_context.id WHERE name = 'agent-a'"
        )
        [(event,)] = hub.sql("SELECT max(id) FROM event WHERE action = 'rules.changed'")
        [(operator,)] = hub.sql("SELECT id FROM auth_user WHERE username = 'operator'")
        (hub.data / "rules.json").write_text(json.dumps([DEPLOYS, *RULES]))
        hub.manage("rule", "set", str(hub.data / "rules.json"))
        hub.person("add", "paused", "--role", "viewer")
        hub.person("disable", "paused")
        hub.manage("webhook", "add", "deploys", "http://127.0.0.1:9/nobody")
        hub.manage("webhook", "test", "deploys")
        [(webhook,)] = hub.sql("SELECT id FROM webhook WHERE name = 'deploys'")
        wait_until(lambda: hub.sql("SELECT 1 FROM webhook WHERE failing_since IS NOT NULL"), "a try that failed")
        [(disabled,)] = hub.sql("SELECT id FROM auth_user WHERE username = 'paused'")
        yield {
            "overview": "/",
            "tasks": "/tasks/",
            "tasks-none": "/tasks/?q=no-such-thing",
            "task-queued": f"/tasks/{queued}/",
            "task-working": f"/tasks/{running[0]}/",
            "task-waiting": f"/tasks/{form}/",
            "task-approval": f"/tasks/{approval}/",
            "task-finished": f"/tasks/{finished}/",
            "task-error": f"/tasks/{error}/",
            "task-faulted": f"/tasks/{faulted}/",
            "task-cancelled": f"/tasks/{cancelled}/",
            "task-timeline": f"/tasks/{finished}/?view=timeline",
            "task-questions": f"/tasks/{finished}/?view=questions",
            "task-log": f"/tasks/{finished}/?view=log",
            "task-wire": f"/tasks/{form}/?view=wire",
            "task-cancel": f"/tasks/{form}/cancel",
            "inbox": "/inbox/",
            "inbox-form": f"/inbox/{waiting(hub, form)}/",
            "inbox-approval": f"/inbox/{waiting(hub, approval)}/",
            "inbox-sampling": f"/inbox/{waiting(hub, sampling)}/",
            "inbox-link": f"/inbox/{waiting(hub, link)}/",
            "inbox-decided": "/inbox/?queue=decided",
            "inbox-alike": f"/inbox/{waiting(hub, approval)}/alike?all=1",
            "news": "/news/",
            "audit": "/audit/",
            "audit-event": f"/audit/?event={event}",
            "clients": "/clients/",
            "clients-new": "/clients/?new",
            "client": f"/clients/{agent}/",
            "client-tools": f"/clients/{agent}/tools",
            "client-revoke": f"/clients/{agent}/?revoke={token}",
            "connect": "/clients/connect",
            "connect-one": f"/clients/connect?client={agent}#connect-openai-agents",
            "servers": "/servers/",
            "servers-new": "/servers/?new",
            "server-import": "/servers/import",
            "server": f"/servers/{server}/",
            "server-tool": f"/servers/{server}/?tool={deploy}",
            "tool-callers": f"/servers/{server}/tools/{deploy}/callers",
            "server-edit": f"/servers/{server}/?edit",
            "server-disable": f"/servers/{server}/?toggle",
            "server-remove": f"/servers/{server}/?remove",
            "rules": "/rules/",
            "rules-tried": "/rules/?try",
            "rule-new": "/rules/add",
            "rule": "/rules/edit?rule=Asks",
            "rule-call": f"/rules/call?client={agent}&tool={deploy}",
            "rule-versions": "/rules/versions/",
            "rule-version": "/rules/versions/1/",
            "workers": "/workers/",
            "settings": "/settings/",
            "settings-person": f"/settings/?person={operator}#person",
            "settings-disabled": f"/settings/?person={disabled}#person",
            "settings-disable": f"/settings/?person={operator}&do=disable",
            "settings-remove": f"/settings/?person={operator}&do=remove",
            "webhooks": "/settings/webhooks/",
            "webhooks-new": "/settings/webhooks/?new",
            "webhook": f"/settings/webhooks/{webhook}/",
            "webhook-edit": f"/settings/webhooks/{webhook}/?edit",
            "webhook-rotate": f"/settings/webhooks/{webhook}/?do=rotate",
            "settings-password": f"/settings/?person={operator}&do=password",
            "account": "/accounts/",
            "notifications": "/accounts/notifications/",
            "password": "/accounts/password/change/",
            "missing": "/no-such-page/",
        }
        for task in (*running, queued, form, sampling, link, approval):
            busy.cancel(task) if task in (*running, queued) else client.cancel(task)
        hub.person("remove", "paused")
        hub.manage("webhook", "remove", "deploys")


def look(page: Page, name: str, shots: Path | None = None) -> list[str]:
    """What is wrong with the page as it stands, in each width and scheme; `shots`: where pictures of it go."""
    if (asked := os.environ.get("TASKHUB_SHOTS")) is not None:
        shots = Path(asked)
    faults: list[str] = []
    for width, height in WIDTHS:
        page.set_viewport_size({"width": width, "height": height})
        for scheme in SCHEMES:
            if shots is None and (width, scheme) not in ASKED:
                continue
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            page.evaluate(PAINTED)
            if shots is not None:
                page.screenshot(path=shots / f"{name}-{width}-{scheme}.png", full_page=True)
            if not page.evaluate(FITS):
                faults.append(f"{width}: wider than the window")
            if (width, scheme) not in ASKED:
                continue
            if not page.evaluate("typeof axe === 'object'"):  # half a megabyte: once for each page
                page.evaluate(AXE)
            for found in page.evaluate(GRAVE_ONES, GRAVE):
                nodes = "; ".join(f"{node['target']} {node['failureSummary']}" for node in found["nodes"][:3])
                faults.append(f"{width} {scheme}: {found['impact']} {found['id']}: {nodes}")
    return faults


@pytest.fixture(scope="module")
def tour(hub: RunningHub, browser: Browser) -> Iterator[tuple[Visits, Page]]:
    """One window for all pages: each would need a renderer of its own, which compiles all scripts anew."""
    visits = Visits(hub, browser)
    yield visits, visits.of("admin")
    visits.end()


@pytest.mark.parametrize("name", PLACES)
def test_page_is_usable_for_everybody(tour: tuple[Visits, Page], scene: dict[str, str], name: str) -> None:
    visits, page = tour
    visits.expected = {404} if name == "missing" else set()
    page.set_viewport_size({"width": 1280, "height": 720})
    page.emulate_media(color_scheme="null", reduced_motion="null")
    go(page, scene[name])
    assert look(page, name) == []
    visits.no_complaints()


def test_sign_in_page_is_usable_for_everybody(visits: Visits) -> None:
    page = visits.window()
    go(page, "/accounts/login/")
    assert look(page, "login") == []
    page.get_by_label("Username").fill("nobody")
    page.get_by_label("Password").fill("a wrong password")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert look(page, "login-wrong") == []


def test_open_dialogs_and_menu_are_usable_for_everybody(visits: Visits, scene: dict[str, str]) -> None:
    page = visits.of("admin")
    go(page, scene["task-working"])
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    assert look(page, "keys") == []
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.get_by_role("link", name="Cancel …").click()
    expect(page.get_by_role("dialog", name="Cancel this task?")).to_be_visible()
    assert look(page, "cancel-dialog") == []
    page.keyboard.press("Escape")
    page.get_by_text("Menu", exact=True).click()
    expect(page.get_by_role("navigation", name="Main menu")).to_be_visible()
    assert look(page, "menu") == []


def test_form_with_errors_is_usable_for_everybody(visits: Visits, scene: dict[str, str]) -> None:
    visits.expected.add(422)
    page = visits.of("admin")
    go(page, scene["inbox-form"])
    page.get_by_role("button", name="Send answer").click()
    expect(page.locator(".field .error").first).to_be_visible()
    assert look(page, "inbox-form-errors") == []


def test_list_that_is_tried_fits_a_phone(visits: Visits, scene: dict[str, str]) -> None:
    page = visits.of("admin")
    go(page, scene["rule"])
    page.get_by_label("On trial").check()
    page.get_by_role("button", name="Try on recent calls").click()
    expect(page.locator("#trial")).to_contain_text("is on trial and decides nothing")
    assert look(page, "rule-tried") == []
    page.set_viewport_size({"width": 320, "height": 640})
    # Its card cuts off what is wider.
    cut = "trial => trial.querySelector('table').scrollWidth > trial.clientWidth"
    assert not page.locator("#trial").evaluate(cut)
