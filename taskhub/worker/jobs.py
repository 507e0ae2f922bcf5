"""The procrastinate jobs: the durable wake-up of workers, and the hourly and nightly jobs. The wake-up job only makes a
worker look for tasks. It names no task, because any worker may run it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

import procrastinate
from django.conf import settings
from django.db import connection
from procrastinate.contrib.django import app as django_app
from procrastinate.contrib.django import connector_params
from procrastinate.psycopg_connector import PsycopgConnector

from taskhub.core.names import QUEUE, WAKE_JOB
from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.audit.partitions import turn_part
from taskhub.domain.audit.seal import seal_events
from taskhub.domain.audit.verify import record_verdict, verify_audit
from taskhub.domain.notices.outbox import purge_notices
from taskhub.domain.oauth import applications
from taskhub.domain.people.browser_sessions import purge_sign_ins
from taskhub.domain.permits.writes import purge_permits
from taskhub.domain.rules.blocks import remove_ended
from taskhub.domain.sessions.reads import IDLE_DAYS
from taskhub.domain.sessions.writes import purge_sessions, purge_streams
from taskhub.domain.tasks.sweep import purge
from taskhub.domain.workers.lines import purge_lines
from taskhub.domain.workers.sessions import purge_upstream_sessions
from taskhub.store.chores import run_each
from taskhub.store.session import begin_async

logger = logging.getLogger(__name__)

REST: Final = 3.0
"""A nightly verification pauses this many times as long as it reads, so that it uses a quarter of one connection's
time."""

_wakers: list[Callable[[], None]] = []
_stopping = threading.Event()


def on_wake(call: Callable[[], None]) -> None:
    """Set the function that is called when a wake-up job runs in this process."""
    _wakers[:] = [call]
    _stopping.clear()


def stop() -> None:
    """Make running jobs that may take hours end soon."""
    _stopping.set()


def app() -> procrastinate.App:
    """The procrastinate app for Django's database, with the async connector that a worker needs."""
    # Django's connector would make the same connector, but without the settings of each database session.
    return django_app.with_connector(PsycopgConnector(kwargs=connector_params(), configure=begin_async))


@django_app.task(name=WAKE_JOB, queue=QUEUE)
async def run() -> None:
    """Make the worker that runs this job claim all tasks that can run."""
    for call in _wakers:
        call()


@django_app.periodic(cron="7 * * * *")
@django_app.task(name="taskhub.purge", queue=QUEUE, queueing_lock="purge")
def purge_old(timestamp: int) -> None:
    """Delete old rows in batches: ended tasks and notices past the retention, unused sessions of clients, ended
    sessions at servers, lines of commands, expired permits, streams that can no longer be resumed, and expired browser
    sessions. If deleting one kind fails, the others are still deleted, and then the job fails, which `doctor`
    reports."""
    try:
        run_each(
            {
                "purging tasks": lambda: _all(lambda: purge(retention_days=settings.TASKHUB_RETENTION_DAYS)),
                "purging notices": lambda: _all(lambda: purge_notices(retention_days=settings.TASKHUB_RETENTION_DAYS)),
                "purging sessions": lambda: _all(lambda: purge_sessions(idle_days=IDLE_DAYS)),
                "purging sessions at servers": lambda: _all(purge_upstream_sessions),
                "purging lines of commands": lambda: _all(purge_lines),
                "purging permits": lambda: _all(purge_permits),
                "purging streams": lambda: _all(purge_streams),
                "purging sessions of browsers": lambda: _all(purge_sign_ins),
            }
        )
    finally:
        connection.close()  # the thread is procrastinate's, and would keep the connection open


def _all(batch: Callable[[], int]) -> None:
    while batch() == 1_000:
        pass


@django_app.periodic(cron="2 * * * *")
@django_app.task(name="taskhub.event_parts", queue=QUEUE, queueing_lock="event-parts")
def turn_event_part(timestamp: int) -> None:
    """Create the parts of the audit log that will be needed next; in a new month, begin the part of that month."""
    try:
        turn_part()
    finally:
        connection.close()  # see `purge_old`


class NotVerified(Exception):
    """The audit log differs from its seals, or could not be verified; the message says why. Makes the job fail, for
    `doctor` and `/metrics`."""


class _Stopped(Exception):
    """Interrupts a job because the worker shuts down."""


@django_app.periodic(cron="23 2 * * *")
@django_app.task(name="taskhub.verify_audit", queue=QUEUE, queueing_lock="verify-audit")
def verify_log(timestamp: int) -> None:
    """Compare the whole audit log with its seals, every night in one worker: a few thousand events at a time, each in
    its own transaction, with pauses. The verdict is recorded in the log. A verification that is interrupted starts
    again the next night."""
    read_since = time.monotonic()

    def rest(events: int, seals: int, part: float) -> None:
        nonlocal read_since
        if _stopping.wait(REST * (time.monotonic() - read_since)):
            raise _Stopped
        read_since = time.monotonic()

    try:
        while seal_events():  # unsealed events are no error: for a while there may have been no worker
            pass
        verdict = verify_audit(full=True, report=rest)
        record_verdict(verdict, actor=Actor(name="nightly verification", door=Door.WORKER))
    except _Stopped:
        logger.info("the nightly verification of the audit log was interrupted: this worker ends")
        return
    finally:
        connection.close()  # see `purge_old`
    if problem := verdict.problem or verdict.unproven:
        raise NotVerified(f"the audit log: {problem}")
    logger.info(
        "the audit log is intact: %d events in %d seals, read in %.1f s", verdict.events, verdict.seals, verdict.seconds
    )


@django_app.periodic(cron="37 * * * *")
@django_app.task(name="taskhub.prune_jobs", queue=QUEUE, queueing_lock="prune", pass_context=True)
async def prune_jobs(context: procrastinate.JobContext, timestamp: int) -> None:
    """Delete procrastinate's rows of jobs that finished more than a day ago."""
    assert context.app is not None
    await context.app.job_manager.delete_old_jobs(nb_hours=24, include_failed=True, include_cancelled=True)


@django_app.periodic(cron="*/5 * * * *")
@django_app.task(name="taskhub.remove_blocks", queue=QUEUE, queueing_lock="blocks")
def remove_blocks(timestamp: int) -> None:
    """Remove rules that blocked a tool for a client for a time, if that time is over."""
    try:
        remove_ended(Actor(name="end of blocks", door=Door.WORKER))
    finally:
        connection.close()  # see `purge_old`


@django_app.periodic(cron="17 * * * *")
@django_app.task(name="taskhub.sweep_sign_ins", queue=QUEUE, queueing_lock="sign-ins")
def sweep_sign_ins(timestamp: int) -> None:
    """Delete expired OAuth tokens and codes, sign-ins without tokens, and programs that registered themselves and never
    got a consent."""
    try:
        applications.sweep()
    finally:
        connection.close()  # see `purge_old`
