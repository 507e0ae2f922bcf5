"""A person signs a program in, in a real browser: the whole way, by keyboard, without scripts, refused;
and every page of it usable for everybody."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.test_axe import look
from tests.e2e.visits import Visits, go
from tests.support.client import Client
from tests.support.hub import RunningHub, wait_until

pytestmark = pytest.mark.browser

VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


class Program:
    """A program that listens on this machine; `told` is what browsers brought. It sends them on to a
    page of its own, as command-line programs do."""

    def __init__(self) -> None:
        self.told: list[dict[str, str]] = []
        program = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                if parts.path == "/callback":
                    program.told.append(dict(parse_qsl(parts.query)))
                    self.send_response(302)
                    self.send_header("Location", "/done")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                body = b"<!doctype html><title>Done</title><link rel=icon href=data:,><p>You may close this window."
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.callback = f"http://127.0.0.1:{self._server.server_port}/callback"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def program() -> Iterator[Program]:
    found = Program()
    yield found
    found.close()


@pytest.fixture(scope="module")
def client_id(hub: RunningHub, browser: Any) -> str:
    """An application that the administrator has registered, in the console."""
    errand = Visits(hub, browser)
    page = errand.of("admin")
    go(page, "/clients/")
    page.get_by_role("link", name="Applications").click()
    page.get_by_role("link", name="Register application").click()
    page.get_by_label("Name").fill("Deploy notebook")
    page.get_by_label("Redirect addresses").fill("http://127.0.0.1/callback\nhttps://notebook.example.com/callback")
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_role("heading", name="Deploy notebook")).to_be_visible()
    found = page.locator("dt:text-is('Client id') + dd").inner_text()
    errand.end()
    return found


def address(hub: RunningHub, client_id: str, program: Program, **changes: str) -> str:
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": program.callback,
        "scope": "tasks:call tasks:read tasks:answer tasks:cancel",
        "state": "s-1",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "resource": f"{hub.base}/mcp",
        **changes,
    }
    return f"/oauth/authorize?{urlencode(query)}"


def exchange(hub: RunningHub, client_id: str, program: Program, code: str) -> dict[str, Any]:
    form = {
        "grant_type": "authorization_code",
        "client_id": client_id,
        "code": code,
        "redirect_uri": program.callback,
        "code_verifier": VERIFIER,
    }
    answer = httpx2.post(f"{hub.base}/oauth/token", data=form)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def sign_in_here(page: Page, hub: RunningHub, username: str) -> None:
    users = json.loads((hub.data / "credentials.json").read_text())["users"]
    page.get_by_label("Username").fill(username)
    page.get_by_label("Password").fill(users[username]["password"])
    page.get_by_role("button", name="Sign in").click()


def test_a_stranger_signs_in_allows_and_the_program_calls(
    hub: RunningHub, visits: Visits, program: Program, client_id: str
) -> None:
    page = visits.window()
    page.goto(address(hub, client_id, program))
    sign_in_here(page, hub, "operator")
    expect(page.get_by_role("heading", name="Deploy notebook")).to_be_visible()
    expect(page.get_by_text(urlsplit(program.callback).netloc)).to_be_visible()
    assert look(page, "consent") == []
    page.get_by_role("checkbox", name="Cancel those tasks").uncheck()
    page.get_by_role("button", name="Allow").click()
    expect(page.get_by_text("You may close this window.")).to_be_visible()
    [told] = program.told
    assert (told["state"], told["iss"]) == ("s-1", hub.base)
    tokens = exchange(hub, client_id, program, told["code"])
    assert tokens["scope"] == "tasks:call tasks:read tasks:answer"
    with Client(hub.base, tokens["access_token"]) as client:
        assert client.tool("echo", {"text": "hello"}).status == 200
        assert client.call("tasks/cancel", {"taskId": "A" * 32}).status == 403

    # What the administrator sees of it, and takes back.
    admin = visits.of("admin")
    go(admin, "/clients/applications/")
    assert look(admin, "applications") == []
    admin.get_by_role("link", name="Deploy notebook").click()
    expect(admin.get_by_role("row", name=re.compile("operator"))).to_contain_text("tasks:call")
    assert look(admin, "application") == []
    admin.get_by_role("link", name="operator", exact=True).click()
    expect(admin.get_by_text("with OAuth: a person signed in")).to_be_visible()
    assert look(admin, "client-oauth") == []
    admin.go_back()
    admin.get_by_role("link", name="Revoke").click()
    expect(admin.get_by_role("heading", name="Revoke access granted by operator?")).to_be_visible()
    assert look(admin, "application-revoke") == []
    admin.get_by_role("button", name="Revoke").click()
    expect(admin.get_by_text("Nobody has granted it access.")).to_be_visible()
    with Client(hub.base, tokens["access_token"]) as client:
        wait_until(lambda: client.call("server/discover").status == 401, "the token to be refused", 2.0)


def test_denying_tells_the_program(hub: RunningHub, visits: Visits, program: Program, client_id: str) -> None:
    page = visits.of("operator")
    page.goto(address(hub, client_id, program))
    page.get_by_role("button", name="Deny").click()
    expect(page.get_by_text("You may close this window.")).to_be_visible()
    assert program.told[0]["error"] == "access_denied"


def test_the_keyboard_and_no_scripts_are_enough(
    hub: RunningHub, visits: Visits, program: Program, client_id: str
) -> None:
    page = visits.of("operator", java_script_enabled=False)
    page.goto(address(hub, client_id, program))
    page.get_by_role("checkbox", name="Run tools").focus()
    page.keyboard.press("Space")
    for _ in range(4):
        page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Allow")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("You may close this window.")).to_be_visible()
    assert exchange(hub, client_id, program, program.told[0]["code"])["scope"] == "tasks:read tasks:answer tasks:cancel"


def test_a_viewer_sees_what_their_role_does_not_include(
    hub: RunningHub, visits: Visits, program: Program, client_id: str
) -> None:
    page = visits.of("viewer")
    page.goto(address(hub, client_id, program))
    expect(page.get_by_role("checkbox")).to_have_count(1)
    expect(page.get_by_text("so it will not be allowed")).to_be_visible()
    assert look(page, "consent-viewer") == []
    page.goto(address(hub, client_id, program, scope="tasks:call"))
    expect(page.get_by_text("Ask an administrator.")).to_be_visible()
    expect(page.get_by_role("button", name="Allow")).to_have_count(0)
    assert look(page, "consent-nothing") == []


def test_somebody_else_may_decide_instead(hub: RunningHub, visits: Visits, program: Program, client_id: str) -> None:
    page = visits.window()
    visits.sign_in(page, "viewer")
    page.goto(address(hub, client_id, program))
    page.get_by_role("link", name="Not you?").click()
    page.get_by_role("button", name="Sign out").click()
    sign_in_here(page, hub, "operator")
    expect(page.get_by_role("checkbox")).to_have_count(4)


def test_a_program_that_is_not_known_is_no_way_out(
    hub: RunningHub, visits: Visits, program: Program, client_id: str
) -> None:
    visits.expected.add(400)
    page = visits.of("operator")
    page.goto(address(hub, "nobody", program))
    expect(page.get_by_role("heading", name="That program cannot sign in")).to_be_visible()
    assert look(page, "consent-unknown") == []
    page.goto(address(hub, client_id, program, redirect_uri="https://evil.example.com/"))
    expect(page.get_by_role("heading", name="That program cannot sign in")).to_be_visible()
    assert program.told == []


def test_the_administrators_forms_are_usable_for_everybody(hub: RunningHub, visits: Visits, client_id: str) -> None:
    visits.expected.add(400)
    page = visits.of("admin")
    go(page, "/clients/applications/?new")
    assert look(page, "applications-new") == []
    page.get_by_label("Name").fill("Backend")
    page.get_by_label("Redirect addresses").fill("http://backend.example.com/callback")
    page.get_by_role("radio", name="Confidential").check()
    page.get_by_role("button", name="Register").click()
    expect(page.locator(".field .error")).to_contain_text("will not do")
    assert look(page, "applications-new-wrong") == []
    page.get_by_label("Redirect addresses").fill("https://backend.example.com/callback")
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_text("Copy it now")).to_be_visible()
    assert look(page, "application-secret") == []
    page.get_by_role("link", name="Done, I saved it").click()
    page.get_by_role("link", name="Change").click()
    assert look(page, "application-edit") == []
    go(page, f"{urlsplit(page.url).path}?remove")
    assert look(page, "application-remove") == []
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_role("link", name="Backend")).to_have_count(0)
