"""A part of `up` that lives and does nothing is replaced, as one that died."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import timedelta

import psutil
import pytest

from taskhub.cli import vitals
from tests.deployment.test_faults import DEMO
from tests.support.client import Client
from tests.support.hasty import HASTY, LOOK_SECONDS
from tests.support.hub import RunningHub, wait_until

pytestmark = pytest.mark.processes

PATIENCE = 150.0
"""Several times what it takes where nothing else runs."""


@pytest.fixture
def hub() -> Iterator[RunningHub]:
    """A hub of the test's own, whose parts soon count as hung."""
    running = RunningHub(servers=(DEMO,), **HASTY)
    try:
        yield running
    finally:
        running.stop()


def signs_of_life(hub: RunningHub, worker: psutil.Process) -> bool:
    """Whether the worker beat for so long that `up` has seen its heart move."""
    seen = timedelta(seconds=3 * LOOK_SECONDS)
    return bool(hub.sql("SELECT 1 FROM worker WHERE pid = %s AND heartbeat_at > started_at + %s", (worker.pid, seen)))


def test_a_worker_and_a_web_process_that_hang_are_replaced(hub: RunningHub) -> None:
    worker, web = hub.part("worker"), hub.part("web")
    wait_until(lambda: signs_of_life(hub, worker), "heartbeats", 60)
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        task = client.create("countdown", {"seconds": 5, "steps": 10})
        wait_until(lambda: hub.sql("SELECT 1 FROM task WHERE progress > 0"), "progress")
    for part in (worker, web):
        part.send_signal(signal.SIGSTOP)
    wait_until(lambda: "web hung" in hub.log.read_text(), "the web process to be replaced", PATIENCE)
    wait_until(lambda: "worker 1 hung" in hub.log.read_text(), "the worker to be replaced", PATIENCE)
    wait_until(lambda: not worker.is_running() and not web.is_running(), "the end of both")
    log = hub.log.read_text()
    assert f"taskhub: worker 1 hung ({vitals.Beats.lacking}) and was killed; starting it again\n" in log
    assert f"taskhub: web hung ({vitals.Answers.lacking}) and was killed; starting it again\n" in log
    assert (log.count("hung"), log.count("ended (")) == (2, 0)
    wait_until(hub._listed, "the hub to be ready again", 60)
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        assert client.until(task, "completed", seconds=60)["status"] == "completed"
    assert hub.sql("SELECT outcome FROM attempt ORDER BY number") == [("lost",), ("finished",)]
