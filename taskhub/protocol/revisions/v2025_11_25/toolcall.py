"""`tools/call`: returns a handle if the caller asked for a task; else the caller waits for the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from taskhub.core.hints import run_topic
from taskhub.core.records import TaskMode, TaskRecord, ToolRecord
from taskhub.core.rules import Then, Verdict
from taskhub.core.states import TERMINAL
from taskhub.domain.sessions.reads import earlier_wait
from taskhub.domain.tasks.handles import hand_out
from taskhub.lib import jsonx
from taskhub.protocol import calls
from taskhub.protocol.envelope import error_reply, result_message, result_reply
from taskhub.protocol.errors import INVALID_PARAMS, METHOD_NOT_FOUND, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Reply, Stream, event
from taskhub.protocol.lines import Lines, progress_token
from taskhub.protocol.plain import tools
from taskhub.protocol.plain.callers import Caller, caller_of
from taskhub.protocol.plain.interim import WAIT_TOOL
from taskhub.protocol.revisions.v2025_11_25 import mapping, sep_1686, shown, streams
from taskhub.protocol.revisions.v2025_11_25.wire import IMMEDIATE, Request, status_of
from taskhub.protocol.wire.tasks import answerable

ONE_PIECE_SECONDS = 0.1
"""A call that ends within this many seconds is answered in one piece; a longer call gets a stream."""
PEOPLE_TTL_MS = 604_800_000
"""The least `ttl`, in milliseconds, of a task that may have to wait for a person, because a rule requires an approval
or people may answer the tool's questions. Some clients give up when the first `ttl` that they were told is over, even
if it was lengthened since."""
TTL_MS = 86_400_000
"""The `ttl` of a task, in milliseconds, if the caller names none."""
READ_MS = 3_600_000
"""Milliseconds for which a result can be read after the task has ended (store/sql/guards.sql). A `ttl` is at least as
long as this plus the longest run of the tool, so that it need not be lengthened after the client was told."""


async def call(hub: Hub, request: Request) -> Reply | Stream:
    """`tools/call` of a version without tasks: the caller waits."""
    if tools.is_hub_tool(request.params):
        return await _hub_tool(hub, request)
    calls.need_scope(request.principal, "tasks:call")
    tool, arguments = await calls.wanted(hub, request.principal, request.params)
    verdict, problem = await calls.judged(hub, request.incoming, tool, arguments, request.on.client_info)
    if problem and verdict.then is not Then.DENY:
        raise WireError(INVALID_PARAMS, problem)  # in these versions, invalid arguments are a protocol error
    if problem:
        return result_reply(request.id, jsonx.encode(calls.refusal_result(problem)))
    if tool.mode is not TaskMode.NEVER and sep_1686.asked_for(hub, request):
        streams.need_room(hub, request.on)
        details = _details(request, tool, arguments, verdict)
        return await _served(hub, request, await sep_1686.create(hub, request, details))
    return await _waited(hub, request, tool, arguments, verdict)


async def call_or_task(hub: Hub, request: Request) -> Reply | Stream:
    """`tools/call` of 2025-11-25: `params.task` makes it a task (T25-05..09)."""
    if tools.is_hub_tool(request.params) and mapping.makes_plain_calls(request.on):
        return await _hub_tool(hub, request)
    calls.need_scope(request.principal, "tasks:call")
    tool, arguments = await calls.wanted(hub, request.principal, request.params)
    verdict, problem = await calls.judged(hub, request.incoming, tool, arguments, request.on.client_info)
    if problem:
        if "task" in request.params:
            raise WireError(INVALID_PARAMS, problem)  # the result of such a call can only be a task
        return result_reply(request.id, jsonx.encode(calls.refusal_result(problem)))
    if tool.mode is not TaskMode.NEVER and sep_1686.asked_for(hub, request):
        streams.need_room(hub, request.on)
        details = _details(request, tool, arguments, verdict)
        return await _served(hub, request, await sep_1686.create(hub, request, details))
    if "task" not in request.params:
        return await _waited(hub, request, tool, arguments, verdict)
    ttl = _ttl(request.params["task"])
    if tool.mode is TaskMode.NEVER:
        raise WireError(METHOD_NOT_FOUND, f"Tool {tool.exposed_name} does not support task-augmented execution")
    details = _details(request, tool, arguments, verdict)
    details["ttl_ms"] = max(TTL_MS if ttl is None else ttl, tool.run_seconds * 1_000 + READ_MS)
    if verdict.then is Then.ASK or tool.question_audience is not None or tool.people_after_program:
        details["ttl_ms"] = max(details["ttl_ms"], PEOPLE_TTL_MS)
    task = (await calls.created(hub, request.incoming, revision=request.version, handle=True, **details)).task
    if not task.handle:  # an idempotency key found a task that was made without a handle
        await hub.lanes.run(hand_out, task.id)
    meta = mapping.related(task)
    if task.state not in TERMINAL:
        meta[IMMEDIATE] = f"{tool.exposed_name} is running as task {task.public_id}. Its result is not there yet."
    return result_reply(request.id, jsonx.encode({"task": mapping.task_fields(task), "_meta": meta}))


def _ttl(augmentation: Any) -> int | None:
    """`params.task.ttl` in milliseconds; `None` if it is absent. Raises -32602 unless `params.task` is valid
    (T25-08)."""
    if not isinstance(augmentation, dict):
        raise WireError(INVALID_PARAMS, "task must be an object")
    ttl = augmentation.get("ttl")
    if ttl is None and "ttl" not in augmentation:
        return None
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or ttl <= 0:
        raise WireError(INVALID_PARAMS, "task.ttl must be a positive number of milliseconds")
    return int(min(ttl, 2**52))


def _details(request: Request, tool: ToolRecord, arguments: dict[str, Any], verdict: Verdict) -> dict[str, Any]:
    """The arguments of `calls.created` for any call in a session."""
    session, token = request.on, progress_token(request.meta)
    return {
        "tool": tool,
        "arguments": arguments,
        "verdict": verdict,
        "client_info": session.client_info,
        "client_capabilities": mapping.usable(session.client_capabilities, request.version),
        "trace": calls.trace_of(request.meta),
        "idempotency_key": calls.idempotency_key(request.meta),
        "session_id": session.id,
        "request_id": jsonx.encode(request.id).decode(),
        "progress_token": None if token is None else jsonx.encode(token).decode(),
    }


async def _waited(
    hub: Hub, request: Request, tool: ToolRecord, arguments: dict[str, Any], verdict: Verdict
) -> Reply | Stream:
    """The answer to a call whose caller waits, in one piece or at the end of a stream. A caller that disconnects may
    come back for the answer, because disconnecting does not cancel the call (B25-13)."""
    if tool.mode is TaskMode.REQUIRED:  # T25-06
        raise WireError(METHOD_NOT_FOUND, f"Tool {tool.exposed_name} runs only as a task")
    streams.need_room(hub, request.on)
    details = _details(request, tool, arguments, verdict)
    caller = None
    if mapping.makes_plain_calls(request.on):
        caller = await caller_of(hub, request.incoming, request.on.client_info)
        details |= caller.joining(tool, session_id=request.on.id, keyed=details["idempotency_key"] is not None)
    made = await calls.created(hub, request.incoming, revision=request.version, **details)
    if caller is not None and made.existed:
        caller = await _back(hub, request, made.task, caller, "call")
    return await _answered(hub, request, made, caller)


async def _back(hub: Hub, request: Request, task: TaskRecord, caller: Caller, kind: str) -> Caller:
    """The caller of a request for an existing task. It has a new patience if the request shows that the program gave up
    an earlier request, which some programs do without notice. `kind` is `call` for the same call, or `wait` for a call
    of the hub's own tool."""
    earlier = await hub.lanes.run(earlier_wait, request.on.id, task.id)
    # Only a stream of this process counts: the stream of a process that was killed is still recorded as open.
    if earlier is not None and earlier.served and hub.serves(task.id):
        return await caller.again(earlier.seconds)
    told = caller.told_at_once(task)  # then an interim result was due at once and did not come too late
    called = earlier is not None and earlier.answered and earlier.kind == kind == "call"
    if called and not told and task.state not in TERMINAL:
        return await caller.unheard()
    return caller


