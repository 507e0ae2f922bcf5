"""A tool call of any revision: create the task, then wait for it as long as the caller may."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from taskhub.core.errors import Invalid, KeyReused
from taskhub.core.names import IDEMPOTENCY_KEY
from taskhub.core.records import Actor, Created, NewTask, Principal, TaskRecord, ToolRecord
from taskhub.core.states import TERMINAL, Door
from taskhub.domain.catalogue.view import Catalogue, cached_catalogue, catalogue
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.create import approval_question
from taskhub.domain.tasks.reads import task_by_id
from taskhub.protocol.errors import INVALID_PARAMS, INVALID_REQUEST, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming

RECHECK_SECONDS = 5.0
"""A waiter looks again this often even if no hint came."""


def actor_of(incoming: Incoming) -> Actor:
    """The caller, as the audit names it."""
    principal = incoming.principal
    return Actor(name=principal.name, door=Door.CLIENT, address=incoming.address, context_id=principal.context_id)


def need_scope(principal: Principal, scope: str) -> None:
    """Raises 403 `insufficient_scope` unless the token carries the scope (AU-04)."""
    if scope not in principal.scopes:
        raise ScopeMissing(scope)


class ScopeMissing(WireError):
    """The token is good but too narrow; the entry room adds the challenge header."""

    def __init__(self, scope: str) -> None:
        super().__init__(INVALID_REQUEST, f"The token lacks the scope {scope}", status=403)
        self.scope = scope
        self.id: str | int | None = None


async def tools_of(hub: Hub, tenant_id: int) -> Catalogue:
    """The catalogue; no query while the cache is warm."""
    known = cached_catalogue(tenant_id)
    return known if known is not None else await hub.lanes.run(catalogue, tenant_id)


async def wanted(hub: Hub, principal: Principal, params: dict[str, Any]) -> tuple[ToolRecord, dict[str, Any]]:
    """The tool and the arguments of a `tools/call`. Raises -32602 for an unknown tool and for
    arguments that are no object."""
    name, arguments = params.get("name"), params.get("arguments", {})
    if not isinstance(name, str):
        raise WireError(INVALID_PARAMS, "name must be a string")
    if not isinstance(arguments, dict):
        raise WireError(INVALID_PARAMS, "arguments must be an object")
    tool = (await tools_of(hub, principal.tenant_id)).by_name.get(name)
    if tool is None:
        raise WireError(INVALID_PARAMS, f"Unknown tool: {name[:128]}")
    return tool, arguments


async def misfit(hub: Hub, tool: ToolRecord, arguments: dict[str, Any]) -> str:
    """What a model is told of a call that people would be asked about, and whose arguments surely do not fit the tool's
    `inputSchema`: nobody need look at it. Empty for every other call: its server checks it."""
    if approval_question(tool, arguments) is None:
        return ""
    checked = await hub.schemas.check(tool.definition.get("inputSchema"), arguments)
    if not checked.problem:
        return ""
    return f"Not called: the arguments do not fit the inputSchema of {tool.exposed_name}: {checked.problem}"


def refusal_result(text: str) -> dict[str, Any]:
    """A tool's result that says why it did not run."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


def cancelled_result(task: TaskRecord) -> dict[str, Any]:
    """The result of a waited call that was cancelled."""
    return refusal_result(task.message or "The call was cancelled")


def trace_of(meta: dict[str, Any]) -> dict[str, Any]:
    """The caller's trace context, passed on to the tool's server."""
    return {key: meta[key] for key in ("traceparent", "tracestate", "baggage") if key in meta}


async def fresh(hub: Hub, task: TaskRecord) -> TaskRecord:
    """The task read again; the record itself if it was purged meanwhile."""
    return await hub.lanes.run(task_by_id, task.id) or task


def idempotency_key(meta: dict[str, Any]) -> str | None:
    """The caller's key, if it sent one. Raises `Invalid` for anything but 1..255 printable ASCII."""
    key = meta.get(IDEMPOTENCY_KEY)
    if key is None:
        return None
    if not isinstance(key, str) or not 1 <= len(key) <= 255 or not key.isascii() or not key.isprintable():
        raise Invalid(f"{IDEMPOTENCY_KEY} must be 1 to 255 printable ASCII characters")
    return key


async def create(
    hub: Hub, incoming: Incoming, tool: ToolRecord, arguments: dict[str, Any], **details: Any
) -> TaskRecord:
    """The durable task of this call; see `NewTask` for `details`. Raises `KeyReused` when an
    idempotency key finds a task that was made in another revision."""
    return (await created(hub, incoming, tool=tool, arguments=arguments, **details)).task


async def created(hub: Hub, incoming: Incoming, **details: Any) -> Created:
    """As `create`, and whether an idempotency key found an earlier task."""
    principal = incoming.principal
    new = NewTask(tenant_id=principal.tenant_id, context_id=principal.context_id, **details)
    made = await hub.creations.run((new, actor_of(incoming)))
    if made.task.revision != new.revision:
        # Its handle would be unknown to whoever was given it here.
        raise KeyReused("This idempotency key was used in another protocol revision")
    return made


async def wait_for(
    hub: Hub,
    task: TaskRecord,
    ready: Callable[[TaskRecord], bool],
    *,
    bell: asyncio.Event,
    seconds: float | None,
) -> TaskRecord:
    """The task as soon as it is terminal or `ready`, or as it stands after `seconds`.

    `bell` must have been watching the task since before it was read.
    """
    loop = asyncio.get_running_loop()
    deadline = None if seconds is None else loop.time() + seconds
    while task.state not in TERMINAL and not ready(task):
        left = RECHECK_SECONDS if deadline is None else min(RECHECK_SECONDS, deadline - loop.time())
        if left <= 0:
            break
        await rung(bell, left)
        fresh = await hub.lanes.run(task_by_id, task.id)
        if fresh is None:
            break
        task = fresh
    return task


async def rung(bell: asyncio.Event, seconds: float) -> bool:
    """Wait for the bell at most `seconds`, and reset it. `False` when time ran out."""
    try:
        async with asyncio.timeout(seconds):
            await bell.wait()
    except TimeoutError:
        return False
    bell.clear()
    return True


async def unless_gone(incoming: Incoming, work: Awaitable[Any], on_gone: Callable[[], Awaitable[None]]) -> Any:
    """The result of `work`, unless the peer leaves first: then `on_gone` and `CancelledError`."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(incoming.gone())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        await on_gone()
        raise asyncio.CancelledError
    finally:
        working.cancel()
        leaving.cancel()


async def abandon(hub: Hub, incoming: Incoming, task: TaskRecord) -> None:
    """The caller of a waited call has left: its work is not wanted any more (B26-10)."""
    actor = actor_of(incoming)
    actor = Actor(actor.name, actor.door, actor.address, context_id=actor.context_id, reason="The caller left")
    await hub.lanes.run(request_cancel, task.id, actor=actor)
