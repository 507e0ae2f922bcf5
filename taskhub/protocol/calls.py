"""A client's tasks in any revision: a tool call makes a task and waits for it; later requests find the task by its id
and answer its questions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from taskhub.core.errors import Invalid, KeyReused, Unavailable
from taskhub.core.hints import run_topic
from taskhub.core.names import IDEMPOTENCY_KEY, TOOL_USE
from taskhub.core.records import Actor, NewTask, OpenQuestion, Principal, TaskRecord, ToolRecord
from taskhub.core.rules import Then, Verdict
from taskhub.core.states import TERMINAL, Door, State
from taskhub.domain.audit.record import record_verdict
from taskhub.domain.questions.answer import answer_question
from taskhub.domain.questions.kinds import checked_response
from taskhub.domain.rules.decisions import denied
from taskhub.domain.sessions.writes import answer_page
from taskhub.domain.tasks.cancel import request_cancel
from taskhub.domain.tasks.create import approval_question
from taskhub.lib import jsonx
from taskhub.protocol.errors import INVALID_PARAMS, INVALID_REQUEST, WireError
from taskhub.protocol.hub import Hub, RunInPlace, client_of
from taskhub.protocol.incoming import Incoming
from taskhub.protocol.wire.page_links import offered, page_key, page_verdict
from taskhub.protocol.wire.tasks import answerable

MAX_CLIENT: Final = 65_536
"""The most bytes of clientInfo and capabilities together, as compact JSON."""
MAX_TOOL_USE: Final = 255
"""The most characters of the id of a tool use; a longer id is not kept."""
RECHECK_SECONDS = 5.0
"""A waiter reads its task again after this many seconds, even if no hint came."""

PUBLIC_ID: Final = re.compile(r"[A-Za-z0-9_-]{22,64}")
"""The form of the public ids of tasks, which the hub makes."""


def actor_of(incoming: Incoming) -> Actor:
    """The caller, as the audit names it."""
    principal = incoming.principal
    return Actor(name=principal.name, door=Door.CLIENT, address=incoming.address, context_id=principal.context_id)


def console_at(hub: Hub, incoming: Incoming) -> str:
    """The address of the console, for people."""
    return hub.address or f"http://{incoming.headers.get('host', 'localhost')}"


def need_small_client(incoming: Incoming, client_info: Any, capabilities: Any) -> None:
    """Raises -32602 if `client_info` and `capabilities` together exceed `MAX_CLIENT`: they are stored with each
    call."""
    if len(incoming.body) > MAX_CLIENT and len(jsonx.encode([client_info, capabilities])) > MAX_CLIENT:
        raise WireError(INVALID_PARAMS, f"clientInfo and the capabilities are larger than {MAX_CLIENT} bytes together")


def need_scope(principal: Principal, scope: str) -> None:
    """Raises 403 `insufficient_scope` unless the token carries the scope (AU-04)."""
    if scope not in principal.scopes:
        raise ScopeMissing(scope)


class ScopeMissing(WireError):
    """The token is valid but lacks a scope; `api` adds the challenge header."""

    def __init__(self, scope: str) -> None:
        super().__init__(INVALID_REQUEST, f"The token lacks the scope {scope}", status=403)
        self.scope = scope
        self.id: str | int | None = None


async def wanted(hub: Hub, principal: Principal, params: dict[str, Any]) -> tuple[ToolRecord, dict[str, Any]]:
    """The tool and the arguments of a `tools/call`. Raises -32602 for a tool that is unknown or hidden from the caller,
    and for arguments that are no object."""
    name, arguments = params.get("name"), params.get("arguments", {})
    if not isinstance(name, str):
        raise WireError(INVALID_PARAMS, "name must be a string")
    if not isinstance(arguments, dict):
        raise WireError(INVALID_PARAMS, "arguments must be an object")
    tool = (await hub.catalogue(principal)).by_name.get(name)
    if tool is None:
        raise WireError(INVALID_PARAMS, f"Unknown tool: {name[:128]}")
    return tool, arguments


async def judged(
    hub: Hub, incoming: Incoming, tool: ToolRecord, arguments: dict[str, Any], client_info: dict[str, Any]
) -> tuple[Verdict, str]:
    """The verdict of the tenant's rules on a call, and the error as text for the model if the call is not made. A call
    is not made if the rules deny it, or if it needs an approval but its arguments do not fit the tool's `inputSchema`.
    For any other call the error is empty, and the server checks the arguments."""
    name = client_info.get("name")
    rules = (await hub.catalogue(incoming.principal)).rules
    program = name if isinstance(name, str) else ""
    steps = rules.deciding(client_of(incoming.principal), tool, arguments, program=program, now=datetime.now(UTC))
    verdict = await hub.rule_time.run(incoming.principal.tenant_id, steps)
    verdict = rules.let_pass(verdict, tool)
    if verdict.then is Then.DENY or verdict.shadows:
        await _recorded(hub, incoming, tool, arguments, verdict)
    if verdict.then is Then.DENY:
        return verdict, denied(verdict)
    if approval_question(tool, arguments, verdict) is None:
        return verdict, ""
    checked = await hub.schemas.check(tool.definition.get("inputSchema"), arguments)
    if not checked.problem:
        return verdict, ""
    problem = f"Not called: the arguments do not fit the inputSchema of {tool.exposed_name}: {checked.problem}"
    return verdict, problem


async def _recorded(
    hub: Hub, incoming: Incoming, tool: ToolRecord, arguments: dict[str, Any], verdict: Verdict
) -> None:
    """Record the verdict in the audit log, at most once in `hub.RECORDED_SECONDS` for each client, tool and verdict, so
    that a program which makes the same call again and again does not fill the log."""
    principal = incoming.principal
    key = (principal.context_id, tool.id, verdict)
    if hub.recorded.get(key):
        return
    hub.recorded.keep(key, True, hub.recorded.since())
    record = partial(
        record_verdict,
        verdict,
        tenant_id=principal.tenant_id,
        tool=tool,
        arguments=arguments,
        actor=actor_of(incoming),
    )
    with suppress(Unavailable):  # the verdict counts even if it cannot be recorded
        await hub.lanes.run(record)


def refusal_result(text: str) -> dict[str, Any]:
    """A tool's result that says why it did not run."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


