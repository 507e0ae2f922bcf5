"""Sends the hints of committed changes: one small transaction for all hints that are waiting.

Postgres lets one transaction with a NOTIFY commit at a time, and holds the others until its fsync is done. Inside the
durable transactions, notifications limited all commits together to the disk's fsync rate (measured: 320 creations a
second instead of over 1,000). So the hint follows the commit, from a thread of its own, in a transaction that does not
wait for the disk. A process that dies in between loses only the hint: the wake-up job, the sweep, or the waiter itself,
which looks again every few seconds, finds the change.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Sequence
from queue import Empty, Queue

import psycopg
from django.db import connection, transaction

from taskhub.core.errors import Unavailable
from taskhub.core.hints import Hint, TaskHint, encode
from taskhub.core.names import HINT_CHANNEL
from taskhub.store import statements

logger = logging.getLogger(__name__)

BATCH = 50
"""The most hints in one NOTIFY, so that it stays far below its limit of 8,000 bytes. Each listener wakes once for all
of them."""

PAUSE_SECONDS = 0.001
"""Least time between two notifications. Each one wakes a thread in every process; under load, the pause lets more hints
share one."""

_NOTIFY = statements.none("notify")
NOTIFY_SOON = statements.none("notify_soon")
_WAIT_FOR_NO_DISK = statements.none("wait_for_no_disk")
_NOTIFY_OF_TASKS = statements.none("notify_of_tasks")

TOGETHER_SECONDS = 0.05
"""The most seconds for which `announce_together` gathers hints for one notification."""

_queue: Queue[tuple[int, float]] = Queue()
"""Tasks to announce, each with the `time.monotonic` at which its hint is due."""
_thread: list[threading.Thread] = []
_starting = threading.Lock()


def announce(*task_ids: int) -> None:
    """Send hints for the tasks from the hint thread, once the running transaction (if any) commits."""
    if task_ids:
        transaction.on_commit(lambda: _enqueue(task_ids, 0.0))


def announce_together(*task_ids: int) -> None:
    """As `announce`, but the hints may wait for other hints, for at most `TOGETHER_SECONDS`. For changes for which only
    this process waits, which knows of them already."""
    if task_ids:
        transaction.on_commit(lambda: _enqueue(task_ids, TOGETHER_SECONDS))


def notify(*hints: Hint) -> None:
    """Send hints with the commit of the running transaction. Only for rare changes, because that commit waits for all
    other commits with a NOTIFY."""
    _NOTIFY(channel=HINT_CHANNEL, hints=encode(*hints))


def announce_created(created: Sequence[TaskHint]) -> None:
    """Wake the workers for new tasks, once the running transaction (if any) commits. Sent from the calling thread:
    handing over to the hint thread would delay the tasks, which wait for a worker."""
    if created:
        transaction.on_commit(lambda: _send_now(created))


def _send_now(created: Sequence[TaskHint]) -> None:
    for start in range(0, len(created), BATCH):
        payload = encode(*created[start : start + BATCH])
        try:
            NOTIFY_SOON(channel=HINT_CHANNEL, hints=payload)
        except (Unavailable, psycopg.Error) as error:
            logger.warning("%d hints were not sent: %s", len(created), error)


def _enqueue(task_ids: tuple[int, ...], seconds: float) -> None:
    if not _thread or not _thread[0].is_alive():
        with _starting:
            if not _thread or not _thread[0].is_alive():
                _thread[:] = [threading.Thread(target=_work, name="hints", daemon=True)]
                _thread[0].start()
                atexit.register(flush)
    due = time.monotonic() + seconds
    for task_id in task_ids:
        _queue.put((task_id, due))


def flush(seconds: float = 2.0) -> None:
    """Wait until the hints announced so far are sent, at most `seconds`. For a process that is about to end."""
    with _queue.all_tasks_done:
        _queue.all_tasks_done.wait_for(lambda: not _queue.unfinished_tasks, seconds)


def _work() -> None:
    sent_at = 0.0
    while True:
        task_id, due = _queue.get()
        waiting = [task_id]
        if (early := sent_at + PAUSE_SECONDS - time.monotonic()) > 0:
            time.sleep(early)
        try:
            while len(waiting) < BATCH:
                task_id, soonest = _queue.get(timeout=max(0.0, due - time.monotonic()))
                waiting.append(task_id)
                due = min(due, soonest)
        except Empty:
            pass
        _tell(set(waiting))
        sent_at = time.monotonic()
        for _ in waiting:
            _queue.task_done()


def _tell(task_ids: set[int]) -> None:
    """Send hints for these tasks on this thread's own connection. Never raises, so that the thread goes on."""
    try:
        if connection.connection is None or connection.connection.waits_for_disk:  # a new connection
            _WAIT_FOR_NO_DISK()
            connection.connection.waits_for_disk = False
        _NOTIFY_OF_TASKS(channel=HINT_CHANNEL, tasks=list(task_ids))
    except (Unavailable, psycopg.Error) as error:
        logger.warning("%d hints were not sent: %s", len(task_ids), error)
    except Exception:
        logger.exception("hints were not sent")