async def _answered(
    hub: Hub, request: Request, made: calls.Made, caller: Caller | None, *, kind: str = "call"
) -> Reply | Stream:
    """The answer to a call whose caller waits for this task; `kind` as in `_back`."""
    with hub.hints.watch(run_topic(made.task.public_id)) as bell:
        task = await calls.wait_for(
            hub,
            await calls.fresh_since(hub, made),
            lambda now: bool(answerable(now)) or now.progress is not None,
            bell=bell,
            seconds=ONE_PIECE_SECONDS,
        )
    if task.state not in TERMINAL:
        return await _served(hub, request, task, caller, kind=kind)
    outcome = shown.result(task, related=None)
    hub.brought(task, request.principal.context_id)
    if caller is not None:
        await caller.has(task)
    if isinstance(outcome, WireError):
        return error_reply(request.id, outcome, status_of)
    said = await Lines(task.id, token=progress_token(request.meta), level=request.on.log_level).read(hub)
    if not said:
        return result_reply(request.id, outcome)
    return Stream(_at_once([*(line for _, line in said), result_message(request.id, outcome)]))


async def _hub_tool(hub: Hub, request: Request) -> Reply | Stream:
    """The answer of a hub tool. `taskhub_wait_for_task` gives the answer of the call that it waits for."""
    caller = await caller_of(hub, request.incoming, request.on.client_info)
    name, arguments = request.params["name"], request.params.get("arguments", {})
    if not caller.settings.tools:
        raise WireError(INVALID_PARAMS, f"Unknown tool: {name}")
    if not isinstance(arguments, dict):
        raise WireError(INVALID_PARAMS, "arguments must be an object")
    if name != WAIT_TOOL:
        found = await tools.call(hub, request.incoming, name, arguments, base=caller.base)
        return result_reply(request.id, shown.of_hub(found, request.version))
    calls.need_scope(request.principal, "tasks:read")
    try:
        task = await tools.found_task(hub, request.incoming, arguments)
    except tools.ToolError as error:
        return result_reply(request.id, shown.of_hub(tools.error_result(error), request.version))
    streams.need_room(hub, request.on)
    caller = await _back(hub, request, task, caller, "wait")
    await caller.waits(task)
    return await _answered(hub, request, calls.Made(task), caller, kind="wait")


async def _served(
    hub: Hub, request: Request, task: TaskRecord, caller: Caller | None = None, *, kind: str = "call"
) -> Stream:
    """The stream that ends with the call's answer."""
    token = progress_token(request.meta)
    return await streams.serve_task(
        hub,
        request.incoming,
        request.on,
        task,
        kind=kind,
        request_id=jsonx.encode(request.id).decode(),
        token=None if token is None else jsonx.encode(token).decode(),
        caller=caller,
    )


async def _at_once(messages: list[bytes]) -> AsyncIterator[bytes]:
    for message in messages:
        yield event(message)
