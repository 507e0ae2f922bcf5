"""A Postgres that is stopped in its tracks: it keeps its connections, takes new ones, and answers nothing."""

from __future__ import annotations

import json
import secrets
import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx2
import psutil
import pytest

from taskhub.core.versions import WITH_SESSIONS
from taskhub.protocol.registry import REVISIONS
from tests.deployment.test_database_away import FORM, PAGE
from tests.store.flushing import superuser
from tests.support.client import _NO_TLS, TASKS, Client
from tests.support.hub import RunningHub, shared, wait_until
from tests.support.person import Person
from tests.support.sep_2557_client import Historical
from tests.support.session import SessionClient
from tests.support.web import webs

pytestmark = pytest.mark.processes

DEADLINE = 8.0
"""Seconds, in which every path gives up: see docs/run/limits.md."""
NAMES: Final[Mapping[str, dict[str, Any]]] = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
    "tools/call": {"name": "greet", "arguments": {"name": "lost"}},
    "prompts/get": {"name": "test_simple_prompt"},
    "resources/read": {"uri": "test://static-text"},
    "resources/subscribe": {"uri": "test://static-text"},
    "resources/unsubscribe": {"uri": "test://static-text"},
    "completion/complete": {
        "ref": {"type": "ref/resource", "uri": "test://template/{id}/data"},
        "argument": {"name": "id", "value": ""},
    },
    "logging/setLevel": {"level": "info"},
    "tasks/update": {"inputResponses": {}},
    "subscriptions/listen": {"notifications": {"toolsListChanged": True}},
}
"""What a method needs beside the id of a task."""
KNOWN: Final = (
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "subscriptions/listen",
)
"""What a process answers from what it knows, if the wire has no sessions; a stream stays open and looks again."""
SLACK = 3.0
"""For a machine that has much else to do."""
SECONDS_AFTER = 10.0
"""In which all is well again."""


@pytest.fixture(scope="module")
def hub() -> Iterator[RunningHub]:
    """The hub whose database stops."""
    with shared() as running:
        yield running


