"""A part that meets an error of the database that no retry can mend says so and ends: whoever started it starts
another. It never goes on as if it lived."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.client import Client
from tests.support.hasty import HASTY
from tests.support.hub import RunningHub, wait_until
from tests.support.web import web

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

SECONDS = 60.0
"""Several times what the end of a process and the start of another take where nothing else runs."""


@pytest.fixture(scope="module")
def hub() -> Iterator[RunningHub]:
    """A hub of this file's own: its parts end. Each test leaves it whole, but for tools that do not stop."""
    running = RunningHub(servers=("python:tests.upstream.servers:workshop",), **HASTY)
    try:
        yield running
    finally:
        running.stop(SECONDS)


@contextmanager
def renamed(hub: RunningHub, what: str, name: str) -> Iterator[None]:
    """What statements name so is called otherwise within the block. `what` is all before the name in `ALTER TABLE`."""
    hub.sql(f"ALTER TABLE {what} {name} TO {name}_away")
    try:
        yield
    finally:
        hub.sql(f"ALTER TABLE {what} {name}_away TO {name}")


def test_a_worker_that_cannot_claim_ends_whatever_its_tools_do_and_the_next_one_works(hub: RunningHub) -> None:
    worker = hub.part("worker")
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        # Neither a tool that ignores its cancellation nor one that blocks its server's thread keeps the process.
        for tool, arguments in (("hold", {"linger": True}), ("block", {})):
            client.create(tool, arguments)
        both = "SELECT count(*) = 2 FROM task WHERE lease_until IS NOT NULL AND tool_name IN ('hold', 'block')"
        wait_until(lambda: hub.sql(both)[0][0], "both to run", SECONDS)
        # What a claim reads, and a creation does not.
        with renamed(hub, "tool RENAME COLUMN", "question_audience"):
            task = client.create("wait_for_another", {})
            wait_until(lambda: not worker.is_running(), "the end of the worker", SECONDS)
        log = hub.log.read_text()
        assert "psycopg.errors.UndefinedColumn" in log
        assert "Traceback (most recent call last):" in log
        assert "the worker ends, since claiming met an error that it cannot go on with" in log
        assert "worker 1 ended (exit code 1); starting it again" in log
        running = "SELECT 1 FROM task WHERE public_id = %s AND lease_until IS NOT NULL"
        wait_until(lambda: hub.sql(running, [task]), "the next worker to claim", SECONDS)


def test_a_web_process_without_its_chores_ends(hub: RunningHub) -> None:
    with web(hub) as one:
        with Client(one.base, hub.tokens["agent-a"]) as client:
            task = client.create("wait_for_another", {})
            with renamed(hub, "task RENAME COLUMN", "last_polled_at"):
                client.get(task)
                wait_until(lambda: one.process.poll() is not None, "the end of the web process", SECONDS)
        assert one.process.returncode == 1
        log = one.log.read_text()
        assert "psycopg.errors.UndefinedColumn" in log
        assert "this process ends, since marks of polls met an error that it cannot go on with" in log
