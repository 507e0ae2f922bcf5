"""Runs previews: while people are asked about a call, and once more right before its tool runs."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from taskhub.core.records import Actor, Claim
from taskhub.core.states import QuestionKind
from taskhub.domain.questions.previews import Answer, answer_of, failed
from taskhub.domain.tasks import previews
from taskhub.domain.tasks.previews import Compared, PreviewCall
from taskhub.upstream.call import call_tool
from taskhub.upstream.outcomes import Asked, CallOutcome, Deferred, Faulted, Finished, Postponed
from taskhub.upstream.pool import give_up
from taskhub.worker.running import Halted, Runner, Running, Waits

logger = logging.getLogger(__name__)

AT_ONCE: Final = 16
"""The most previews that a worker runs at once while people are asked. Those right before a call come on top."""


@dataclass(frozen=True, slots=True)
class Late:
    """The outcome of a preview without an answer in time. `begun`: whether its call had begun."""

    begun: bool


class Previews:
    """Runs the previews of a worker."""

    def __init__(self, name: str, runner: Runner, actor: Actor) -> None:
        self._name = name
        self._runner = runner
        self._lanes = runner.lanes
        self._actor = actor
        self._running: set[asyncio.Task[None]] = set()
        self._looking = asyncio.Lock()

    async def look(self) -> None:
        """Begin previews that are due."""
        async with self._looking:
            free = AT_ONCE - len(self._running)
            due = await self._lanes.run(previews.take_previews, self._name, most=free) if free > 0 else []
            for call in due:
                work = asyncio.create_task(self._work(call))
                self._running.add(work)
                work.add_done_callback(self._running.discard)

    async def close(self) -> None:
        """Stop all previews. Another worker runs them again."""
        for work in (running := list(self._running)):
            work.cancel()
        if running:
            await asyncio.wait(running, timeout=2.0)

    async def _work(self, call: PreviewCall) -> None:
        try:
            answer = failed(call.problem) if call.problem else _read(came := await self._call(call.claim), waits=True)
            if answer is None and call.tries < previews.MAX_TRIES:
                await self._lanes.run(previews.put_off, call, _problem(came))
                return
            answer = answer or failed(_problem(came))
            await self._lanes.run(previews.end_preview, call, answer, actor=self._actor)
        except Exception:
            logger.exception("the preview of task %s failed; it is run again", call.claim.public_id)

    async def again(self, held: Running) -> Halted | None:
        """Run again the preview that people saw when they approved this call. Returns `None` if it shows the same as
        then, or if there was none: then the tool may be called."""
        call = await self._lanes.run(previews.approved_preview, held.claim.task_id)
        if call is None:
            return None
        if call.problem:
            answer = failed(call.problem)
        else:
            came = await self._call(call.claim)
            if isinstance(came, Waits | Postponed) or (isinstance(came, Faulted) and came.unreached):
                return Halted(came)  # the call itself would have this outcome too
            if isinstance(came, Late) and not came.begun:
                return Halted(Waits(None, _problem(came)))
            answer = _read(came, waits=False) or failed(_problem(came))
        compare = partial(previews.compare_preview, call, held.claim, answer, actor=self._actor)
        return None if await self._lanes.run(compare) is Compared.SAME else Halted(None)

    async def _call(self, claim: Claim) -> CallOutcome | Waits | Late:
        """The outcome of a preview at its server, with the credentials and connections that the call itself would use.
        It counts against the server's limit of calls."""
        pool = self._runner.servers.pool(claim.server_id)
        if pool is None:
            return Waits(None, "Its server is not connected")
        asked: list[QuestionKind] = []
        begun = False

        async def ask(kind: QuestionKind, params: dict[str, Any]) -> dict[str, Any]:
            asked.append(kind)
            raise ValueError("nobody answers questions of a preview")

        def begin() -> bool:
            nonlocal begun
            begun = True
            return True

        make = partial(call_tool, claim=claim, say=lambda line: None, ask=ask, begin=begin)
        by_grant = pool.target.bearer is not None
        calling: asyncio.Future[CallOutcome | Waits] = asyncio.ensure_future(
            self._runner.by_grant(claim, make) if by_grant else pool.run(make(pool))
        )
        try:
            async with asyncio.timeout(previews.PREVIEW_SECONDS):
                outcome = await asyncio.shield(calling)
        except TimeoutError:
            await give_up(calling)
            return Late(begun)
        except asyncio.CancelledError:
            await give_up(calling)
            raise
        # A tool may go on without an answer to its question, and then show something else than it would do.
        return Asked((), None) if asked else outcome


def _read(came: CallOutcome | Waits | Late, *, waits: bool) -> Answer | None:
    """The preview to show to people; `None` if it did not run or its answer was lost, so that it may be tried again.
    With `waits`, it says that somebody has to authorize the server, if that is so."""
    match came:
        case Finished(result):
            return answer_of(result)
        case Asked():
            return failed("It asks something itself, and nobody answers questions of a preview.")
        case Deferred():
            return failed("Its server runs it as a task of its own, which is no preview.")
        case Late(begun=True):
            return failed(_problem(came))
        case Faulted(error, unreached=False, lost=False):
            return failed(str(error["message"]))
        case Waits(needs) if needs is not None and waits:
            return failed(needs.message)
    return None


def _problem(came: CallOutcome | Waits | Late) -> str:
    """Why the preview has no answer, as text for people."""
    match came:
        case Faulted(error):
            return str(error["message"])
        case Waits(_, why) | Postponed(why):
            return why
        case Late(begun):
            what = "gave no answer" if begun else "took no call"
            return f"Its server {what} within {previews.PREVIEW_SECONDS:.0f} s"
    return ""
