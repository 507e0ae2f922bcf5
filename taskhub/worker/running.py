"""Runs one claimed task: calls its tool, opens its questions, stores its outcome."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from taskhub.core.errors import Unavailable
from taskhub.core.records import Actor, Audience, Claim, LogLine, NewQuestion, QuestionKind, UpstreamTask
from taskhub.core.timings import TimingKind
from taskhub.core.words import words
from taskhub.domain.credentials import grants
from taskhub.domain.credentials.asking import ask_for_authorization
from taskhub.domain.credentials.records import NeedsAuthorization, NotYet
from taskhub.domain.hints.announce import announce
from taskhub.domain.questions.kinds import audience_for, model_may_answer, question_problem
from taskhub.domain.questions.live import drop_question
from taskhub.domain.questions.reads import response_to
from taskhub.domain.tasks import run as lifecycle
from taskhub.domain.tasks.deferred import defer
from taskhub.domain.tasks.run import Result
from taskhub.domain.tasks.sweep import CANCEL_GRACE_SECONDS
from taskhub.lib import logs
from taskhub.lib.batches import Batches
from taskhub.lib.lanes import Lanes
from taskhub.upstream.call import call_tool, waiting_message
from taskhub.upstream.deferred import FIRST_MS, PollOutcome, Silent
from taskhub.upstream.outcomes import Asked, CallOutcome, Deferred, Faulted, Finished, Postponed
from taskhub.upstream.pool import Pool, give_up
from taskhub.worker.breakers import Breakers
from taskhub.worker.notes import Notes
from taskhub.worker.pools import Pools
from taskhub.worker.timings import Timings

logger = logging.getLogger(__name__)
Outcome = TypeVar("Outcome", CallOutcome, PollOutcome)

CONNECTION_SECONDS = 40.0
"""The most seconds that a claimed task waits for a connection to its server, which may not be made yet, or be in use
for lists and relays. After that the task returns to the queue, which frees its slot. Long enough for two tries to
connect."""

WAIT_SECONDS = 2.0
"""Seconds for which a task may hold a slot while its server accepts no connection. Only the first task of each such
server may hold it longer, so the server takes up one slot at most."""

TURN_SECONDS = 2.0
"""The fewest seconds that a task stays in the queue after it was released because of `WAIT_SECONDS`."""

GATHER_SECONDS = 0.002
"""Seconds for which the end of a call waits for the ends of others, so that they are stored together: that takes less
CPU, but makes each call later."""
MANY = 4
"""While fewer other tasks run, the end of a call does not wait."""

STORE_SECONDS = 30.0
"""Seconds for which storing an outcome is tried again if the database refuses it. After that the outcome is dropped.
Time in which the database is away does not count."""

RETRY_SECONDS = 10.0
"""Seconds that a task stays in the queue after it was released because this worker is not connected to its server."""


@dataclass(frozen=True, slots=True)
class Waits:
    """The call did not run. `needs`: somebody has to authorize its server. If it is `None`, there is another reason
    (`why`), and the call is tried again soon."""

    needs: NeedsAuthorization | None
    why: str
    seconds: float = 0.0
    """Seconds before which another try is of no use."""


@dataclass(frozen=True, slots=True)
class Halted:
    """The tool is not called. `outcome`: the outcome to store for the call; `None` if it is stored already."""

    outcome: CallOutcome | Waits | None


@dataclass(eq=False, slots=True)
class Running:
    """A task that this worker has claimed and runs."""

    claim: Claim
    notes: Notes
    started: float
    probing: bool = False
    """Whether its call is the probe of a server whose breaker is open."""
    previewing: bool = False
    """Whether the preview of the call is running, so that the call itself does not wait for a connection yet."""
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    work: asyncio.Task[None] | None = None
    cancelling: bool = False
    lost: bool = False
    live_questions: int = 0
    asking: int = 0
    """The number of its questions that people or the client are answering. While there are any, the task takes up no
    slot."""
    clock: asyncio.Timeout | None = None
    begun: float | None = None
    """When its call first got a connection, by the event loop's clock; `None` before that."""
    news: asyncio.TimerHandle | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _withdrawn: bool = False

    def cancel(self) -> None:
        """Stop the tool, because cancellation was requested; the task ends as cancelled."""
        if not self.cancelling and self.work is not None:
            self.cancelling = True
            self._stop(self.work)

    def begin(self) -> bool:
        """Note that the call has a connection. Its running time counts from the first connection on. Returns `False` if
        the call was withdrawn and must not run. Thread-safe."""
        with self._turn:
            if self.begun is None and not self._withdrawn:
                self.begun = asyncio.get_running_loop().time()
            return not self._withdrawn

    def withdraw(self) -> bool:
        """Withdraw the call, so that it cannot begin. Returns `False` if it has begun already."""
        with self._turn:
            self._withdrawn = self.begun is None
            return self._withdrawn

    @property
    def shut_out(self) -> bool:
        """Whether the task has waited for a connection to its server for longer than `WAIT_SECONDS`."""
        waits = self.begun is None and not self.previewing
        return waits and time.monotonic() - self.started >= WAIT_SECONDS

    @property
    def limit(self) -> float:
        """When the running time ends, by the event loop's clock, not counting time that the tool waits for people."""
        return math.inf if self.begun is None else self.begun + self.claim.run_seconds

    def lose(self) -> None:
        """Stop the tool and drop its outcome, because the lease is lost and another worker may have the task."""
        if self.work is not None:
            self.lost = True
            self._stop(self.work)

    @staticmethod
    def _stop(work: asyncio.Task[None]) -> None:
        # Cancel after the first step of `work`, which is already scheduled. If `work` were cancelled before it, nothing
        # of it would run, and the task would keep its slot.
        asyncio.get_running_loop().call_soon(work.cancel)