def cancelled_result(task: TaskRecord) -> dict[str, Any]:
    """The result of a cancelled call, for a caller that waits for it."""
    return refusal_result(task.message or "The call was cancelled")


def trace_of(meta: dict[str, Any]) -> dict[str, Any]:
    """The ids by which the caller's own records name the call: its trace context, and the id of a tool use. They are
    kept with the task and passed on to the tool's server."""
    found: dict[str, Any] = {key: meta[key] for key in ("traceparent", "tracestate", "baggage") if key in meta}
    use = meta.get(TOOL_USE)
    if isinstance(use, str) and 1 <= len(use) <= MAX_TOOL_USE:
        found[TOOL_USE] = use
    return found


async def fresh(hub: Hub, task: TaskRecord) -> TaskRecord:
    """The task, read again; `task` unchanged if it was purged meanwhile."""
    return await hub.tasks.run(task.id) or task


async def fresh_since(hub: Hub, made: Made) -> TaskRecord:
    """The task as it is now. The database is not asked for a task that was just made and cannot have run yet, or that
    ended in this process. Watch the task's `run_topic` before calling this."""
    if made.going is not None and made.going.ended is not None:
        return made.going.ended
    if made.moment is None or hub.hints.rung_since(made.moment, run_topic(made.task.public_id)):
        return await fresh(hub, made.task)
    return made.task


def idempotency_key(meta: dict[str, Any]) -> str | None:
    """The caller's key, if it sent one. Raises `Invalid` for anything but 1 to 255 printable ASCII characters."""
    key = meta.get(IDEMPOTENCY_KEY)
    if key is None:
        return None
    if not isinstance(key, str) or not 1 <= len(key) <= 255 or not key.isascii() or not key.isprintable():
        raise Invalid(f"{IDEMPOTENCY_KEY} must be 1 to 255 printable ASCII characters")
    return key


@dataclass(frozen=True, slots=True)
class Made:
    """The task of a call."""

    task: TaskRecord
    existed: bool = False
    """Whether the call found or joined an earlier task."""
    moment: int | None = None
    """A moment (`Hints.now`) before the task was made; `None` if the task may have changed since then."""
    going: RunInPlace | None = None
    """The run of the call in this process; `None` if a worker runs the call."""


async def create(
    hub: Hub, incoming: Incoming, tool: ToolRecord, arguments: dict[str, Any], **details: Any
) -> TaskRecord:
    """The durable task of this call; see `NewTask` for `details`. Raises `KeyReused` when an
    idempotency key finds a task that was made in another revision."""
    return (await created(hub, incoming, tool=tool, arguments=arguments, **details)).task


