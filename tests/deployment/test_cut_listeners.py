"""The connection that listens for hints is cut: the process behind it must go on as if nothing had been."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request

import pytest

from tests.support.client import Client
from tests.support.hub import RunningHub, wait_until

pytestmark = pytest.mark.processes

TIMES = 5
LISTENING = "FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'taskhub-hints'"


def cut_listeners(hub: RunningHub) -> None:
    """Terminate the backends of both, and wait until both listen again."""
    wait_until(lambda: hub.sql(f"SELECT count(*) = 2 {LISTENING}")[0][0], "both processes to listen")
    (before,) = hub.sql(f"SELECT array_agg(pid), count(pg_terminate_backend(pid)) {LISTENING}")
    wait_until(
        lambda: hub.sql(f"SELECT count(*) = 2 {LISTENING} AND pid <> ALL (%s)", (before[0],))[0][0],
        "both processes to listen again",
    )


def healthy(hub: RunningHub) -> bool:
    """Whether the web process answers on a new connection."""
    request = urllib.request.Request(f"{hub.base}/healthz", headers={"Connection": "close"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def test_a_web_process_answers_whatever_happens_to_its_listener(hub: RunningHub) -> None:
    """New connections all the while: each takes the lowest free descriptor, that of the cut one too."""
    over = threading.Event()
    answers: list[bool] = []

    def ask() -> None:
        while not over.is_set():
            answers.append(healthy(hub))

    asking = [threading.Thread(target=ask) for _ in range(3)]
    for thread in asking:
        thread.start()
    try:
        for _ in range(TIMES):
            seen = len(answers)
            cut_listeners(hub)
            wait_until(lambda seen=seen: len(answers) > seen + 6, "requests in between", 30)  # type: ignore[misc]
    finally:
        over.set()
        for thread in asking:
            thread.join(30)
    assert all(answers)
    assert [healthy(hub) for _ in range(6)] == [True] * 6


def test_a_worker_wakes_at_once_whatever_happened_to_its_listener(hub: RunningHub) -> None:
    for _ in range(TIMES):
        cut_listeners(hub)
    with Client(hub.base, hub.tokens["agent-a"]) as client:
        began = time.monotonic()
        for _ in range(5):
            client.until(client.create("slow_compute", {"seconds": 1, "label": "x"}), "completed")
        # Without hints each would wait for its wake-up job, which is due a second later.
        assert time.monotonic() - began < 5 * 1.0 + 4.5
