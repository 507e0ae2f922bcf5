"""Polls the servers' tasks of deferred calls, beside the slots: a poll takes no slot and no lease of a task.

A worker that has taken a poll keeps it, and asks the server at the interval that the server wants. It writes to the
database when something has changed. Every few seconds it extends its hold on all its polls, in one statement.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from taskhub.core.errors import Unavailable
from taskhub.core.records import Actor, LogLine, NewQuestion, Poll
from taskhub.core.timings import TimingKind
from taskhub.core.versions import has_sessions
from taskhub.core.words import words
from taskhub.domain.credentials.asking import ask_before_poll
from taskhub.domain.tasks import deferred
from taskhub.domain.tasks.deferred import LEASE_SECONDS, PutBack
from taskhub.domain.tasks.run import Result
from taskhub.lib import logs
from taskhub.lib.throttle import Throttle
from taskhub.upstream.call import waiting_message
from taskhub.upstream.deferred import (
    FIRST_MS,
    AsksMore,
    AsksNoMore,
    Cancelled,
    Ended,
    GoesOn,
    Lost,
    PollOutcome,
    Silent,
    is_spent,
    poll,
)
from taskhub.upstream.outcomes import Finished
from taskhub.upstream.pool import Pool
from taskhub.upstream.task_news import named_by
from taskhub.worker.given_up import GivenUp
from taskhub.worker.notes import Notes
from taskhub.worker.running import Runner, Waits

logger = logging.getLogger(__name__)

AT_ONCE: Final = 16
"""The most requests for polls that a worker makes to one server at the same time."""

MOST_KEPT: Final = 1_000
"""The most deferred calls of one server that one worker polls. Others are polled by other workers, or later."""

LOOK_SECONDS: Final = 5.0
"""The most seconds between two looks for polls that are due, which also find calls that other workers deferred. At each
look, the worker extends its hold on the polls that it has. Polls that are due later than the next look are put back
instead."""

TICK_SECONDS: Final = 0.05
"""The fewest seconds between two looks, so that polls that are due at nearly the same time share a statement."""

ALIGNED_MS: Final = 1_000
"""If the interval of a poll is at least this many milliseconds, the poll is moved to the next quarter of this time,
where others are too: polls that are made together cost half as much."""

SILENT_SECONDS: Final = 1.0
"""Seconds of the first pause after a server could not be asked. Each further pause is twice as long, up to
`LONGEST_SECONDS`. Until the server answers, only one poll at a time is made."""

LONGEST_SECONDS: Final = 30.0

NEWS_SECONDS: Final = 0.1
"""Seconds for which notifications of changed tasks are gathered before the tasks are polled."""

CALM_SECONDS: Final = 1.0
"""The fewest seconds between two polls of a working task, however often its server says that the task has changed."""

MOST_EARLY: Final = 100
"""Progress may come before the first poll. It is kept for at most this many calls, and as many lines of each."""

REFRESH_SECONDS: Final = 10.0
"""Seconds of the pause after the token for a poll could not be refreshed."""

LEAVE_SECONDS: Final = 3.0
"""The most seconds for cancelling a server's tasks before a worker disconnects from the server."""

UNAUTHORIZED_SECONDS: Final = 60.0
"""Seconds of the pause while people are asked to authorize a server. When they have, the server is polled at once."""


@dataclass(slots=True)
class _Silence:
    """A server that could not be asked. `times`: how many times in a row; `until`: when (`time.monotonic`) it is tried
    again."""

    times: int = 0
    until: float = 0.0


@dataclass(slots=True)
class _Kept:
    """A poll that this worker has taken. `poll` is as it was at the time `since` (`time.monotonic`)."""

    poll: Poll
    since: float
    notes: Notes
    timer: asyncio.TimerHandle | None = None
    work: asyncio.Task[None] | None = None
    """The running request."""
    message: str | None = None
    """A new message of the task that is not stored yet."""
    asked_at: float = 0.0
    """When the server was last asked (`time.monotonic`)."""
    later: asyncio.TimerHandle | None = None
    """The timer of a poll that a notification has caused."""
    again_ms: int | None = None
    """Milliseconds until the next poll, if a notification came during the running request; else `None`."""
    until: float = math.inf
    """For a poll that was put back: until when (`time.monotonic`) notifications of it may still come to this worker."""

    def now(self) -> Poll:
        """The poll, with the seconds that the call has run by now."""
        spent = 0.0 if self.poll.status == "input_required" else time.monotonic() - self.since
        return replace(self.poll, ran_seconds=self.poll.ran_seconds + spent)


