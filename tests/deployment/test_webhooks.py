"""Webhooks of a whole hub: a worker that is killed in the middle of a delivery loses nothing."""

from __future__ import annotations

import signal
import threading

from tests.support.client import Client
from tests.support.fixtures import alice
from tests.support.hub import RunningHub, wait_until
from tests.support.receiver import Receiver

__all__ = ["alice"]


def test_a_killed_worker_s_message_is_sent_again_under_its_id(hub: RunningHub, alice: Client) -> None:
    receiver, done = Receiver(), threading.Event()
    receiver.secret = hub.manage("webhook", "add", "ours", receiver.url, "--events", "task.finished").strip()
    receiver.before_answer = lambda message: done.wait(60) and None
    try:
        task = alice.create("slow_compute", {"seconds": 1.5})
        wait_until(lambda: receiver.received, "a delivery under way", 20)
        ((worker,),) = hub.sql(
            "SELECT a.worker FROM attempt a JOIN task t ON t.id = a.task_id WHERE t.public_id = %s", (task,)
        )
        hub.process_of(int(worker.rpartition(":")[2])).send_signal(signal.SIGKILL)
        done.set()
        # Its lease would run out in a minute.
        hub.sql(
            "UPDATE notice SET lease_until = clock_timestamp() - interval '1 second' WHERE state = 'due' RETURNING id"
        )
        wait_until(lambda: len(receiver.received) == 2, "the message again, from another worker", 60)
        wait_until(lambda: hub.sql("SELECT 1 FROM notice WHERE state = 'sent'"), "its end", 20)
    finally:
        done.set()
        hub.manage("webhook", "remove", "ours")
        receiver.close()
    assert receiver.problems == []
    first, again = receiver.received
    assert (first.id, first.body) == (again.id, again.body)
    assert (first.attempt, again.attempt) == (1, 2)
    assert first.body["data"]["task"] == task
    logged = hub.log.read_text()
    assert receiver.secret not in logged
    assert "of-mine" not in logged
