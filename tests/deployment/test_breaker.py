"""A server over HTTP is closed and opened again, behind a hub with two workers."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from tests.deployment.test_fairness import DEMO, free_port, served
from tests.support.client import Client
from tests.support.hub import RunningHub, wait_until
from tests.support.person import Person

pytestmark = pytest.mark.processes

FAILED = "SELECT count(*) FROM task WHERE state = 'faulted'"
# A worker that has not heard yet may take some in the first moment.
TRIES = (
    "SELECT a.started_at, a.ended_at FROM attempt a WHERE a.outcome = 'released' AND a.started_at >"
    " (SELECT at FROM event WHERE action = 'server.breaker.opened') + interval '3 seconds' AND a.started_at <"
    " coalesce((SELECT at FROM event WHERE action = 'server.breaker.closed'), 'infinity') ORDER BY a.started_at"
)
EVENTS = "SELECT action, before, after FROM event WHERE starts_with(action, 'server.breaker.') ORDER BY id"


def test_calls_wait_while_it_is_closed_and_run_when_it_is_open_again() -> None:
    port = free_port()
    with served(port) as (address, _):
        hub = RunningHub("--workers", "2", servers=(DEMO, f"remote={address}"))
    try:
        with Client(hub.base, hub.tokens["agent-a"]) as agent:
            name, once = "remote__countdown", {"seconds": 1, "steps": 1}
            # What is still connected to it fails too, in other words.
            while not hub.sql("SELECT 1 FROM server WHERE open_since IS NOT NULL"):
                task = agent.create(name, once)
                assert agent.until(task, "failed", seconds=20)["status"] == "failed"
            failed = hub.sql(FAILED)
            waiting = [agent.create(name, once) for _ in range(60)]
            assert str(agent.get(waiting[-1]).result["statusMessage"]).startswith("Waiting for its server")
            tries = wait_until(lambda: hub.sql(TRIES), "one of them to try", 20)
            with Person(hub, "admin") as admin:
                (server,) = hub.sql("SELECT id FROM server WHERE name = 'remote'")[0]
                admin.try_now(server)
            wait_until(lambda: len(hub.sql(TRIES)) > len(tries), "another to try, at once", 5)
            assert hub.sql("SELECT count(*) FROM task WHERE lease_until IS NOT NULL") <= [(1,)]
            with served(port):
                began = time.monotonic()
                for task in waiting:
                    assert agent.until(task, "completed", seconds=40)["status"] == "completed"
                print(f"all of them {time.monotonic() - began:.1f} s after it was back")
                assert hub.sql(FAILED) == failed, "none of those that waited has failed"
                assert hub.sql("SELECT 1 FROM server WHERE open_since IS NOT NULL") == []
        tries = hub.sql(TRIES)
        assert all(before[1] <= after[0] for before, after in pairwise(tries)), "one at a time"
        assert [action.rpartition(".")[2] for action, *_ in hub.sql(EVENTS)] == ["opened", "closed"]
        assert hub.sql("SELECT actor FROM event WHERE action = 'server.probe.requested'") == [("admin",)]
    finally:
        hub.stop()