class Polls:
    """The polls of one worker. For its event loop only."""

    def __init__(self, worker: str, runner: Runner, actor: Actor) -> None:
        self._worker = worker
        self._runner = runner
        self._lanes = runner.lanes
        self._actor = actor
        self._awake = asyncio.Event()
        self._kept: dict[int, _Kept] = {}
        """The polls that this worker has taken, by task id."""
        self._back: list[PutBack] = []
        """Polls to put back at the next look."""
        self._away: dict[int, _Kept] = {}
        """Polls that were put back, by task id, for which notifications may still come."""
        self._changed: set[tuple[int, str, int | None, bool]] = set()
        """Notified changes of servers' tasks: server id, the server's id of the task, owner, and whether the task is
        still working."""
        self._early: dict[tuple[int, int], deque[tuple[int, str, LogLine, int | None]]] = {}
        """Arguments of `said` for calls that have no poll yet, by task id and epoch."""
        self._due: dict[int, float] = {}
        """When (`time.monotonic`) polls that were put back are due, by task id."""
        self._until = 0.0
        """When (`time.monotonic`) the next look is, unless one is needed earlier."""
        self._given_up = GivenUp(runner, partial(self._polled, say=_unheard))
        self._under_way: set[asyncio.Task[None]] = set()
        self._room: defaultdict[int, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(AT_ONCE))
        self._silent: dict[int, _Silence] = {}
        self._throttle = Throttle(60.0)
        self._looking = asyncio.Lock()

    def wake(self) -> None:
        """Look soon, because polls may be due."""
        self._awake.set()

    def expect(self, task_id: int, seconds: float) -> None:
        """Look for due polls in `seconds`, because a poll of this task will be due then."""
        self._due[task_id] = due = time.monotonic() + seconds
        if due < self._until:
            self.wake()

    def changed(self, server_id: int, upstream_id: str, working: bool, owner: int | None) -> None:
        """The server said that its task changed: poll the task soon, or later if it is still `working`. `owner`: the
        client in whose session the server said so; `None` if it was in no client's session."""
        if not self._changed:
            asyncio.get_running_loop().call_later(NEWS_SECONDS, self._hurry)
        self._changed.add((server_id, upstream_id, owner, working))

    def said(self, server_id: int, token: str, line: LogLine, owner: int | None) -> None:
        """Store a line of progress. `token` names the call, which its server runs as a task. `owner` as in
        `changed`."""
        if (named := named_by(token)) is None:
            return
        held = self._kept.get(named[0]) or self._away.get(named[0])
        if held is None or held.poll.claim.epoch < named[1]:
            while len(self._early) >= MOST_EARLY and named not in self._early:
                del self._early[next(iter(self._early))]
            self._early.setdefault(named, deque(maxlen=MOST_EARLY)).append((server_id, token, line, owner))
            return
        claim = held.poll.claim
        if claim.epoch == named[1] and claim.server_id == server_id and owner in (None, claim.context_id):
            held.notes.add(line)

    def _hurry(self) -> None:
        changed, self._changed = self._changed, set()
        for held in [*self._kept.values(), *self._away.values()]:
            claim, name = held.poll.claim, held.poll.upstream_id
            news = [(claim.server_id, name, owner) for owner in (None, claim.context_id)]
            if any((*each, False) in changed for each in news):
                self._soon(held, 0.0)
            elif any((*each, True) in changed for each in news):
                self._soon(held, CALM_SECONDS)

    def _soon(self, held: _Kept, pause: float = 0.0) -> None:
        """Poll soon, but not before `pause` seconds after the last poll."""
        left, task_id = held.asked_at + pause - time.monotonic(), held.poll.claim.task_id
        if left > 0:
            if held.later is None:
                held.later = asyncio.get_running_loop().call_later(left, self._soon, held)
            return
        held.later = None
        if self._away.get(task_id) is held:
            del self._away[task_id]
            self._back.append(PutBack(held.poll, 0))
            self.wake()
        elif self._kept.get(task_id) is not held:
            return
        elif held.timer is not None:
            held.timer.cancel()
            self._begin(task_id, held.poll.turn)
        else:
            held.again_ms = FIRST_MS

    async def run(self) -> None:
        """Poll, for ever."""
        try:
            while True:
                self._awake.clear()
                await self._look()
                await asyncio.sleep(TICK_SECONDS)
                tried = min((silence.until for silence in self._silent.values()), default=math.inf)
                self._until = min(time.monotonic() + LOOK_SECONDS, tried, *self._due.values())
                try:
                    async with asyncio.timeout(max(0.0, self._until - time.monotonic())):
                        await self._awake.wait()
                except TimeoutError:
                    pass
        finally:
            for task_id in list(self._kept):
                self._drop(task_id)
            self._away.clear()
            self._given_up.close()
            for task in self._under_way:
                task.cancel()

    async def leave(self, server_id: int) -> None:
        """Ask the server to cancel its tasks of calls that have ended. Called before this worker disconnects from the
        server, because a server that is removed from the hub can no longer be asked."""
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                async with self._looking:  # a look may have taken some of them
                    taken = await self._lanes.run(deferred.take_polls, self._worker, {server_id: MOST_KEPT})
                self._back += [PutBack(each, FIRST_MS) for each in taken if not each.ended]
                ended = [_Kept(each, time.monotonic(), Notes(each.claim, self._lanes)) for each in taken if each.ended]
                at_once = [held.work for held in self._kept.values() if held.poll.claim.server_id == server_id]
                await asyncio.gather(*map(self._poll, ended), *filter(None, at_once), return_exceptions=True)
        except (Unavailable, TimeoutError) as error:
            logger.info(
                "server %d: its tasks were left without a cancellation: %s", server_id, error or "it took too long"
            )

    async def _look(self) -> None:
        """Put back polls that are due later, keep the others, and take those that are due."""
        async with self._looking:
            await self._looked()

    async def _looked(self) -> None:
        back, self._back = self._back, []
        kept = [PutBack(each.poll, int(LEASE_SECONDS * 1000), each.message) for each in self._kept.values()]
        if back or kept:
            still = await self._lanes.run(partial(deferred.put_back_polls, back + kept, actor=self._actor))
            for each in back:  # only now, so that they are due by the database's clock too
                self.expect(each.poll.claim.task_id, each.delay_ms / 1000)
            for each in kept:
                task_id, held = each.poll.claim.task_id, self._kept.get(each.poll.claim.task_id)
                if held is None or held.poll.turn != each.poll.turn:
                    continue
                if task_id not in still:  # taken by another worker, or due again by an answer or a cancel
                    self._drop(task_id)
                elif held.message == each.message:
                    held.message = None
        now = time.monotonic()
        self._due = {task_id: due for task_id, due in self._due.items() if due > now}
        self._away = {task_id: held for task_id, held in self._away.items() if held.until > now}
        if not (rooms := self._rooms()):
            return
        for taken in await self._lanes.run(deferred.take_polls, self._worker, rooms):
            self._drop(taken.claim.task_id)
            self._away.pop(taken.claim.task_id, None)
            self._kept[taken.claim.task_id] = _Kept(taken, time.monotonic(), Notes(taken.claim, self._lanes))
            for early in self._early.pop((taken.claim.task_id, taken.claim.epoch), ()):
                self.said(*early)
            self._begin(taken.claim.task_id, taken.turn)

    def _rooms(self) -> dict[int, int]:
        """For each server to which this worker is connected: how many more polls of it the worker may take."""
        busy, now = Counter(each.poll.claim.server_id for each in self._kept.values()), time.monotonic()
        rooms = {}
        for server_id in self._runner.servers.held():
            silence = self._silent.get(server_id)
            most = MOST_KEPT if silence is None else int(now >= silence.until)
            if (room := most - busy[server_id]) > 0:
                rooms[server_id] = room
        return rooms

    def _begin(self, task_id: int, turn: int) -> None:
        held = self._kept.get(task_id)
        if held is None or held.poll.turn != turn:
            return
        held.timer = None
        held.work = task = asyncio.create_task(self._poll(held))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    def _drop(self, task_id: int) -> None:
        held = self._kept.pop(task_id, None)
        if held is not None and held.timer is not None:
            held.timer.cancel()

    async def _poll(self, held: _Kept) -> None:
        claim = held.poll.claim
        pool = self._runner.servers.pool(claim.server_id)
        if pool is None:
            self._let_go(held)  # this worker has left the server; the poll is due again when its lease ends
            return
        loop = asyncio.get_running_loop()

        def say(line: LogLine) -> None:
            loop.call_soon_threadsafe(held.notes.add, line)

        try:
            with logs.about({"task": claim.public_id, "server": claim.server_name}):
                async with self._room[claim.server_id]:
                    taken, held.asked_at, held.again_ms = held.now(), time.monotonic(), None
                    outcome = await self._polled(pool, taken, say)
                await self._settle(held, taken, outcome)
        except Unavailable as error:  # the poll is made again when the lease ends
            self._let_go(held)
            if self._throttle():
                logger.warning("task %s: its poll was not stored: %s", claim.public_id, error)
        except Exception:
            self._let_go(held)
            logger.exception("task %s: its poll was not stored", claim.public_id)

    async def _polled(self, pool: Pool, taken: Poll, say: Callable[[LogLine], None]) -> PollOutcome | Waits:
        """The outcome of one poll. At a server with OAuth, the poll has the token of the call's own grant."""
        if pool.target.bearer is None:
            return await pool.run(poll(pool, taken, say=say))
        outcome = await self._runner.by_grant(taken.claim, lambda pool: poll(pool, taken, say=say))
        if isinstance(outcome, Waits) and (taken.ended or taken.cancelling):
            return Cancelled(confirmed=False)  # no person is asked to authorize the server for that
        return outcome

    def _let_go(self, held: _Kept) -> None:
        if self._kept.get(held.poll.claim.task_id) is held:
            self._drop(held.poll.claim.task_id)

    async def _settle(self, held: _Kept, taken: Poll, outcome: PollOutcome | Waits) -> None:
        claim, server_id = taken.claim, taken.claim.server_id
        if isinstance(outcome, Waits):
            await self._waits(held, taken, outcome)
            return
        if isinstance(outcome, Silent):
            await self._was_silent(held, taken, outcome.problem)
            return
        self._silent.pop(server_id, None)
        self._runner.breakers.reached(server_id)
        if isinstance(outcome, GoesOn):
            self._goes_on(held, taken, outcome)
            return
        self._let_go(held)
        match outcome:
            case Finished(result):
                await held.notes.flush()
                self._count(taken, TimingKind.ERROR if result.get("isError") else TimingKind.FINISHED)
                await self._runner.results.run(Result(claim, result))
            case Ended(faulted, status):
                spent = is_spent(taken)
                self._count(taken, TimingKind.TIMED_OUT if spent else TimingKind.FAULTED)
                kind = "timeout" if spent else str(faulted.error["code"])
                fault = partial(deferred.fault_deferred, taken, faulted.error, status=status, kind=kind)
                await self._store(partial(fault, actor=self._actor))
            case Lost(told):
                self._count(taken, TimingKind.LOST)
                await self._store(partial(deferred.lose_deferred, taken, told=told, actor=self._actor))
            case Cancelled() if taken.ended:
                await self._store(partial(deferred.end_poll, taken, status="cancelled"))
            case Cancelled(confirmed):
                self._count(taken, TimingKind.CANCELLED)
                code = "cancelled_running" if taken.cancelling else "cancelled_by_server"
                message = words(code if confirmed else "cancelled_unconfirmed")
                status = "cancelled" if confirmed else "unknown"
                await self._store(
                    partial(deferred.cancel_deferred, taken, status=status, message=message, actor=self._actor)
                )
            case AsksMore(questions, delay_ms):
                asked = await self._runner.for_whom(claim, questions)
                await self._asks(taken, asked, waiting_message(asked), delay_ms)
                held.poll = replace(taken, status="input_required")
                self._leave(held, delay_ms)
            case AsksNoMore(message, delay_ms):
                await self._asks(taken, None, message, delay_ms)

    async def _asks(self, taken: Poll, questions: Sequence[NewQuestion] | None, message: str, delay_ms: int) -> None:
        await self._store(
            partial(deferred.ask_deferred, taken, questions, message=message, delay_ms=delay_ms, actor=self._actor)
        )
        self.expect(taken.claim.task_id, delay_ms / 1000)

    def _goes_on(self, held: _Kept, taken: Poll, outcome: GoesOn) -> None:
        changed = taken.status != "input_required" and not taken.cancelling and outcome.message != taken.message
        message = outcome.message if changed else None
        new = replace(
            taken, status=outcome.status, poll_ms=outcome.poll_ms, message=outcome.message if changed else taken.message
        )
        if self._kept.get(taken.claim.task_id) is not held:
            return  # the poll has been taken again since
        delay_ms = outcome.delay_ms if held.again_ms is None else min(held.again_ms, outcome.delay_ms)
        if taken.cancelling or delay_ms >= LOOK_SECONDS * 1000:
            self._put_back(held, PutBack(new, delay_ms, message))
            return
        held.poll, held.since = new, time.monotonic()
        if message is not None:
            held.message = message
            self.wake()
        loop = asyncio.get_running_loop()
        due = loop.time() + delay_ms / 1000
        if delay_ms >= ALIGNED_MS:
            due = round(due * 1000 / ALIGNED_MS * 4) * ALIGNED_MS / 4 / 1000
        held.timer = loop.call_at(due, self._begin, taken.claim.task_id, taken.turn)

    def _put_back(self, held: _Kept, back: PutBack) -> None:
        if self._kept.get(back.poll.claim.task_id) is held:
            self._drop(back.poll.claim.task_id)
            self._back.append(back)
            held.poll = back.poll
            self._leave(held, back.delay_ms)
            self.wake()

    def _leave(self, held: _Kept, delay_ms: int) -> None:
        """Note a poll that is put back for `delay_ms`, because a notification in a session may make it due earlier."""
        if not has_sessions(held.poll.revision):
            return
        held.until = time.monotonic() + delay_ms / 1000 + LEASE_SECONDS
        self._away[held.poll.claim.task_id] = held

    async def _was_silent(self, held: _Kept, taken: Poll, problem: str) -> None:
        claim, server_id = taken.claim, taken.claim.server_id
        silence = self._silent.setdefault(server_id, _Silence())
        if time.monotonic() >= silence.until:  # count one failure, not one for each running poll
            silence.times += 1
            pause = min(SILENT_SECONDS * 2 ** min(silence.times - 1, 10), LONGEST_SECONDS)
            silence.until = time.monotonic() + pause * random.uniform(0.8, 1.2)  # noqa: S311 - jitter, not a secret
            logger.info("server %s: its tasks cannot be asked for: %s", claim.server_name, problem)
            await self._runner.breakers.failed(server_id, problem, probing=False)
            self._runner.servers.look_again(server_id)
        if await self._gives_up(held, taken):
            return
        delay_ms = max(FIRST_MS, int((silence.until - time.monotonic()) * 1000))
        waits = words("waiting_server")
        known = taken.status == "input_required" or taken.cancelling or taken.message == waits
        self._put_back(held, PutBack(taken, delay_ms, None if known else waits))

    async def _gives_up(self, held: _Kept, taken: Poll) -> bool:
        """Give the call up if it has run for too long and its server cannot be asked. Returns whether it was given
        up."""
        if not is_spent(taken) or taken.ended or taken.cancelling:
            return False
        self._let_go(held)
        self._count(taken, TimingKind.LOST)
        told = words("upstream_silent", taken.claim.server_name)
        await self._store(partial(deferred.lose_deferred, taken, told=told, actor=self._actor))
        self._given_up.add(taken)
        return True

    async def _waits(self, held: _Kept, taken: Poll, outcome: Waits) -> None:
        """Put back a poll that could not be made with the grant of its call. Polls of calls with other grants go on."""
        if outcome.needs is None:
            if not await self._gives_up(held, taken):
                told = taken.status == "input_required" or taken.message == outcome.why
                pause = max(REFRESH_SECONDS, outcome.seconds)
                self._put_back(held, PutBack(taken, int(pause * 1000), None if told else outcome.why))
            return
        delay_ms = int(UNAUTHORIZED_SECONDS * 1000)
        ask = partial(ask_before_poll, taken, outcome.needs, delay_ms=delay_ms, actor=self._actor)
        if await self._lanes.run(ask):
            self._let_go(held)
            self.expect(taken.claim.task_id, UNAUTHORIZED_SECONDS)
        else:  # people are asked already, or another worker has the poll
            self._put_back(held, PutBack(taken, delay_ms))

    async def _store(self, change: Callable[[], bool]) -> None:
        await self._lanes.run(change)

    def _count(self, taken: Poll, kind: TimingKind) -> None:
        self._runner.timings.add(taken.claim.server_id, kind, taken.ran_seconds)


def _unheard(line: LogLine) -> None:
    """Ignores a line of a call that is over."""
