"""A hub under load while a test breaks something: what was acknowledged must come to its end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2

from tests.support.client import Client

THREADS = 4


@contextmanager
def load(base: str, token: str) -> Iterator[list[str]]:
    """Creates short tasks of the demo server for the block, again and again, also while that fails. Yields the ids
    that were acknowledged, as they come."""
    acknowledged: list[str] = []
    stop = threading.Event()

    def create() -> None:
        with Client(base, token) as client:
            while not stop.is_set():
                try:
                    acknowledged.append(client.create("countdown", {"seconds": 0.2, "steps": 2}))
                except (httpx2.HTTPError, AssertionError):
                    stop.wait(0.05)

    threads = [threading.Thread(target=create) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    try:
        yield acknowledged
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)


def all_completed(base: str, token: str, tasks: list[str]) -> None:
    """Fails for the first that does not."""
    with Client(base, token) as client:
        for task in tasks:
            assert client.until(task, "completed", "failed", seconds=45)["status"] == "completed"