@contextmanager
def frozen() -> Iterator[None]:
    """Every process of the tests' Postgres, stopped within the block."""
    with superuser(autocommit=True) as connection:
        (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
        postmaster = psutil.Process(pid).parent()
        assert postmaster is not None
    stopped = [postmaster]
    postmaster.send_signal(signal.SIGSTOP)  # first: it starts no more
    try:
        for child in postmaster.children():
            child.send_signal(signal.SIGSTOP)
            stopped.append(child)
        yield
    finally:
        for process in reversed(stopped):
            process.send_signal(signal.SIGCONT)


class Heard(NamedTuple):
    """What a request was answered, and after how many seconds."""

    seconds: float
    status: int
    headers: httpx2.Headers
    text: str
    """Of a stream the first event with an answer."""


def timed(http: httpx2.Client, method: str, path: str, **given: Any) -> Heard:
    began = time.monotonic()
    with http.stream(method, path, **given) as answer:
        text = ""
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            if b"subscriptions/listen" not in answer.request.content and method == "POST":
                text = next((line[6:] for line in answer.iter_lines() if '"id"' in line and "data: " in line), "")
        else:
            text = answer.read().decode()
    return Heard(time.monotonic() - began, answer.status_code, answer.headers, text)


def cookies_of(hub: RunningHub) -> str:
    with Person(hub, "admin") as person:
        return "; ".join(f"{name}={value}" for name, value in person._http.cookies.items())


def wire_requests(stack: ExitStack, hub: RunningHub, base: str, task: str) -> dict[str, tuple[str, Any, Any]]:
    """A request for each method of each revision, by both: its path, message and headers."""
    token = hub.tokens["agent-a"]
    modern, historical = Client(base, token), Historical(base, token)
    found: dict[str, tuple[str, Any, Any]] = {}
    for revision, served in REVISIONS.items():
        if revision not in served.methods:
            continue
        session = None
        if revision in WITH_SESSIONS:
            session = stack.enter_context(SessionClient(base, token, version=revision))
        for method in served.methods[revision]:
            params = {**NAMES.get(method, {}), **({"taskId": task} if method.startswith("tasks/") else {})}
            if session is not None:
                message, path = session.request(method, params), "/mcp"
                headers = session.headers()
            elif served.mount:
                message, path = historical.request(method, params), f"/mcp/{served.mount}"
                headers = historical.headers(message)
            else:
                message, path = modern.message(method, params, caps=TASKS), "/mcp"
                headers = modern.headers(message)
            found[f"{revision} {method}"] = (path, message, headers)
    return found


def test_every_path_gives_up_soon_and_all_goes_on_after(hub: RunningHub) -> None:
    with (
        webs(hub, 1) as (web,),
        httpx2.Client(base_url=web.base, timeout=60, trust_env=False, limits=httpx2.Limits(), verify=_NO_TLS) as http,
        Client(web.base, hub.tokens["agent-a"]) as client,
        ThreadPoolExecutor(300) as threads,
        ExitStack() as stack,
    ):
        page = {**PAGE, "cookie": cookies_of(hub)}
        assert http.get("/tasks/", headers=page).status_code == 200
        running = client.create("slow_compute", {"seconds": 2})
        wire = wire_requests(stack, hub, web.base, running)
        refresh = "grant_type=refresh_token&refresh_token=x"

        def ask() -> dict[str, Future[Heard]]:
            """More of everything than can be under way at once, so that some wait for the others."""
            asked = {
                name: threads.submit(timed, http, "POST", path, json=message, headers=headers)
                for name, (path, message, headers) in wire.items()
            }
            for n in range(12):
                asked[f"page {n}"] = threads.submit(timed, http, "GET", "/tasks/", headers=page)
                asked[f"token {n}"] = threads.submit(timed, http, "POST", "/oauth/token", headers=FORM, content=refresh)
                asked[f"metrics {n}"] = threads.submit(timed, http, "GET", "/metrics")
            for path in ("/readyz", "/readyz?full", "/healthz"):
                asked[path] = threads.submit(timed, http, "GET", path)
            return asked

        with frozen():
            first = ask()
            wait([first["2026-07-28 tasks/get"]])
            # Where connections are made anew.
            second = ask()
            answers = [(name, asking.result()) for asked in (first, second) for name, asking in asked.items()]
        late = {name: heard.seconds for name, heard in answers if heard.seconds > DEADLINE}
        assert not late, late
        for name, heard in answers:
            told = (name, heard.status, heard.text)
            revision, _, method = name.partition(" ")
            old = revision in WITH_SESSIONS
            if name == "/healthz":
                assert heard.status == 200, told
            elif method in KNOWN and not old:
                assert heard.status == 200, told
                assert not heard.text or "result" in json.loads(heard.text), told
            elif name in wire:
                assert heard.status == (200 if old else 503), told  # old clients survive no other status
                assert json.loads(heard.text)["error"]["code"] == 50300, told
                assert int(heard.headers["retry-after"]) > 0, told
            else:
                assert heard.status == 503, told
                assert int(heard.headers["retry-after"]) > 0, told
        for path in ("/readyz", "/readyz?full"):
            ready = next(heard for name, heard in answers if name == path)
            assert json.loads(ready.text)["status"] == "not ready"
            assert ready.seconds < 2 + SLACK
        assert "cannot answer just now" in next(heard.text for name, heard in answers if name == "page 0")
        wait_until(web.ready, "the database to go on", SECONDS_AFTER)
        assert timed(http, "GET", "/tasks/", headers=page).status == 200
        assert client.tool("greet", {"name": "again"}).text == "Hello, again!"
        assert client.until(running, "completed", seconds=30)["status"] == "completed"
        attempts = hub.sql(
            "SELECT count(*) FROM attempt JOIN task ON task.id = attempt.task_id WHERE task.public_id = %s", (running,)
        )
        assert attempts == [(1,)], "nothing ran twice"


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
def test_a_call_whose_stream_the_hub_ends_was_left_by_nobody(hub: RunningHub, tmp_path: Path, version: str) -> None:
    name, file = f"frozen-{secrets.token_hex(4)}", tmp_path / "there"
    token = hub.token(name)
    # Soon the stream looks at the database.
    hub.sql("UPDATE auth_context SET patience_ms = 2000 WHERE name = %s", [name])
    params = {"name": "await_file", "arguments": {"path": str(file)}}
    of_client = " WHERE context_id = (SELECT id FROM auth_context WHERE name = %s)"

    def mine(what: str) -> list[Any]:
        return [found for (found,) in hub.sql(f"SELECT {what} FROM task{of_client} ORDER BY id", [name])]

    with ExitStack() as stack:
        modern = stack.enter_context(Client(hub.base, token))
        session = None if version == "2026-07-28" else stack.enter_context(SessionClient(hub.base, token))
        opened = modern.stream("tools/call", params) if session is None else session.open("tools/call", params)
        with opened as events:
            wait_until(lambda: mine("state") == ["working"], "a worker")
            with frozen(), suppress(httpx2.HTTPError, AssertionError):
                while True:
                    events.next()  # it fails when the stream has ended
        wait_until(lambda: mine("left_at IS NOT NULL") == [True], "the hub to note that nobody waits", 30)
        file.touch()
        wait_until(lambda: mine("state") == ["finished"], "the end")
        again = (modern if session is None else session).tool("await_file", params["arguments"])
        assert again.text == "Found there"
    assert mine("lease_epoch") == [1], "it ran once"
    recorded = hub.sql("SELECT action FROM event WHERE task_id = (SELECT id FROM task" + of_client + ")", [name])
    assert {"task.left", "task.cancel.requested"}.isdisjoint(action for (action,) in recorded)
    assert hub.sql("SELECT * FROM learned_patience" + of_client, [name]) == []
