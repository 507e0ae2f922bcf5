"""The worker process: claims tasks, runs their tools, renews their leases, stores their outcomes.

Its event loop never runs code of servers, since in-process servers have threads of their own
(`upstream.pool`), and makes every database call in a lane.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from functools import partial

from django.conf import settings
from django.db import connection

from taskhub.core.errors import TaskHubError
from taskhub.core.hints import (
    CatalogueChanged,
    InterestsChanged,
    PollsDue,
    PreviewsDue,
    RelayDropped,
    RelayWaiting,
    SchemaChanged,
    ServerRefreshed,
    ServerStale,
    TaskCancelled,
    TaskChanged,
    TaskHeld,
    TaskHint,
    TaskQueued,
    TasksWaiting,
    decode,
)
from taskhub.core.names import QUEUE
from taskhub.core.records import Actor
from taskhub.core.states import Door
from taskhub.domain.audit import seal
from taskhub.domain.audit.seal import seal_events
from taskhub.domain.catalogue.connection_tests import take_tests
from taskhub.domain.catalogue.sync import enabled_servers
from taskhub.domain.feed import reading
from taskhub.domain.notices import people
from taskhub.domain.notices.channels import Channel, is_on
from taskhub.domain.notices.people import queue_for_people
from taskhub.domain.notices.queueing import queue_notices
from taskhub.domain.relays.interests import followed_resources
from taskhub.domain.relays.writes import sweep_relays
from taskhub.domain.rules.bypasses import close_overdue
from taskhub.domain.tasks import run as lifecycle
from taskhub.domain.tasks.checks import take_checks
from taskhub.domain.tasks.sweep import sweep
from taskhub.domain.workers.writes import goodbye, heartbeat
from taskhub.lib.ending import show_threads
from taskhub.lib.lanes import Lanes
from taskhub.notify.webhooks.sending import Sender
from taskhub.store.call import explained
from taskhub.store.functions import NewerSchemaError, check_newer
from taskhub.store.listener import listen
from taskhub.worker import jobs
from taskhub.worker.apprise import AppriseMessages
from taskhub.worker.breakers import Breakers
from taskhub.worker.browsers import Browsers
from taskhub.worker.chores import Chores
from taskhub.worker.claiming import CLAIM_SECONDS, Slots
from taskhub.worker.connection_tests import make_test
from taskhub.worker.mails import Mails
from taskhub.worker.notices import Notices
from taskhub.worker.outcome_checks import make_check
from taskhub.worker.outgoing import Reading
from taskhub.worker.polling import Polls
from taskhub.worker.previews import Previews
from taskhub.worker.relays import Relays
from taskhub.worker.running import Runner
from taskhub.worker.servers import Servers
from taskhub.worker.slack import SlackMessages
from taskhub.worker.timings import Timings

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 5.0
SWEEP_SECONDS = 5.0
SEAL_SECONDS = 5.0
"""Seconds between two sealings of new events of the audit log."""
NOTICES_SECONDS = 1.0
"""Seconds between two looks for messages to receivers outside."""
HELD_SECONDS = 0.02
"""Seconds that a worker waits longer than a `TaskHeld` hint says, because the clocks of the database and of this
process need not run at the same pace."""
FOLLOW_SECONDS = 30.0
TIMINGS_SECONDS = 5.0
MEMORY_SECONDS = 10.0
GRANTS_SECONDS = 60.0


class Engine:
    """A worker; one per process. `run` works until `stop` is called."""

    def __init__(
        self,
        *,
        slots: int | None = None,
        on_beat: Callable[[], None] = lambda: None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_beat` is called at each heartbeat, also while the database is away; `on_stop` when the worker begins to
        shut down, perhaps more than once."""
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self.lanes = Lanes(4, name="worker-lane", after=_drop_broken, at_exit=_close, explain=explained)
        # Leases and heartbeats have their own lane, so that they do not wait behind results.
        self.pulse = Lanes(1, name="pulse", after=_drop_broken, at_exit=_close, explain=explained)
        self.chores = Chores(self._fail)
        self.breakers = Breakers(self.lanes, self.chores.soon)
        self.servers = Servers(self.lanes, self.name, self.breakers.reached)
        self.relays = Relays(self.name, self.servers, self.lanes)
        self.timings = Timings(self.lanes)
        self.actor = Actor(name=self.name, door=Door.WORKER)
        runner = Runner(self.lanes, self.servers, self.breakers, self.timings, self.actor)
        self.slots = Slots(slots or settings.TASKHUB_SLOTS, self.name, runner, self._tell)
        self.polls = Polls(self.name, runner, self.actor)
        runner.on_deferred = self.polls.expect
        self.previews = Previews(self.name, runner, self.actor)
        runner.preview = self.previews.again
        self.notices = Notices(self.lanes, Sender(f"TaskHub/{settings.VERSION}"))
        self.mails = Mails(self.lanes)
        self.slack = SlackMessages(self.lanes)
        self.browsers = Browsers(self.lanes)
        self.apprise = AppriseMessages(self.lanes)
        self.feed = Reading(self.lanes, queue_notices, reading.BATCH, [self.notices.look])
        to_people = [self.mails.look, self.slack.look, self.browsers.look, self.apprise.look]
        self.feed_for_people = Reading(self.lanes, queue_for_people, people.BATCH, to_people)
        self.servers.on_leave = self.polls.leave
        self.servers.on_task_changed, self.servers.on_task_said = self.polls.changed, self.polls.said
        self._on_beat, self._on_stop = on_beat, on_stop
        self._following = asyncio.Lock()
        self.outgrown = ""
        """Why this release cannot work with the database's schema; empty if it can."""
        self.failed = False
        """Whether the worker ends because of an unexpected error, which is in the log."""

    def stop(self) -> None:
        """Begin a clean shutdown. Running tools get `DRAIN_SECONDS` to finish and then as long again to stop; the tasks
        of those that were stopped go back to the queue."""
        self._on_stop()
        self.slots.stop()

    def _fail(self, what: str, error: Exception) -> None:
        """Log the error and begin a clean shutdown, so that the supervisor starts another worker."""
        logger.critical("the worker ends, since %s met an error that it cannot go on with", what, exc_info=error)
        self.failed = True
        self.stop()

    async def run(self) -> None:
        """Work until stopped. Raises if the start fails; after a later error, returns with `failed` set."""
        jobs.on_wake(self.slots.wake)
        self.chores.forever("hints", lambda: listen(self._on_hint, self._on_gap))
        self.chores.every("heartbeat", HEARTBEAT_SECONDS, self._beat, vital=True)
        self.chores.every("leases", settings.TASKHUB_LEASE_SECONDS / 3, self._renew, vital=True)
        self.chores.every("sweep", SWEEP_SECONDS, self._sweep)
        self.chores.every("ends of bypasses", SWEEP_SECONDS, lambda: self.lanes.run(close_overdue))
        self.chores.every("sweep of relays", SWEEP_SECONDS, lambda: self.lanes.run(sweep_relays))
        self.chores.every("outcome checks", SWEEP_SECONDS, self._check_outcomes)
        self.chores.every("previews", SWEEP_SECONDS, self.previews.look)
        self.chores.every("seal", SEAL_SECONDS, self._seal)
        self.chores.every("feed", NOTICES_SECONDS, self.feed.read)
        self.chores.every("notices", NOTICES_SECONDS, self.notices.look)
        self.chores.every("feed for people", NOTICES_SECONDS, self.feed_for_people.read)
        self.chores.every("mails", NOTICES_SECONDS, self.mails.look)
        self.chores.every("slack", NOTICES_SECONDS, self.slack.look)
        self.chores.every("slack messages drawn anew", NOTICES_SECONDS, self.slack.draw)
        if is_on(Channel.SLACK):
            self.chores.forever("clicks in slack", self.slack.listen)
        self.chores.every("browsers", NOTICES_SECONDS, self.browsers.look)
        self.chores.every("apprise", NOTICES_SECONDS, self.apprise.look)
        self.chores.every("timings", TIMINGS_SECONDS, self.timings.store)
        self.chores.every("memory", MEMORY_SECONDS, self.servers.weigh)
        self.chores.every("grants", GRANTS_SECONDS, self.servers.grants.prune)
        self.chores.every("interests", FOLLOW_SECONDS, self._follow)
        self.chores.forever("relays", self.relays.run)
        self.chores.forever("polls", self.polls.run)
        self.chores.forever("jobs", _run_jobs)
        try:
            await self._beat()
            await self.servers.refresh(await self.lanes.run(enabled_servers))
            await self.breakers.refresh()
            logger.info("worker %s started: TaskHub %s, %d slots", self.name, settings.VERSION, self.slots.size)
            try:
                await self.slots.claim_until_stopped()
            except Exception as error:  # noqa: BLE001 - `_fail` logs it
                self._fail("claiming", error)
            left = await self.slots.drain()
        finally:
            jobs.stop()
            await self.chores.end()
            await self.previews.close()
            await self.notices.close()
            await self.mails.close()
            await self.slack.close()
            await self.browsers.close()
            await self.apprise.close()
            await self.servers.close()
            await self.breakers.close()
            try:
                await self.timings.store()
                await self.pulse.run(goodbye, self.name)
            except TaskHubError as error:
                logger.warning("left without saying goodbye: %s", error)
            except Exception:
                logger.exception("left without saying goodbye")
            self.lanes.close()
            self.pulse.close()
        logger.info("worker %s stopped; tasks that had not ended by themselves: %d", self.name, left)

    def _on_hint(self, payload: str) -> None:
        hint = decode(payload)
        if isinstance(hint, TaskHint):
            self._on_task(hint)
        match hint:
            case TaskChanged():
                return  # checked first, because most hints are of this kind
            case TaskQueued():
                self.slots.offer(hint.context_id)
            case TasksWaiting() | TaskHeld():
                self._wake(hint)
            case PollsDue():
                self.polls.wake()
            case PreviewsDue():
                self.chores.soon("previews", self.previews.look)
            case CatalogueChanged():
                self.chores.soon("servers", self._refresh_servers)
            case ServerStale(server_id):
                self.servers.look_again(server_id)
            case ServerRefreshed(server_id):
                self.servers.ask_anew(server_id)
            case RelayWaiting():
                self.relays.wake()
            case RelayDropped(relay_id):
                self.relays.drop(relay_id)
            case SchemaChanged():
                self.chores.soon("schema", self._look_at_schema)
            case InterestsChanged():
                self.chores.soon("interests", self._follow)

    def _wake(self, hint: TasksWaiting | TaskHeld) -> None:
        """Claim soon, or when the task can be claimed."""
        wait = hint.milliseconds / 1_000 + HELD_SECONDS if isinstance(hint, TaskHeld) else 0.0
        asyncio.get_running_loop().call_later(wait, self.slots.wake)

    def _on_task(self, hint: TaskHint) -> None:
        """Pass the hint to the task, if it runs in this worker."""
        if (held := self.slots.running.get(hint.task_id)) is not None:
            held.answered.set()
            if isinstance(hint, TaskCancelled):
                held.cancel()

    def _on_gap(self) -> None:
        self.slots.wake()
        self.relays.wake()
        self.polls.wake()
        self.chores.soon("schema", self._look_at_schema)
        self.chores.soon("leases", self._renew)
        self.chores.soon("interests", self._follow)
        self.chores.soon("servers", self._refresh_servers)

    def _tell(self, task_id: int) -> None:
        self.chores.soon("news", lambda: self.lanes.run(lifecycle.announce_running, task_id))

    async def _refresh_servers(self) -> None:
        await self.servers.refresh(await self.lanes.run(enabled_servers))
        for server_id in await self.breakers.refresh():
            self.servers.look_again(server_id)  # if this worker reaches it, the breaker is closed for all workers
        for test in await self.lanes.run(take_tests, self.name):
            pool = self.servers.pool(test.server.id)
            self.chores.soon("connection test", partial(make_test, self.lanes, test, pool))
        self.relays.wake()
        self.slots.wake_for_all()  # calls may have been queued for a server while it was disabled

    async def _look_at_schema(self) -> None:
        try:
            await self.pulse.run(check_newer)
        except NewerSchemaError as error:
            self.outgrown = str(error)
            self.stop()

    async def _follow(self) -> None:
        async with self._following:  # one at a time, so that an older reading never replaces a newer one
            await self.servers.follow(await self.lanes.run(followed_resources))

    async def _renew(self) -> None:
        await self.slots.renew(self.pulse)

    async def _beat(self) -> None:
        if self.slots.hangs:
            show_threads()
            self._fail("claiming", TimeoutError(f"one claim has taken more than {CLAIM_SECONDS:g} s"))
        self._on_beat()
        try:
            await self.pulse.run(heartbeat, self.name, slots=self.slots.size, busy=len(self.slots.running))
        finally:
            self._on_beat()  # called even if the database is slow or away: this worker does not hang

    async def _seal(self) -> None:
        # A batch never splits a transaction, so more events may follow a batch that is not full. Each batch is a call
        # of its own, so that the lane can run other calls in between.
        while await self.lanes.run(seal_events) > seal.BATCH / 2:
            pass

    async def _check_outcomes(self) -> None:
        for check in await self.lanes.run(take_checks):
            self.chores.soon("outcome check", partial(make_check, self.lanes, self.servers, check, self.actor))

    async def _sweep(self) -> None:
        if await self.lanes.run(sweep):
            self.slots.wake()


async def _run_jobs() -> None:
    """Run procrastinate's worker, for the wake-up job and the scheduled jobs, one of which may take hours. Ends if the
    database stays away; the caller starts it again."""
    async with jobs.app().open_async() as app:
        await app.run_worker_async(queues=[QUEUE], concurrency=3, install_signal_handlers=False)


def _close() -> None:
    connection.close()


def _drop_broken() -> None:
    if connection.errors_occurred:
        connection.close_if_unusable_or_obsolete()
