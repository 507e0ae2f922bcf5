"""The database's disk fills up under a running hub: it says so in those words wherever somebody looks, answers what it
can, and goes on by itself when there is room again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import psycopg
import pytest
from psycopg import sql

from tests.support.client import Client
from tests.support.hub import ROOT, RunningHub, wait_until
from tests.support.person import Person
from tests.support.small_disk import SmallDisk, mountable, small_disk

pytestmark = pytest.mark.processes

DEMO = "python:taskhub.demo.server:server"
FULL = "The database's disk is full: nothing new can be stored."
ONLY_READS = "The database only reads: nothing new can be stored."
STRIP = "The database’s disk is full: nothing new can be stored."
SOON = 60.0


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    if not mountable():
        pytest.skip("a disk small enough to be filled is a tmpfs, which cannot be mounted here")
    with small_disk() as found:
        yield found


@pytest.fixture
def hub(disk: SmallDisk) -> Iterator[RunningHub]:
    class There(RunningHub):
        """A hub whose database is on that disk."""

        @staticmethod
        def url_of(database: str) -> str:
            return disk.url.replace("/taskhub?", f"/{database}?")

        @staticmethod
        def _connect(database: str) -> psycopg.Connection[tuple[object, ...]]:
            return psycopg.connect(There.url_of(database), autocommit=True)

        @staticmethod
        def _admin(statement: sql.Composed) -> None:
            with There._connect("taskhub") as connection:
                connection.execute(statement)

    running = There(servers=(DEMO,), other_tables=True)
    try:
        yield running
    finally:
        disk.free()
        running.stop()


def doctor(hub: RunningHub) -> tuple[int, str]:
    running = begun(hub, "doctor")
    out, _ = running.communicate()
    return running.returncode, out


def begun(hub: RunningHub, *words: str) -> subprocess.Popen[str]:
    known = {**hub.environment, "TASKHUB_DATA_DIR": str(hub.data)}
    command = [sys.executable, "manage.py", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=known, stdout=pipe, stderr=pipe, text=True)


def test_a_full_disk_is_told_in_words_and_the_hub_goes_on_when_there_is_room(hub: RunningHub, disk: SmallDisk) -> None:
    def ready(path: str) -> dict[str, Any]:
        found: dict[str, Any] = httpx2.get(f"{hub.base}{path}", trust_env=False, timeout=SOON).json()
        return found

    def stored(client: Client) -> httpx2.Response:
        """A call that needs room of its own: what is random cannot be packed."""
        message = client.message("tools/call", {"name": "echo", "arguments": {"text": os.urandom(30_000).hex()}})
        headers = client.headers(message)
        return httpx2.post(f"{hub.base}/mcp", json=message, headers=headers, trust_env=False, timeout=SOON)

    with Client(hub.base, hub.tokens["agent-a"]) as client, Person(hub, "admin") as person:
        task = client.create("countdown", {"seconds": 1, "steps": 2})
        client.until(task, "completed")
        assert STRIP not in person.read("/tasks/")
        disk.fill()
        # Refused in those words, with when to come back.
        answer = stored(client)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
        assert answer.json()["error"] == {"code": 50300, "message": f"{FULL} Try again later."}
        # Reads go on, also those of people, who are told.
        assert client.get(task).result["status"] == "completed"
        assert STRIP in person.read("/tasks/")
        assert STRIP in person.read("/disk")
        assert ready("/readyz") == {"status": "ready", "problems": []}
        assert FULL in ready("/readyz?full")["problems"]
        code, out = doctor(hub)
        assert (code, f"FAIL disk: {FULL}" in out) == (1, True), out
        calling = begun(hub, "call", "echo", f"text={os.urandom(30_000).hex()}", "--url", hub.base)
        assert calling.stderr is not None
        first = next(line for line in calling.stderr if not line[:4].isdigit())
        assert first == f"  {FULL} Try again later. (50300); trying again for up to 60 s …\n"
        wait_until(lambda: FULL in hub.log.read_text(), "a line of the log", SOON)
        assert "The database is away" not in hub.log.read_text()
        disk.free()
        wait_until(lambda: stored(client).status_code == 200, "room", SOON)
        _, after = calling.communicate(timeout=SOON)
        assert (calling.returncode, after) == (0, "  The hub is back\n")
        wait_until(lambda: STRIP not in person.read("/disk"), "no strip", SOON)
        assert STRIP not in person.read("/tasks/")
        assert ready("/readyz?full") == {"status": "ready", "problems": []}
        code, out = doctor(hub)
        assert "ok   disk: a megabyte can be written" in out
        again = client.create("countdown", {"seconds": 1, "steps": 2})
        assert client.until(again, "completed", seconds=SOON)["status"] == "completed"
        _it_only_reads(hub, client, task, stored, ready)
    assert "ended (" not in hub.log.read_text()


def _it_only_reads(
    hub: RunningHub,
    client: Client,
    task: str,
    stored: Callable[[Client], httpx2.Response],
    ready: Callable[[str], dict[str, Any]],
) -> None:
    """As a standby does, or what a provider makes of a full database. On the hub of the full disk: another costs."""

    def make(state: str) -> None:
        writes = "-c default_transaction_read_only=off"
        with psycopg.connect(hub.url_of(hub.database), autocommit=True, options=writes) as postgres:
            name = sql.Identifier(hub.database)
            postgres.execute(
                sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = {}").format(name, sql.SQL(state))
            )
            postgres.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    before = len(hub.log.read_text())
    make("on")
    refused = {"code": 50300, "message": f"{ONLY_READS} Try again later."}
    wait_until(lambda: stored(client).json().get("error") == refused, "a refusal", SOON)
    assert client.get(task).result["status"] == "completed"
    assert ONLY_READS in ready("/readyz?full")["problems"]
    code, out = doctor(hub)
    assert (code, f"FAIL writes: {ONLY_READS}" in out) == (1, True), out
    for _ in range(20):
        assert stored(client).status_code == 503
    make("off")
    wait_until(lambda: stored(client).status_code == 200, "writes", SOON)
    wait_until(lambda: ready("/readyz?full")["problems"] == [], "a ready hub", SOON)
    wait_until(lambda: "takes what is written again" in hub.log.read_text()[before:], "a line of its end", SOON)
    log = hub.log.read_text()[before:]
    # A line of each process of the hub.
    assert 1 <= log.count(f"{ONLY_READS} Reads go on.") <= 4, log
    assert "Traceback" not in log
    assert len(log.splitlines()) < 60, log
