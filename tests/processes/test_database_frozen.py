"""A Postgres that is stopped in its tracks: it keeps its connections, takes new ones, and answers nothing."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx2
import psutil
import pytest

from tests.processes.test_database_away import FORM, PAGE, later
from tests.store.flushing import superuser
from tests.support.client import TASKS, Client
from tests.support.hub import RunningHub, shared, wait_until
from tests.support.person import Person
from tests.support.session import SessionClient
from tests.support.web import webs

pytestmark = pytest.mark.processes

DEADLINE = 7.0
"""Seconds for one statement: see docs/run/limits.md."""
SLACK = 3.0
"""For a machine that has much else to do."""


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


def timed(http: httpx2.Client, method: str, path: str, **given: object) -> tuple[float, httpx2.Response]:
    """What it answers, and after how many seconds."""
    began = time.monotonic()
    answer = http.request(method, path, **given)  # type: ignore[arg-type]  # headers, content or json, as httpx types each
    return time.monotonic() - began, answer


def cookies_of(hub: RunningHub) -> str:
    with Person(hub, "admin") as person:
        return "; ".join(f"{name}={value}" for name, value in person._http.cookies.items())


def test_every_path_gives_up_soon_and_all_goes_on_after(hub: RunningHub) -> None:
    with (
        webs(hub, 1) as (web,),
        httpx2.Client(base_url=web.base, timeout=60, trust_env=False) as http,
        SessionClient(web.base, hub.tokens["agent-a"]) as session,
        Client(web.base, hub.tokens["agent-a"]) as client,
        ThreadPoolExecutor(9) as threads,
    ):
        page = {**PAGE, "cookie": cookies_of(hub)}
        assert http.get("/tasks/", headers=page).status_code == 200
        running = client.create("slow_compute", {"seconds": 2})
        get = client.message("tasks/get", {"taskId": running}, caps=TASKS)
        call = client.message("tools/call", {"name": "greet", "arguments": {"name": "lost"}}, caps=TASKS)
        listing = {"jsonrpc": "2.0", "id": 7, "method": "tasks/list", "params": {}}
        with frozen():
            asked = {
                "page": threads.submit(timed, http, "GET", "/tasks/", headers=page),
                "token": threads.submit(
                    timed,
                    http,
                    "POST",
                    "/oauth/token",
                    headers=FORM,
                    content="grant_type=refresh_token&refresh_token=x",
                ),
                "get": threads.submit(timed, http, "POST", "/mcp", json=get, headers=client.headers(get)),
                "call": threads.submit(timed, http, "POST", "/mcp", json=call, headers=client.headers(call)),
                "session": threads.submit(timed, http, "POST", "/mcp", json=listing, headers=session.headers()),
            }
            assert timed(http, "GET", "/healthz")[1].status_code == 200
            ready = [threads.submit(timed, http, "GET", "/readyz") for _ in range(3)]
            for seconds, answer in (asking.result() for asking in ready):
                assert later(answer), answer.text
                assert answer.json()["status"] == "not ready"
                assert seconds < 2 + SLACK, seconds
            answers = {name: asking.result() for name, asking in asked.items()}
        for name, (seconds, answer) in answers.items():
            assert seconds < DEADLINE + SLACK, (name, seconds)
            assert int(answer.headers["retry-after"]) > 0, (name, answer.status_code, answer.text)
            assert answer.status_code == (200 if name == "session" else 503), (name, answer.text)
        for name in ("get", "call", "session"):
            assert answers[name][1].json()["error"]["code"] == 50300, name
        assert later(answers["page"][1])
        assert "cannot answer just now" in answers["page"][1].text, "a page for people"
        wait_until(web.ready, "the database to go on", 30)
        assert http.get("/tasks/", headers=page).status_code == 200
        assert client.tool("greet", {"name": "again"}).text == "Hello, again!"
        assert client.until(running, "completed", seconds=30)["status"] == "completed"
        attempts = hub.sql(
            "SELECT count(*) FROM attempt JOIN task ON task.id = attempt.task_id WHERE task.public_id = %s", (running,)
        )
        assert attempts == [(1,)], "nothing ran twice"