class Runner:
    """Runs tools at a worker's servers, and stores the outcomes."""

    def __init__(
        self,
        lanes: Lanes,
        servers: Pools,
        breakers: Breakers,
        timings: Timings,
        actor: Actor,
        *,
        tell: Callable[..., None] = announce,
        gather: float = GATHER_SECONDS,
    ) -> None:
        """`tell` is called with the ids of tasks whose results were stored, to announce them by hints. `gather`: as
        `GATHER_SECONDS`."""
        self.lanes = lanes
        self.servers = servers
        self.breakers = breakers
        self.timings = timings
        self.actor = actor
        self.on_asking: Callable[[], None] = lambda: None
        """Called when a task begins to wait for an answer, and gives up its slot."""
        self.on_deferred: Callable[[int, float], None] = lambda task_id, seconds: None
        """Called when a call was deferred, with the seconds until its first poll."""
        self.preview: Callable[[Running], Awaitable[Halted | None]] = _no_preview
        """Called before the tool of a call that people may have approved after they saw a preview."""
        self.on_finished: Callable[[Result], None] = lambda ended: None
        """Called with each result that was stored."""
        self.results: Batches[Result, bool] = Batches(
            lanes,
            lambda ended: lifecycle.finish_tasks(ended, actor=actor, tell=tell),
            most=16,  # results may be large (upstream.call.MAX_RESULT), and a batch is one statement
            gather=lambda ended: gather if self.running - ended >= MANY else 0.0,
        )
        self.running = 0
        """The number of tasks that `run` is running."""

    async def run(self, held: Running, *, asks: Callable[[Running], bool] = lambda held: True) -> None:
        """Run the task, and store its outcome, if there is one. Raises only if cancelled. If its server accepts no
        connection, the task returns to the queue soon, unless `asks(held)` is true: then it goes on waiting."""
        claim = held.claim
        self.timings.add(claim.server_id, TimingKind.WAITED, claim.waited)
        self.running += 1
        try:
            with logs.about({"task": claim.public_id, "server": claim.server_name}):
                outcome = await self._outcome(held, asks)
                await self._end(held, outcome)
        except Exception:
            logger.exception("task %s: its outcome could not be stored", claim.public_id)
        finally:
            self.running -= 1
            if held.probing:
                self.breakers.leave(held.claim.server_id)

    async def _end(self, held: Running, outcome: Callable[[], Awaitable[bool]] | None) -> None:
        """Store the outcome, even if the call is cancelled meanwhile, because its outcome is known."""
        ending = asyncio.ensure_future(self._flush_and_settle(held, outcome))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            if ending.cancelled() or not (held.cancelling or held.lost):
                ending.cancel()
                raise
            await ending

    async def _flush_and_settle(self, held: Running, outcome: Callable[[], Awaitable[bool]] | None) -> None:
        await held.notes.flush()
        if outcome is not None and not held.lost:
            await self._settle(held, outcome)

    async def _outcome(self, held: Running, asks: Callable[[Running], bool]) -> Callable[[], Awaitable[bool]] | None:
        """Make the call. Returns a function that stores the outcome; `None` if the lease is lost."""
        claim = held.claim
        pool = self.servers.pool(claim.server_id)
        if pool is None:
            return self._give_back(claim)
        # A call with answers has begun already, and its preview would show the effects of that.
        if claim.previewed and claim.answers is None and claim.upstream_state is None:
            halted = await self._previewed(held)
            if isinstance(halted, Halted):
                return None if halted.outcome is None else self._storing(held, halted.outcome)
            if halted is not None:
                return halted

        async def ask(kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
            # Called in the loop of an in-process server; the answer is awaited in the worker's loop.
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._ask_live(held, kind, params), loop))

        def say(line: LogLine) -> None:
            loop.call_soon_threadsafe(held.notes.add, line)

        loop = asyncio.get_running_loop()
        make = partial(call_tool, claim=claim, say=say, ask=ask, begin=held.begin)
        by_grant = pool.target.bearer is not None
        work = self.by_grant(claim, make) if by_grant else pool.run(make(pool))
        calling: asyncio.Future[CallOutcome | Waits] = asyncio.ensure_future(work)
        try:
            outcome = await _in_time(held, calling, asks)
        except TimeoutError:
            if held.withdraw():
                delay = RETRY_SECONDS if asks(held) else TURN_SECONDS
                await _abandon(calling, seconds=1.0)  # even if it does not stop in time, it cannot begin any more
                return self._give_back(claim, delay)
            await _abandon(calling)
            self._ended(held, TimingKind.TIMED_OUT)
            return self._fault(claim, f"The tool ran longer than {claim.run_seconds} s and was stopped", "timeout")
        except asyncio.CancelledError:
            stopped = await _abandon(calling)
            if held.lost:
                self._ended(held, TimingKind.LOST)
                return None
            if held.cancelling:
                self._ended(held, TimingKind.CANCELLED)
                message = words("cancelled_running" if stopped else "cancelled_unconfirmed")
                return lambda: self.lanes.run(lifecycle.settle_cancel, claim, message=message, actor=self.actor)
            self._ended(held, TimingKind.GIVEN_BACK)
            return lambda: self.lanes.run(
                lifecycle.release,
                claim,
                started=True,
                delay_seconds=0.0,
                reason="Its worker was stopped",
                actor=self.actor,
            )
        return self._storing(held, outcome)

    async def _previewed(self, held: Running) -> Halted | Callable[[], Awaitable[bool]] | None:
        """Run the preview of the call. Returns `None` if the tool may be called; else `Halted`, or a function that
        stores the outcome."""
        claim, held.previewing = held.claim, True
        try:
            return await self.preview(held)
        except asyncio.CancelledError:
            if held.lost:
                return Halted(None)
            if held.cancelling:
                message = words("cancelled_unstarted")
                return lambda: self.lanes.run(lifecycle.settle_cancel, claim, message=message, actor=self.actor)
            return self._give_back(claim, 0.0, "Its worker was stopped")
        except Exception:
            logger.exception("task %s: its preview could not be run again", claim.public_id)
            return self._give_back(claim)
        finally:
            held.previewing = False
            held.started = time.monotonic()  # the wait for a connection begins now

    def _storing(self, held: Running, outcome: CallOutcome | Waits) -> Callable[[], Awaitable[bool]]:
        """Returns a function that stores the outcome."""
        claim = held.claim
        match outcome:
            case Finished(result, too_large):
                self.breakers.reached(claim.server_id)
                self._ended(held, TimingKind.ERROR if result.get("isError") else TimingKind.FINISHED)
                ended = Result(claim, result, too_large)
                return lambda: self._finish(ended)
            case Asked(asked, state):
                self.breakers.reached(claim.server_id)
                self._ended(held, TimingKind.ASKED)
                return lambda: self._open(claim, asked, state, live=False)
            case Deferred(task, session):
                self.breakers.reached(claim.server_id)
                return lambda: self._defer(held, task, session)
            case Postponed(why, seconds):
                return self._give_back(claim, seconds, why)
            case Waits(needs, why, seconds):
                if needs is not None:
                    return lambda: self.lanes.run(ask_for_authorization, claim, needs, actor=self.actor)
                return self._give_back(claim, max(RETRY_SECONDS, seconds), why)
            case Faulted(error, lost=True):
                self._ended(held, TimingKind.FAULTED)
                told = str(error["message"])
                return lambda: self.lanes.run(lifecycle.lose, claim, told=told, actor=self.actor)
            case Faulted(error, unreached, problem):
                self._ended(held, TimingKind.FAULTED)
                kind = "connect" if unreached else str(error["code"])
                fault = partial(self.lanes.run, lifecycle.fault, claim, error, kind=kind, actor=self.actor)
                return self._unreached(held, problem, fault) if unreached else fault

    async def _finish(self, ended: Result) -> bool:
        done = await self.results.run(ended)
        if done:
            self.on_finished(ended)
        return done

    async def _defer(self, held: Running, task: UpstreamTask, session: str) -> bool:
        """Store that the call runs as a task of its server, which is polled from now on (`worker.polling`). The time
        that the call has run so far is included. Returns `False` if the lease is lost."""
        claim = held.claim
        delay_ms = FIRST_MS if task.poll_ms is None else min(FIRST_MS, task.poll_ms)
        ran = 0.0 if held.begun is None else asyncio.get_running_loop().time() - held.begun
        done = await self.lanes.run(
            defer,
            claim,
            task,
            poll_ms=delay_ms,
            delay_ms=delay_ms,
            ran_seconds=ran,
            home=self.actor.name if task.here else "",
            session=session,
            actor=self.actor,
        )
        self.on_deferred(claim.task_id, delay_ms / 1000)
        return done

    async def by_grant(self, claim: Claim, make: Callable[[Pool], Coroutine[Any, Any, Outcome]]) -> Outcome | Waits:
        """The outcome of a call, or of a poll, at a server with OAuth. If the server refuses the token, it has not run
        the call, so the request is made once more with a new token."""
        refused = ""
        try:
            while True:
                pool = await self.servers.pool_for(claim.server_id, claim.context_id, refused=refused)
                if pool is None:
                    return Waits(None, words("waiting_server"))
                with self.servers.grants.using(pool):
                    outcome = await make(pool)
                if isinstance(outcome, Faulted | Silent) and outcome.scopes:
                    return await self._with_scopes(claim, outcome)
                unheard = isinstance(outcome, Silent) or (isinstance(outcome, Faulted) and outcome.unreached)
                bearer = pool.target.bearer
                sent = bearer.access.token if bearer is not None and bearer.access is not None else ""
                if not (unheard and bearer and bearer.refused == sent != ""):
                    return outcome
                if refused:
                    needs = await self.lanes.run(grants.refuse, claim.server_id, claim.context_id, sent)
                    return Waits(needs, words("authorizing"))
                refused = sent
        except NeedsAuthorization as error:
            return Waits(error, error.message)
        except Unavailable as error:
            seconds = error.seconds if isinstance(error, NotYet) else 0.0
            return Waits(None, f"{words('authorizing')}: {error.message}"[:500], seconds)

    async def _with_scopes(self, claim: Claim, outcome: Outcome) -> Outcome | Waits:
        """The outcome of a call that its server refused because the token lacks scopes."""
        assert isinstance(outcome, Faulted | Silent)
        needs = await self.lanes.run(grants.widen, claim.server_id, claim.context_id, outcome.scopes)
        if isinstance(needs, NeedsAuthorization):
            return Waits(needs, needs.message)
        if isinstance(outcome, Silent):
            return replace(outcome, problem=f"{outcome.problem} {needs}")
        return replace(outcome, error={**outcome.error, "message": f"{outcome.error['message']} {needs}."})

    def _ended(self, held: Running, kind: TimingKind) -> None:
        """Count the time that the call took, if it got a connection."""
        if held.begun is not None:
            self.timings.add(held.claim.server_id, kind, asyncio.get_running_loop().time() - held.begun)

    def _unreached(
        self, held: Running, problem: str, fault: Callable[[], Awaitable[bool]]
    ) -> Callable[[], Awaitable[bool]]:
        """Returns a function that stores that the server could not be reached. If the breaker was open already, the
        function returns the task to the queue; otherwise it calls `fault`, which ends the task."""
        claim = held.claim
        store: Callable[[], Awaitable[bool]] | None = None

        async def settle() -> bool:
            nonlocal store
            if store is None:  # the failure is counted once, however often storing is tried
                waits = await self.breakers.failed(claim.server_id, problem, probing=held.probing)
                held.probing = False
                store = self._give_back(claim, 0.0, words("waiting_server")) if waits else fault
            return await store()

        self.servers.look_again(claim.server_id)
        return settle

    def _give_back(
        self, claim: Claim, delay_seconds: float = RETRY_SECONDS, why: str = "Waiting for its server"
    ) -> Callable[[], Awaitable[bool]]:
        return lambda: self.lanes.run(
            lifecycle.release,
            claim,
            started=False,
            delay_seconds=delay_seconds,
            reason=why,
            actor=self.actor,
        )

    def _fault(self, claim: Claim, message: str, kind: str = "") -> Callable[[], Awaitable[bool]]:
        error = {"code": -32603, "message": message}
        return lambda: self.lanes.run(lifecycle.fault, claim, error, kind=kind, actor=self.actor)

    async def _settle(self, held: Running, store: Callable[[], Awaitable[bool]]) -> None:
        """Store the outcome by `store`, and try again if that fails: while the database is away, until the lease is
        lost; after any other error, for `STORE_SECONDS`. So a result survives a short failure of the database."""
        claim, pause = held.claim, 0.1
        give_up_at: float | None = None
        while not held.lost:
            try:
                if not await store() and not held.cancelling:  # a cancellation may have ended the task already
                    logger.warning("task %s: the lease was lost, the outcome is dropped", claim.public_id)
                return
            except Unavailable:
                pass
            except Exception:
                if give_up_at is None:
                    give_up_at = time.monotonic() + STORE_SECONDS
                    logger.exception("task %s: its outcome cannot be stored; tried again", claim.public_id)
                elif time.monotonic() >= give_up_at:
                    if held.begun is None:  # the tool has not run: another worker claims the task when the lease ends
                        raise
                    # The tool has run, and a second run would end with the same error.
                    logger.exception("task %s: its outcome could not be stored and is dropped", claim.public_id)
                    await self._fault(claim, "The tool ran, but what came of it could not be stored")()
                    return
            await asyncio.sleep(pause)
            pause = min(pause * 2, 2.0)

    async def _open(self, claim: Claim, asked: Sequence[NewQuestion], state: str | None, *, live: bool) -> bool:
        """Open questions of the tool, each for those whom the policy names. A question for the client alone goes
        elsewhere if the client cannot be asked: to the client's model, if that can answer with the hub's own tool, and
        otherwise to people. Returns `False` if the lease is lost."""
        asked = await self.for_whom(claim, asked)
        return await self.lanes.run(
            lifecycle.ask,
            claim,
            asked,
            upstream_state=state,
            message=waiting_message(asked),
            live=live,
            actor=self.actor,
        )

    async def for_whom(self, claim: Claim, asked: Sequence[NewQuestion]) -> Sequence[NewQuestion]:
        """The questions, each with the audience that `_open` describes."""
        found = [self._to_model(claim, question) for question in asked]
        if found != list(asked) and await self.lanes.run(lifecycle.goes_on_by_tools, claim.task_id):
            return found
        return asked

    @staticmethod
    def _to_model(claim: Claim, question: NewQuestion) -> NewQuestion:
        if claim.only_caller or not model_may_answer(question.kind, question.params, claim.question_audience):
            return question
        return replace(question, audience=Audience.CLIENT)

    async def _ask_live(self, held: Running, kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
        held.asking += 1
        self.on_asking()
        try:
            return await self._answered(held, kind, params)
        finally:
            held.asking -= 1

    async def _answered(self, held: Running, kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
        """Open a question that an older server asks during a call, wait for the answer, and return it. The worker keeps
        the task's lease. The question is closed if the worker is lost, or if this function is cancelled because the
        server no longer wants an answer. Raises `AnsweredByError`."""
        problem = question_problem(kind, params)
        if problem:
            raise ValueError(problem)
        claim = held.claim
        held.live_questions += 1
        question = NewQuestion(
            key=f"live-{claim.epoch}-{held.live_questions}",
            kind=kind,
            params=params,
            audience=audience_for(claim.client_capabilities, kind, params, claim.question_audience),
        )
        held.answered.clear()
        opening = asyncio.ensure_future(self._open(claim, [question], None, live=True))
        try:
            return await self._response(held, question, opening)
        except asyncio.CancelledError:
            if not held.lost and await opening:
                await self.lanes.run(drop_question, claim, question.key, actor=self.actor)
            raise

    async def _response(self, held: Running, question: NewQuestion, opening: asyncio.Future[bool]) -> dict[str, Any]:
        claim = held.claim
        if not await asyncio.shield(opening):
            held.lost = True
            raise ConnectionError("the task is no longer ours")
        asked_at = asyncio.get_running_loop().time()
        due = held.clock.when() if held.clock is not None else None
        # The deadline of `clock` may still be the one for getting a connection, which the call has by now.
        limit = None if due is None else max(due, held.limit)
        while True:
            # The time for which the tool waits for an answer does not count as running time.
            if held.clock is not None and limit is not None:
                held.clock.reschedule(limit + asyncio.get_running_loop().time() - asked_at + 10.0)
            response = await self.lanes.run(response_to, claim.task_id, question.key)
            if response is not None:
                if held.clock is not None and limit is not None:
                    held.clock.reschedule(limit + asyncio.get_running_loop().time() - asked_at)
                return response
            try:
                async with asyncio.timeout(5.0):
                    await held.answered.wait()
            except TimeoutError:
                pass
            held.answered.clear()


async def _no_preview(_: Running) -> None:
    return None


async def _in_time(
    held: Running, calling: asyncio.Future[CallOutcome | Waits], asks: Callable[[Running], bool]
) -> CallOutcome | Waits:
    """The outcome of the call. Raises `TimeoutError` if the call ran for too long or got no connection in time."""
    now, may_run = asyncio.get_running_loop().time, held.claim.run_seconds
    patience = now() + CONNECTION_SECONDS
    limit = now() + min(WAIT_SECONDS, may_run)
    while True:
        try:
            async with asyncio.timeout_at(limit) as held.clock:
                return await asyncio.shield(calling)
        except TimeoutError:
            waits = held.begun is None
            if now() >= (patience if waits else held.limit) or (waits and held.shut_out and not asks(held)):
                raise
            limit = min(patience, now() + min(WAIT_SECONDS, may_run)) if waits else held.limit


async def _abandon(calling: asyncio.Future[Any], seconds: float | None = None) -> bool:
    """Cancel a call and wait at most `seconds`, by default half of `CANCEL_GRACE_SECONDS`, for its end. Returns whether
    it ended in this time."""
    calling.cancel()
    done, _ = await asyncio.wait({calling}, timeout=CANCEL_GRACE_SECONDS / 2 if seconds is None else seconds)
    if not done:
        await give_up(calling)
    return bool(done)
