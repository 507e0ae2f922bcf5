"""`tools/call` on the stateless wire of 2026: a handle, a result the caller waited for, or a round of
questions. One call, one task; the revisions of this wire differ in words and in who gets a handle."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from taskhub.core.names import IDEMPOTENCY_KEY, META_SERVER, TASK_HEADER
from taskhub.core.records import State, TaskMode, TaskRecord, ToolRecord
from taskhub.core.states import AT_ONCE, TERMINAL
from taskhub.domain.tasks.reads import owned_task
from taskhub.lib import jsonx
from taskhub.lib.signing import InvalidToken
from taskhub.protocol import calls
from taskhub.protocol.envelope import error_message, error_reply, result_message, result_reply
from taskhub.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, WireError, of_server
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import KEEP_ALIVE, Reply, Stream, event
from taskhub.protocol.lines import LOG_LEVELS, Lines, progress_token
from taskhub.protocol.stateless.request import (
    META_LOG_LEVEL,
    Request,
    check_param_headers,
    input_responses,
    param_headers,
)
from taskhub.protocol.stateless.shapes import complete_result, head, input_requests, reply
from taskhub.protocol.stateless.subscription import KEEP_ALIVE_SECONDS
from taskhub.protocol.wire.tasks import for_client

STATE_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Wording:
    """What differs between the revisions of this wire."""

    revision: str
    """The revision of its tasks."""
    round: str
    """The `resultType` of a round of questions."""
    handle: Callable[[Hub, Request, TaskRecord], Reply]
    """The answer that hands out a task."""
    asks_in_task: bool
    """Whether a caller that may get a handle gets it, rather than a round, when the tool asks something."""


async def wanted(hub: Hub, request: Request) -> tuple[ToolRecord, dict[str, Any]]:
    """The tool and its arguments, which agree with the headers that mirror them (B26-26)."""
    tool, arguments = await calls.wanted(hub, request.principal, request.params)
    annotated = param_headers(tool.definition.get("inputSchema"))
    if annotated:
        check_param_headers(annotated, arguments, request.incoming)
    return tool, arguments


async def answered(
    hub: Hub, request: Request, tool: ToolRecord, arguments: dict[str, Any], wording: Wording, *, handle: bool
) -> Reply | Stream:
    """The answer to a call; `handle` tells whether its caller may get one (T26-04)."""
    responses = input_responses(request)
    log_level, token = _log_level(request), progress_token(request.meta)
    state = request.params.get("requestState")
    if state is None:
        if problem := await calls.misfit(hub, tool, arguments):
            return reply(hub, request, calls.refusal_result(problem))
        task = await _created(hub, request, tool, arguments, responses, wording.revision)
    else:
        task = await _resumed(hub, request, state, responses or {}, wording.revision)
    if handle and tool.mode in AT_ONCE:
        return wording.handle(hub, request, task)
    with hub.hints.watch(task.public_id) as bell:
        waits = handle and tool.mode is TaskMode.AUTO
        talks = (token is not None or log_level is not None) and not waits

        def settled(now: TaskRecord) -> bool:
            return bool(for_client(now)) or (talks and now.progress is not None)

        # A caller that leaves before it has its handle cancels its call (T26-48).
        leaves = request.meta.get(IDEMPOTENCY_KEY) is None
        seconds = 0.05 if talks else hub.inline_wait_seconds
        task = await calls.fresh(hub, task)
        task = await calls.unless_gone(
            request.incoming,
            calls.wait_for(hub, task, settled, bell=bell, seconds=seconds),
            lambda: calls.abandon(hub, request.incoming, task) if leaves else asyncio.sleep(0),
        )
    asked = bool(for_client(task)) and not (waits and wording.asks_in_task)
    if task.state is State.FAULTED or (not talks and (task.state in TERMINAL or asked)):
        return _shown(hub, request, task, wording)
    if waits:
        return wording.handle(hub, request, task)
    lines = Lines(task.id, token=token, level=log_level)
    return Stream(_stream(hub, request, task, lines, wording, leaves), {TASK_HEADER: task.public_id})


def _log_level(request: Request) -> str | None:
    level = request.meta.get(META_LOG_LEVEL)
    if level is not None and level not in LOG_LEVELS:
        raise WireError(INVALID_PARAMS, f"{META_LOG_LEVEL} must be one of {', '.join(LOG_LEVELS)}")
    return level


async def _created(
    hub: Hub,
    request: Request,
    tool: ToolRecord,
    arguments: dict[str, Any],
    responses: dict[str, Any] | None,
    revision: str,
) -> TaskRecord:
    if responses:
        calls.need_scope(request.principal, "tasks:answer")
    return await calls.create(
        hub,
        request.incoming,
        tool,
        arguments,
        revision=revision,
        client_info=request.client_info,
        client_capabilities=request.capabilities,
        trace=calls.trace_of(request.meta),
        answers=responses,
        idempotency_key=calls.idempotency_key(request.meta),
    )


def _signed_state(hub: Hub, request: Request, task: TaskRecord) -> str:
    """Our own `requestState`: binds the round to the task, the caller and the call (B26-64). It
    differs per round because the open questions do."""
    return hub.signer.sign("requestState", _bound(request, task.public_id, task.version), seconds=STATE_SECONDS)


def _bound(request: Request, public_id: str, version: int) -> list[Any]:
    call = [request.params.get("name"), request.params.get("arguments", {})]
    digest = hashlib.sha256(jsonx.canonical(call)).hexdigest()[:32]
    return [public_id, request.principal.context_id, digest, version]


async def _resumed(hub: Hub, request: Request, state: Any, responses: dict[str, Any], revision: str) -> TaskRecord:
    """The task of an earlier round, with the answers of this one stored. Any process can do it."""
    try:
        signed = hub.signer.verify("requestState", state) if isinstance(state, str) else None
    except InvalidToken as error:
        raise WireError(INVALID_PARAMS, f"Invalid requestState: {error}") from None
    if not isinstance(signed, list) or signed != _bound(request, signed[0], signed[3]):
        raise WireError(INVALID_PARAMS, "Invalid requestState: it belongs to another call")
    task = await hub.lanes.run(owned_task, request.principal.context_id, signed[0])
    if task is None or task.revision != revision:
        raise WireError(INVALID_PARAMS, "Invalid requestState: the call it belongs to is gone")
    if responses:
        calls.need_scope(request.principal, "tasks:answer")
    await calls.store_answers(hub, request.incoming, task, responses)
    return await calls.fresh(hub, task)


def _shown(hub: Hub, request: Request, task: TaskRecord, wording: Wording) -> Reply:
    """The answer of a call whose caller waited: a result, an error, or a round of questions."""
    outcome = _outcome(hub, request, task, wording)
    hub.brought(task, request.principal.context_id)
    if isinstance(outcome, WireError):
        return error_reply(request.id, outcome)
    return result_reply(request.id, outcome)


def _outcome(hub: Hub, request: Request, task: TaskRecord, wording: Wording) -> bytes | WireError:
    if task.state is State.FINISHED:
        return _with_server_info(hub, complete_result(task))
    if task.state is State.FAULTED:
        assert task.error_json is not None  # CHECK task_error_iff_faulted
        error = json.loads(task.error_json)
        return of_server(error.get("code", INTERNAL_ERROR), error.get("message", ""), error.get("data"))
    if task.state is State.CANCELLED:
        return jsonx.encode({"resultType": "complete", **calls.cancelled_result(task)})
    return jsonx.encode(
        {
            **head(hub, wording.round),
            "inputRequests": input_requests(for_client(task)),
            "requestState": _signed_state(hub, request, task),
        }
    )


def _with_server_info(hub: Hub, result: bytes) -> bytes:
    if b'"_meta"' in result:
        # Rare: the tool sent metadata of its own, somewhere; merge it properly.
        body = json.loads(result)
        body["_meta"] = {**(body.get("_meta") or {}), META_SERVER: hub.server_info}
        return jsonx.encode(body)
    return result[:-1] + b',"_meta":' + jsonx.encode({META_SERVER: hub.server_info}) + b"}"


async def _stream(
    hub: Hub, request: Request, task: TaskRecord, lines: Lines, wording: Wording, leaves: bool
) -> AsyncIterator[bytes]:
    """Progress and log lines as they come, keep-alives in between, then the answer (B26-08,
    B26-80, B26-81). A caller that goes away cancels the call, unless its idempotency key lets it
    come back for the result."""
    finished = False
    try:
        with hub.hints.watch(task.public_id) as bell:
            while True:
                now = await calls.fresh(hub, task)
                for message in [*(line for _, line in await lines.read(hub)), *lines.waiting(now)]:
                    yield event(message)
                if now.state in TERMINAL or for_client(now):
                    break
                if not await calls.rung(bell, KEEP_ALIVE_SECONDS):
                    yield KEEP_ALIVE
        outcome = _outcome(hub, request, now, wording)
        if isinstance(outcome, WireError):
            yield event(error_message(request.id, outcome.body()))
        else:
            yield event(result_message(request.id, outcome))
        finished = True
        hub.brought(now, request.principal.context_id)
    finally:
        if not finished and leaves:
            await asyncio.shield(calls.abandon(hub, request.incoming, task))
