"""One client's long tasks leave room for everybody else's, on a whole hub as it comes."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.support.client import Client
from tests.support.hub import RunningHub, wait_until

pytestmark = pytest.mark.processes

DEMO = "python:taskhub.demo.server:server"
SLOTS = 32
"""Of one worker, by default."""


@pytest.fixture
def hub() -> Iterator[RunningHub]:
    running = RunningHub(servers=(DEMO,))
    try:
        yield running
    finally:
        running.stop()


def test_a_client_with_sixty_four_long_tasks_keeps_nobody_else_waiting(hub: RunningHub) -> None:
    with Client(hub.base, hub.tokens["agent-a"]) as busy, Client(hub.base, hub.tokens["agent-b"]) as other:
        other.call("tools/call", {"name": "echo", "arguments": {"text": "warm"}}, name="echo")
        # 16 at a time would take four minutes.
        for _ in range(64):
            busy.create("countdown", {"seconds": 60, "steps": 1})
        held = "SELECT count(*) FROM task WHERE lease_until IS NOT NULL"
        wait_until(lambda: hub.sql(held)[0][0] >= SLOTS // 2, "its share to run")
        began = time.monotonic()
        answer = other.call("tools/call", {"name": "echo", "arguments": {"text": "hello"}}, name="echo")
        assert answer.text == "hello"
        assert time.monotonic() - began < 2.0
        assert hub.sql(held) == [(SLOTS // 2,)]
        assert hub.sql("SELECT count(*) FROM task WHERE state = 'queued'") == [(64 - SLOTS // 2,)]