async def created(hub: Hub, incoming: Incoming, *, in_place: bool = False, **details: Any) -> Made:
    """As `create`, but the result also says whether the call found or joined an earlier task. `in_place`: the caller
    waits, so this process may run the call itself."""
    principal = incoming.principal
    new = NewTask(tenant_id=principal.tenant_id, context_id=principal.context_id, **details)
    moment = hub.hints.now()
    actor, going = actor_of(incoming), None
    if in_place and hub.in_place is not None:
        made, going = await hub.in_place.create(new, lambda wanted: hub.creations.run((wanted, actor)))
    else:
        made = await hub.creations.run((new, actor))
    if made.task.revision != new.revision:
        # A caller of this revision could not use the handle of a task of another revision.
        raise KeyReused("This idempotency key was used in another protocol revision")
    as_made = not made.existed and made.task.state in (State.QUEUED, State.WORKING)
    return Made(made.task, made.existed, moment if as_made else None, going)


async def wait_for(
    hub: Hub,
    task: TaskRecord,
    ready: Callable[[TaskRecord], bool],
    *,
    bell: asyncio.Event,
    seconds: float | None,
    going: RunInPlace | None = None,
) -> TaskRecord:
    """The task as soon as it has ended or `ready(task)` is true, or as it stands after `seconds` (`None`: no limit).

    Have `bell` watch the task's topic first, and read `task` then; otherwise a change between the two is missed.
    `going`: the run of the task in this process; `None` if a worker runs the task.
    """
    loop = asyncio.get_running_loop()
    deadline = None if seconds is None else loop.time() + seconds
    while task.state not in TERMINAL and not ready(task):
        left = RECHECK_SECONDS if deadline is None else min(RECHECK_SECONDS, deadline - loop.time())
        if left <= 0:
            break
        await rung(bell, left)
        if going is not None and going.ended is not None:
            return going.ended
        fresh = await hub.tasks.run(task.id)
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
    """The result of `work`. If the peer leaves first, awaits `on_gone` and raises `CancelledError`."""
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
    """Cancel the task of a caller that waited for it and has left (B26-10)."""
    actor = actor_of(incoming)
    actor = Actor(actor.name, actor.door, actor.address, context_id=actor.context_id, reason="The caller left")
    await hub.lanes.run(request_cancel, task.id, actor=actor)


def task_id(params: dict[str, Any]) -> str:
    """`params.taskId`. Raises -32602 unless it is a string (T25-35, T26-37)."""
    found = params.get("taskId")
    if not isinstance(found, str):
        raise WireError(INVALID_PARAMS, "taskId must be a string")
    return found


async def known_task(hub: Hub, principal: Principal, public_id: str, revision: str) -> TaskRecord | None:
    """The caller's task of this id, if it was made in this revision; else `None`. The database is not asked for an id
    that the hub cannot have made."""
    if not PUBLIC_ID.fullmatch(public_id):
        return None
    task = await hub.reads.run((principal.context_id, public_id))
    return task if task is not None and task.revision == revision else None


async def store_answers(hub: Hub, incoming: Incoming, task: TaskRecord, responses: dict[str, Any]) -> None:
    """Store the client's answers to open questions, and its responses to requests to open a page, which do not answer
    the question. Other keys are ignored. Raises `Invalid`, with a pointer, before anything is stored if an answer does
    not fit what was asked."""
    wanted: list[tuple[OpenQuestion, Any]] = [
        (question, responses[question.key]) for question in answerable(task) if question.key in responses
    ]
    for question, response in wanted:
        with _pointed_at(question.key):
            checked_response(question.kind, question.params, response)
            if jsonx.has_nul(response):
                raise Invalid("An answer cannot hold the character U+0000.")
    said: list[tuple[OpenQuestion, str]] = []
    for question in offered(task):
        if (key := page_key(question)) in responses:
            with _pointed_at(key):
                said.append((question, page_verdict(responses[key])))
    actor = actor_of(incoming)
    for question, response in wanted:
        await hub.lanes.run(answer_question, task.id, question, response, actor=actor)
    for question, verdict in said:
        if question.id is not None:
            await hub.lanes.run(answer_page, task.id, question.id, verdict, actor=actor)


@contextmanager
def _pointed_at(key: str) -> Iterator[None]:
    """If the block raises `Invalid`, put the path of this key's answer in front of the pointer in the error."""
    try:
        yield
    except Invalid as error:
        raise Invalid(error.message, pointer=f"/inputResponses/{key}{error.data.get('pointer', '')}") from None
