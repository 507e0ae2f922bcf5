"""procrastinate's side: the durable wake-up and the hourly chores. A job is only a wake-up; the
truth is the task row, since a stalled worker can finish the job of another."""

from __future__ import annotations

from collections.abc import Callable

import procrastinate
from django.conf import settings
from django.db import connection
from procrastinate.contrib.django import app as django_app
from procrastinate.contrib.django import connector_params
from procrastinate.psycopg_connector import PsycopgConnector

from taskhub.core.names import QUEUE, WAKE_JOB
from taskhub.identity.oauth import applications
from taskhub.identity.sessions import purge_sign_ins
from taskhub.lifecycle.parts import turn_part
from taskhub.lifecycle.sessions import purge_sessions, purge_streams
from taskhub.lifecycle.sweep import purge
from taskhub.queries.sessions import IDLE_DAYS
from taskhub.store.chores import run_each
from taskhub.store.session import begin_async

_wakers: list[Callable[[], None]] = []


def on_wake(call: Callable[[], None]) -> None:
    """What to call when a wake-up job runs in this process."""
    _wakers[:] = [call]


def app() -> procrastinate.App:
    """procrastinate over Django's own database, with its async connector for a worker."""
    # As Django's connector would make it for a worker, but for our settings.
    return django_app.with_connector(PsycopgConnector(kwargs=connector_params(), configure=begin_async))


@django_app.task(name=WAKE_JOB, queue=QUEUE)
async def run() -> None:
    """Wake the worker that runs this; it claims whatever is runnable."""
    for call in _wakers:
        call()


@django_app.periodic(cron="7 * * * *")
@django_app.task(name="taskhub.purge", queue=QUEUE, queueing_lock="purge")
def purge_old(timestamp: int) -> None:
    """Delete ended tasks past the retention, then sessions and streams that nobody will take up again and browsers'
    sessions that are over, in batches. The job has failed if one of these did; `doctor` tells."""
    try:
        run_each(
            {
                "purging tasks": lambda: _all(lambda: purge(retention_days=settings.TASKHUB_RETENTION_DAYS)),
                "purging sessions": lambda: _all(lambda: purge_sessions(idle_days=IDLE_DAYS)),
                "purging streams": lambda: _all(purge_streams),
                "purging sessions of browsers": lambda: _all(purge_sign_ins),
            }
        )
    finally:
        connection.close()  # the thread is procrastinate's, and so would be the open connection


def _all(batch: Callable[[], int]) -> None:
    while batch() == 1_000:
        pass


@django_app.periodic(cron="2 * * * *")
@django_app.task(name="taskhub.event_parts", queue=QUEUE, queueing_lock="event-parts")
def turn_event_part(timestamp: int) -> None:
    """Make the parts of the audit log that will be needed, and let a new month begin with its own."""
    try:
        turn_part()
    finally:
        connection.close()  # see `purge_old`


@django_app.periodic(cron="37 * * * *")
@django_app.task(name="taskhub.prune_jobs", queue=QUEUE, queueing_lock="prune", pass_context=True)
async def prune_jobs(context: procrastinate.JobContext, timestamp: int) -> None:
    """Delete procrastinate's own finished rows after a day."""
    assert context.app is not None
    await context.app.job_manager.delete_old_jobs(nb_hours=24, include_failed=True, include_cancelled=True)


@django_app.periodic(cron="17 * * * *")
@django_app.task(name="taskhub.sweep_sign_ins", queue=QUEUE, queueing_lock="sign-ins")
def sweep_sign_ins(timestamp: int) -> None:
    """Delete what is left of sign-ins that ended, and programs that nobody ever let in."""
    try:
        applications.sweep()
    finally:
        connection.close()  # see `purge_old`
