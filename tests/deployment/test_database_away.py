"""A web process whose database is away: every path says so, in the words of its own callers, and soon."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import httpx2
import psycopg
import pytest

from taskhub.config import env
from tests.support.client import _NO_TLS, TASKS, Client
from tests.support.hasty import HASTY
from tests.support.hub import FIXTURES, RunningHub, wait_until
from tests.support.person import Person
from tests.support.proxy import DatabaseDoor, database_door
from tests.support.session import SessionClient
from tests.support.web import Web, webs

pytestmark = pytest.mark.processes

PAGE = {"accept": "text/html"}
HTMX = {"accept": "*/*", "hx-request": "true", "hx-current-url": "http://127.0.0.1/inbox/"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
SOON = 30.0
"""Seconds: nothing waits longer for an answer, however slow the machine is."""


class Cut(NamedTuple):
    """A hub whose one more web process is behind a door, and who is known there."""

    hub: RunningHub
    web: Web
    door: DatabaseDoor
    http: httpx2.Client
    cookies: str
    session: SessionClient


@contextmanager
def behind_a_door(hub: RunningHub) -> Iterator[Cut]:
    """The process, while all is well."""
    with (
        database_door() as door,
        webs(hub, 1, DATABASE_URL=door.url(hub.environment["DATABASE_URL"])) as (web,),
        httpx2.Client(base_url=web.base, timeout=SOON, trust_env=False, verify=_NO_TLS) as http,
        SessionClient(web.base, hub.tokens["agent-a"]) as session,
    ):
        there: Any = SimpleNamespace(base=web.base, data=hub.data)
        with Person(there, "admin") as person:
            cookies = "; ".join(f"{name}={value}" for name, value in person._http.cookies.items())
            assert http.get("/tasks/", headers={**PAGE, "cookie": cookies}).status_code == 200
        for path in ("/readyz", "/metrics"):
            assert http.get(path).status_code == 200
        yield Cut(hub, web, door, http, cookies, session)


@pytest.fixture(scope="module")
def cut(hub: RunningHub) -> Iterator[Cut]:
    """The process, after its database went away."""
    with behind_a_door(hub) as found:
        found.door.shut()
        yield found


def later(answer: httpx2.Response) -> bool:
    """Whether it says: not now, and when again."""
    return answer.status_code == 503 and int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize(
    "path", ["/", "/tasks/", "/inbox/", "/clients/", "/servers/", "/audit/", "/account/", "/nope/"]
)
@pytest.mark.parametrize("htmx", [False, True], ids=["page", "htmx"])
def test_pages_say_it_without_the_database(cut: Cut, path: str, htmx: bool) -> None:
    answer = cut.http.get(path, headers={**(HTMX if htmx else PAGE), "cookie": cut.cookies})
    assert later(answer), (answer.status_code, answer.text)
    assert "The database is away" in answer.text
    if htmx:
        assert answer.headers["content-type"] == "text/plain; charset=utf-8", "words for beside the button"
    else:
        assert "cannot answer just now" in answer.text
        assert "/static/css/" in answer.text, "it is drawn like the others"
    assert "no-store" in answer.headers["cache-control"]


def test_a_sign_in_says_it(cut: Cut) -> None:
    form = cut.http.get("/accounts/login/", headers=PAGE)
    assert form.status_code == 200, "a stranger's form needs no database"
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form.text)
    assert token is not None
    fields = {"csrfmiddlewaretoken": token[1], "login": "admin", "password": "x"}
    assert later(cut.http.post("/accounts/login/", data=fields, headers=PAGE))


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/readyz", ""),
        ("GET", "/metrics", ""),
        ("POST", "/oauth/token", "grant_type=refresh_token&refresh_token=x&client_id=y"),
        (
            "POST",
            "/oauth/token",
            "grant_type=authorization_code&code=x&client_id=y&redirect_uri=http%3A%2F%2Flocalhost",
        ),
        ("POST", "/oauth/revoke", "token=x&client_id=y"),
        ("GET", "/oauth/authorize?client_id=y&response_type=code", ""),
    ],
)
def test_programs_are_told_in_json(cut: Cut, method: str, path: str, body: str) -> None:
    headers = {**FORM, **({"cookie": cut.cookies} if "authorize" in path else {})}
    answer = cut.http.request(method, path, content=body, headers=headers)
    assert later(answer), (answer.status_code, answer.text)
    assert isinstance(answer.json(), dict)
    if path in ("/oauth/token", "/oauth/revoke"):
        assert answer.json()["error"] == "temporarily_unavailable"
        assert answer.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(
    "path", ["/healthz", "/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/mcp"]
)
def test_what_needs_no_database_is_answered(cut: Cut, path: str) -> None:
    assert cut.http.get(path).status_code == 200


@pytest.mark.parametrize("mount", ["", "/sep-2557"])
@pytest.mark.parametrize("token", ["agent-a", "agent-b"], ids=["known", "never seen"])
@pytest.mark.parametrize("method", ["server/discover", "tools/list", "tools/call", "tasks/get"])
def test_clients_of_2026_get_a_json_rpc_error(cut: Cut, mount: str, token: str, method: str) -> None:
    with Client(cut.web.base, cut.hub.tokens[token]) as client:
        params: dict[str, Any] = {"name": "greet", "arguments": {"name": "x"}} if method == "tools/call" else {}
        params |= {"taskId": "x" * 22} if method == "tasks/get" else {}
        message = client.message(method, params, id="mine", caps={"extensions": {"io.modelcontextprotocol/tasks": {}}})
        answer = cut.http.post(f"/mcp{mount}", json=message, headers=client.headers(message))
    if token == "agent-a" and method == "server/discover" and answer.status_code == 200:
        return  # known, and nothing to read
    assert later(answer), (answer.status_code, answer.text)
    assert (answer.json()["id"], answer.json()["error"]["code"]) == ("mine", 50300)


@pytest.mark.parametrize("known", [True, False])
def test_clients_of_2025_get_a_json_rpc_error_too(cut: Cut, known: bool) -> None:
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {}}
    cut.session.token = cut.hub.tokens["agent-a" if known else "agent-b"]
    answer = cut.http.post("/mcp", json=message, headers=cut.session.headers())
    assert answer.status_code in (200, 503)  # as that wire has it
    assert int(answer.headers["retry-after"]) > 0
    assert (answer.json()["id"], answer.json()["error"]["code"]) == (7, 50300)


@pytest.mark.parametrize("verb", ["GET", "DELETE"])
def test_streams_and_ends_of_sessions_say_it(cut: Cut, verb: str) -> None:
    cut.session.token = cut.hub.tokens["agent-b"]
    answer = cut.http.request(verb, "/mcp", headers=cut.session.headers(accept="text/event-stream"))
    assert later(answer), (answer.status_code, answer.text)
    assert answer.json()["error"]["code"] == 50300


def test_the_log_has_lines_and_no_tracebacks(cut: Cut) -> None:
    before = len(cut.web.log.read_text())
    for _ in range(40):
        assert later(cut.http.get("/tasks/", headers={**PAGE, "cookie": cut.cookies}))
        assert later(cut.http.post("/oauth/token", content="grant_type=refresh_token&refresh_token=x", headers=FORM))
    log = cut.web.log.read_text()
    assert "Traceback" not in log, log
    assert len(log[before:].splitlines()) <= 6, log[before:]
    assert "503 for " in log


def test_nobody_hangs_on_a_database_that_says_nothing_and_all_is_well_after(hub: RunningHub) -> None:
    with behind_a_door(hub) as own:
        _fall_silent_and_come_back(own)


def _fall_silent_and_come_back(cut: Cut) -> None:
    cut.door.mute()
    slowest: list[float] = []

    def ask(number: int) -> None:
        began = time.monotonic()
        with Client(cut.web.base, cut.hub.tokens["agent-b"]) as client:
            message = client.message("tasks/get", {"taskId": "x" * 22}, caps={"extensions": {}})
            if number % 2:
                answer = httpx2.get(f"{cut.web.base}/readyz", timeout=60, trust_env=False)
            else:
                url = f"{cut.web.base}/mcp"
                headers = client.headers(message)
                answer = httpx2.post(url, json=message, headers=headers, timeout=60, trust_env=False)
        slowest.append(time.monotonic() - began)
        assert later(answer), answer.text

    asking = [threading.Thread(target=ask, args=(number,)) for number in range(24)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(90)
    assert len(slowest) == 24
    assert max(slowest) < SOON, sorted(slowest)
    cut.door.shut()  # and whoever waits there is let go
    cut.door.open()
    wait_until(cut.web.ready, "the database to be back", 30)
    assert cut.http.get("/tasks/", headers={**PAGE, "cookie": cut.cookies}).status_code == 200
    with Client(cut.web.base, cut.hub.tokens["agent-b"]) as client:
        assert client.tool("greet", {"name": "again"}).text == "Hello, again!"
    assert json.loads(cut.http.get("/readyz").text)["status"] == "ready"


@pytest.mark.req("T26-49")
def test_a_stream_outlives_it_and_tells_what_happened_meanwhile(hub: RunningHub) -> None:
    with (
        behind_a_door(hub) as own,
        Client(own.web.base, hub.tokens["agent-b"]) as cut_off,
        Client(hub.base, hub.tokens["agent-b"]) as client,
    ):
        task_id = client.create("confirm_delete", {"filename": "x"})
        client.until(task_id, "input_required")
        wanted = {"notifications": {"taskIds": [task_id], "toolsListChanged": True}}
        with cut_off.stream("subscriptions/listen", wanted, caps=TASKS) as stream:
            assert stream.next()["params"]["notifications"] == wanted["notifications"]
            assert stream.next()["params"]["status"] == "input_required"
            own.door.shut()
            client.cancel(task_id)
            wait_until(lambda: later(own.http.get("/readyz")), "the database to be away")
            own.door.open()
            assert stream.next()["params"]["status"] == "cancelled"


def test_a_machine_that_vanished_is_noticed() -> None:
    """What TCP does with it takes a network to pull apart; here, that it was asked to."""
    with database_door() as door:
        given: dict[str, Any] = env.database(door.url(os.environ["DATABASE_URL"]))
        known = {"dbname": given["NAME"], "user": given["USER"], "password": given["PASSWORD"], "host": given["HOST"]}
        with (
            psycopg.connect(**known, port=given["PORT"], **given["OPTIONS"]) as connection,
            socket.socket(fileno=os.dup(connection.fileno())) as wire,
        ):
            assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 10_000
            assert wire.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert given["OPTIONS"]["connect_timeout"] == 5


def test_a_worker_says_it_in_lines_too() -> None:
    with database_door() as door:

        class Behind(RunningHub):
            """A whole hub behind the door."""

            @staticmethod
            def url_of(database: str) -> str:
                return door.url(RunningHub.url_of(database))

        hub = Behind(servers=(FIXTURES,), **HASTY)
        try:
            door.shut()
            chores = ("seal", "sweep", "heartbeat", "jobs")
            wait_until(
                lambda: all(hub.log.read_text().count(f"taskhub.worker.chores: {chore}") for chore in chores),
                "the worker's chores",
                120,
            )
            log = hub.log.read_text()
            door.open()
            wait_until(hub._listed, "a ready hub", 60)
        finally:
            hub.stop()
    # Tracebacks come with errors; the one of procrastinate, when it loses its connection, is its own.
    assert "ERROR   taskhub" not in log, log
