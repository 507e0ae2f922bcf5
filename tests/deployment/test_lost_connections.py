"""All sessions of a hub at its database are ended while nobody uses them: no request fails for that, and none waits
until somebody looks again by himself."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.client import Client
from tests.support.hub import RunningHub, wait_until
from tests.support.person import Person

pytestmark = pytest.mark.processes

AT_ONCE = 12
"""More than a web process has lanes of a kind."""
SOON = 4.0
"""Seconds: who was told nothing looks after 5 at the earliest."""
OURS = "datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"


def end_all(hub: RunningHub) -> None:
    """Web, worker, `up`; lanes, listeners, announcers, procrastinate's. Returns when they have ended."""
    ended = hub.sql(f"SELECT pid, backend_start, pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OURS}")
    assert len(ended) >= 20, "lanes of web and worker are connected"
    # Not the result of pg_terminate_backend: a session that the hub closes meanwhile is none any more.
    before = {tuple(session[:2]) for session in ended}
    wait_until(
        lambda: not before & set(hub.sql(f"SELECT pid, backend_start FROM pg_stat_activity WHERE {OURS}")),
        "the end of each",
    )


def timed(what: str, do: Callable[[], object]) -> tuple[str, float]:
    began = time.monotonic()
    do()
    return what, time.monotonic() - began


def test_no_request_notices_that_every_idle_connection_was_ended(hub: RunningHub) -> None:
    with (
        Client(hub.base, hub.tokens["agent-a"]) as client,
        Person(hub, "admin") as admin,
        ThreadPoolExecutor(AT_ONCE) as threads,
    ):
        running = client.create("slow_compute", {"seconds": 600, "label": "x"})
        before = len(hub.log.read_text())

        def get() -> None:
            assert client.get(running).result["taskId"] == running

        def page() -> None:
            admin._http.get("/tasks/").raise_for_status()

        def call() -> None:
            # Made, run, told: the announcer and all listeners have a part in it.
            assert client.tool("greet", {"name": "you"}).text == "Hello, you!"

        for round_ in range(4):
            for each in [threads.submit(do) for do in (get, page, call) for _ in range(AT_ONCE)]:
                each.result(30)  # so that all lanes have a connection
            if round_ == 3:
                break
            end_all(hub)
            # One after the other, so that each lane comes to its own.
            asked = [timed("call", call) for _ in range(3)]
            asked += [timed("get", get) for _ in range(AT_ONCE)]
            asked += [timed("page", page) for _ in range(AT_ONCE)]
            assert [(what, seconds) for what, seconds in asked if seconds > SOON] == []
        end_all(hub)
        assert timed("cancel", lambda: client.cancel(running))[1] < SOON
        began = time.monotonic()
        client.until(running, "cancelled")
        assert time.monotonic() - began < SOON, "its worker was told"
        log = hub.log.read_text()[before:]
    assert "hints were not sent" not in log, log
    assert "503 for " not in log, log
    assert "database" not in log, log
