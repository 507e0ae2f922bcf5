"""The caller of a plain call: how long it waits for the answer, and what happens when it leaves or comes back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from taskhub.core.records import Actor, TaskRecord, ToolRecord
from taskhub.domain.clients.patience import (
    LEAST_UNHEARD,
    OF_ANSWERED,
    OF_COMING_BACK,
    SOONEST_BACK,
    CallerSettings,
    cached_settings,
    caller_settings,
    learn,
)
from taskhub.domain.tasks.callers import cancel_left, fetched, leave, new_waiter, wait
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.protocol import calls
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming
from taskhub.protocol.plain.interim import interim_result

LEFT: Final = "The caller left"
CUT_OFF_SECONDS: Final = (1.0, 5.0, 20.0, 60.0)
"""When the hub itself has ended a call's stream, it tries to record that after each of these numbers of seconds. After
the first try that succeeds, further tries have no effect."""
PATIENCE_OVER: Final = "An interim result was given"


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a plain call, which waits for one task. `began`: when it began to wait, on the event loop's
    clock."""

    hub: Hub
    incoming: Incoming
    client_info: dict[str, Any]
    settings: CallerSettings
    waiter: str = field(default_factory=new_waiter)
    began: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    @property
    def base(self) -> str:
        """The address of the console."""
        return calls.console_at(self.hub, self.incoming)

    def joining(self, tool: ToolRecord, *, session_id: int | None = None, keyed: bool = False) -> dict[str, Any]:
        """The arguments of `calls.created` that say which earlier task the call may join. Callers without a token share
        one client, so their calls join only calls of the same session. A call with an idempotency key (`keyed`) joins
        none, because the key finds its task."""
        anonymous = self.incoming.principal.anonymous
        joins = tool.join_seconds > 0 and not keyed and (not anonymous or session_id is not None)
        return {
            "waiter": self.waiter,
            "join_seconds": tool.join_seconds if joins else None,
            "join_session": session_id if anonymous else None,
        }

    def told_at_once(self, task: TaskRecord) -> bool:
        """Whether the caller gets its interim result now, whatever its patience, because only its model can give the
        answer that the task waits for, with the hub's own tool."""
        return self.settings.tools and any(question.by_tool for question in task.questions)

    def seconds_left(self, task: TaskRecord) -> float | None:
        """Seconds until the caller's patience is over; `None` if it waits until the task ends. It always waits that
        long if it could not go on after an interim result, because it does not see the hub's own tools and its call
        cannot be joined."""
        if self.told_at_once(task):
            return 0.0
        patience = self.settings.patience(self.client_info).seconds
        goes_on = self.settings.tools or (task.join_seconds is not None and not self.incoming.principal.anonymous)
        if patience is None or not goes_on:
            return None
        return self.began + patience - asyncio.get_running_loop().time()

    async def waits(self, task: TaskRecord) -> None:
        """Record that the caller waits for a task that existed before its request."""
        await self.hub.lanes.run(wait, task.id, self.waiter)

    async def gets_interim(self, task: TaskRecord) -> dict[str, Any]:
        """Record that the caller's patience is over, and return the interim result that it is given."""
        await self.hub.lanes.run(leave, task.id, self.waiter, actor=self._actor(PATIENCE_OVER), interim=True)
        return interim_result(
            task,
            base=self.base,
            patience=self.settings.patience(self.client_info).seconds,
            tools=self.settings.tools,
        )

    async def has(self, task: TaskRecord) -> None:
        """Record that the caller was given the task's outcome. If an earlier caller had left the task, the same call no
        longer joins it."""
        if task.left_at is not None:
            await self.hub.lanes.run(fetched, task.id)

    async def leaves(self, task: TaskRecord, *, cancels: bool, timed_out: bool = False) -> None:
        """Record that the caller left without an answer, and learn from that how long its program waits. `cancels`:
        whether a caller that leaves cancels its task. If so, the task is cancelled after `hub.leave_seconds`, unless
        the same call has joined it by then. A task that no call can join is cancelled at once. `timed_out`: whether the
        client said that its request timed out."""
        waited = asyncio.get_running_loop().time() - self.began
        actor = self._actor(LEFT)
        left_at = await self.hub.lanes.run(leave, task.id, self.waiter, actor=actor)
        if left_at is None or self.hub.closing.is_set():
            return  # another caller waits, or this one had left already; or this process shuts down
        patience = self.settings.patience(self.client_info)
        teaches = patience.why != "set" and not self.incoming.principal.anonymous  # anonymous callers share one client
        if teaches and (patience.seconds is None or waited < patience.seconds):
            context_id = self.incoming.principal.context_id
            await self.hub.lanes.run(learn, context_id, self.client_info, int(waited * 1_000), certain=timed_out)
        if not cancels:
            return
        if task.join_seconds is None:
            await self.hub.lanes.run(request_cancel, task.id, actor=actor)
        else:
            self.hub.later(self.hub.leave_seconds, partial(self._cancel_left, task.id, left_at, actor))

    def cut_off(self, task: TaskRecord) -> None:
        """End the wait because the database does not answer. Later, several tries are made to record that nobody waits
        for the task, so that the same call can join it (`CUT_OFF_SECONDS`)."""
        for seconds in CUT_OFF_SECONDS:
            self.hub.later(seconds, partial(self._not_waiting, task.id))

    async def _not_waiting(self, task_id: int) -> None:
        # `interim`: no event says that the caller left, since it was the hub that ended the wait.
        await self.hub.lanes.run(leave, task_id, self.waiter, actor=self._actor(LEFT), interim=True)

    async def again(self, waited: float) -> Caller:
        """The caller, with a new patience. Call this if the program made the same request `waited` seconds ago and that
        request is still served: the program must have given up the earlier request without notice."""
        patience = self.settings.patience(self.client_info).seconds
        if waited < SOONEST_BACK or (patience is not None and waited > patience * OF_ANSWERED):
            return self  # too soon to tell, or the earlier request was about to get its interim result
        return await self._less(waited)

    async def unheard(self) -> Caller:
        """The caller, with a new patience. Call this if its program was given an interim result and makes the same call
        again, although it could go on with the hub's tools: the interim result may have come too late."""
        patience = self.settings.patience(self.client_info).seconds
        if patience is None or patience <= LEAST_UNHEARD or not self.settings.tools:
            return self
        return await self._less(max(patience, LEAST_UNHEARD / OF_COMING_BACK))

    async def _less(self, waited: float) -> Caller:
        if self.settings.patience(self.client_info).why == "set" or self.incoming.principal.anonymous:
            return self
        context_id, run = self.incoming.principal.context_id, self.hub.lanes.run
        await run(learn, context_id, self.client_info, round(waited * 1_000), part=OF_COMING_BACK, certain=True)
        return replace(self, settings=await run(caller_settings, context_id))

    async def _cancel_left(self, task_id: int, left_at: datetime, actor: Actor) -> None:
        await self.hub.lanes.run(cancel_left, task_id, left_at, actor=actor)

    def _actor(self, reason: str) -> Actor:
        return replace(calls.actor_of(self.incoming), reason=reason)


async def caller_of(hub: Hub, incoming: Incoming, client_info: dict[str, Any]) -> Caller:
    """The caller of a request that begins now. Makes no query while the settings of its client are cached."""
    context_id = incoming.principal.context_id
    known = cached_settings(context_id)
    if known is None:
        known = await hub.lanes.run(caller_settings, context_id)
    return Caller(hub, incoming, client_info, known)
