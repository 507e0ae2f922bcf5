"""`tools/call` in the revisions without sessions. It is answered with a handle, with a result that the caller waited
for, or with a round of questions. One call is one task, whatever the number of its rounds. The revisions differ in
their terms (`Wording`) and in who gets a handle."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from taskhub.core.errors import TaskHubError
from taskhub.core.hints import run_topic
from taskhub.core.names import IDEMPOTENCY_KEY, META_SERVER, TASK_HEADER
from taskhub.core.records import State, TaskMode, TaskRecord, ToolRecord
from taskhub.core.rules import Verdict
from taskhub.core.states import AT_ONCE, TERMINAL, QuestionKind
from taskhub.domain.questions.kinds import can_answer
from taskhub.domain.sessions.writes import offer_page
from taskhub.domain.tasks.reads import owned_task
from taskhub.lib import jsonx
from taskhub.lib.signing import InvalidToken
from taskhub.protocol import calls
from taskhub.protocol.envelope import error_message, error_reply, result_message, result_reply
from taskhub.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, WireError, of_server
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import KEEP_ALIVE, Reply, Stream, event
from taskhub.protocol.lines import LOG_LEVELS, Lines, progress_token
from taskhub.protocol.plain import tools
from taskhub.protocol.plain.callers import Caller, caller_of
from taskhub.protocol.plain.interim import WAIT_TOOL
from taskhub.protocol.stateless.request import (
    META_LOG_LEVEL,
    Request,
    check_param_headers,
    input_responses,
    param_headers,
)
from taskhub.protocol.stateless.shapes import complete_result, head, input_requests, page_requests, reply
from taskhub.protocol.stateless.subscription import KEEP_ALIVE_SECONDS
from taskhub.protocol.wire import page_links
from taskhub.protocol.wire.tasks import answerable, for_client

STATE_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Wording:
    """The points in which the revisions without sessions differ."""

    revision: str
    """The value of `revision` of the tasks that are made."""
    round: str
    """The `resultType` of a round of questions."""
    handle: Callable[[Hub, Request, TaskRecord], Reply]
    """Makes the reply that gives the caller its handle."""
    asks_in_task: bool
    """Whether a caller that may get a handle finds a question of the tool in the task, instead of being asked in a
    round."""


async def wanted(hub: Hub, request: Request) -> tuple[ToolRecord, dict[str, Any]]:
    """The tool and the arguments of the call. Raises `WireError` if a header differs from the argument that it repeats
    (B26-26)."""
    tool, arguments = await calls.wanted(hub, request.principal, request.params)
    annotated = param_headers(tool.definition.get("inputSchema"))
    if annotated:
        check_param_headers(annotated, arguments, request.incoming)
    return tool, arguments


async def answered(
    hub: Hub, request: Request, tool: ToolRecord, arguments: dict[str, Any], wording: Wording, *, handle: bool
) -> Reply | Stream:
    """The answer to a call; `handle`: whether its caller may get a handle (T26-04)."""
    responses = input_responses(request)
    state = request.params.get("requestState")
    _check_wishes(request)
    caller = None if handle else await caller_of(hub, request.incoming, request.client_info)
    if state is None:
        verdict, problem = await calls.judged(hub, request.incoming, tool, arguments, request.client_info)
        if problem:
            return reply(hub, request, calls.refusal_result(problem))
        in_place = not (handle and tool.mode in AT_ONCE)
        made = await _created(
            hub, request, tool, arguments, responses, wording.revision, caller, verdict, in_place=in_place
        )
    else:
        made = calls.Made(await _resumed(hub, request, state, responses or {}, wording.revision))
        if caller is not None:
            await caller.waits(made.task)
    if handle and tool.mode in AT_ONCE:
        return wording.handle(hub, request, made.task)
    # A caller that leaves before it has a handle cancels its call (T26-48). With an idempotency key it may come back.
    cancels = request.meta.get(IDEMPOTENCY_KEY) is None
    waits = handle and tool.mode is TaskMode.AUTO
    return await _waited(hub, request, made, wording, caller, waits=waits, cancels=cancels)


async def hub_tool(hub: Hub, request: Request, wording: Wording) -> Reply | Stream:
    """The answer of a hub tool to a caller without tasks. `taskhub_wait_for_task` gives the answer of the call that it
    waits for."""
    _check_wishes(request)
    caller = await caller_of(hub, request.incoming, request.client_info)
    name, arguments = request.params["name"], request.params.get("arguments", {})
    if not caller.settings.tools:
        raise WireError(INVALID_PARAMS, f"Unknown tool: {name}")
    if not isinstance(arguments, dict):
        raise WireError(INVALID_PARAMS, "arguments must be an object")
    if name != WAIT_TOOL:
        return reply(hub, request, await tools.call(hub, request.incoming, name, arguments, base=caller.base))
    calls.need_scope(request.principal, "tasks:read")
    responses, state = input_responses(request), request.params.get("requestState")
    try:
        task = await tools.found_task(hub, request.incoming, arguments)
    except tools.ToolError as error:
        return reply(hub, request, tools.error_result(error))
    if state is not None:
        task = await _resumed(hub, request, state, responses or {}, wording.revision)
    await caller.waits(task)
    return await _waited(hub, request, calls.Made(task), wording, caller, waits=False, cancels=False)


async def _waited(
    hub: Hub,
    request: Request,
    made: calls.Made,
    wording: Wording,
    caller: Caller | None,
    *,
    waits: bool,
    cancels: bool,
) -> Reply | Stream:
    """The answer to a caller that waits, in one piece or at the end of a stream. `waits`: whether the caller waits for
    `hub.inline_wait_seconds` only, and then gets a handle. `cancels`: whether the call is cancelled if the caller
    leaves."""
    log_level, token = request.meta.get(META_LOG_LEVEL), request.meta.get("progressToken")
    talks = (token is not None or log_level is not None) and not waits
    gone = partial(_left, hub, request, made.task, caller, cancels=cancels)

    def settled(now: TaskRecord) -> bool:
        told = caller is not None and caller.told_at_once(now)
        return _asks(request, now) or told or (talks and now.progress is not None)

    with hub.hints.watch(run_topic(made.task.public_id)) as bell:
        seconds = 0.05 if talks else hub.inline_wait_seconds
        task = await calls.fresh_since(hub, made)
        waiting = calls.wait_for(hub, task, settled, bell=bell, seconds=seconds, going=made.going)
        task = await calls.unless_gone(request.incoming, waiting, gone)
    asked = _asks(request, task) and not (waits and wording.asks_in_task)
    if task.state is State.FAULTED or (not talks and (task.state in TERMINAL or asked)):
        return await _shown(hub, request, task, wording, caller)
    if waits:
        return wording.handle(hub, request, task)
    lines = Lines(task.id, token=token, level=log_level)
    return Stream(_stream(hub, request, task, lines, wording, caller, gone), {TASK_HEADER: task.public_id})


def _asks(request: Request, task: TaskRecord) -> bool:
    """Whether the client is asked something: a question that it may answer, or to open the page of a question for
    people. It is asked to open a page only if this request, too, declares that it can (B26-62)."""
    return bool(for_client(task) or _opens(request, task))


def _opens(request: Request, task: TaskRecord) -> bool:
    return bool(page_links.pages(task)) and can_answer(request.capabilities, QuestionKind.ELICITATION, page_links.MODE)


async def _left(hub: Hub, request: Request, task: TaskRecord, caller: Caller | None, *, cancels: bool) -> None:
    """Record that the caller of a call has left while it waited; with `cancels`, the call is cancelled (B26-10)."""
    if caller is not None:
        await caller.leaves(task, cancels=cancels)
    elif cancels:
        await calls.abandon(hub, request.incoming, task)


def _check_wishes(request: Request) -> None:
    """Raises -32602 unless the progress token and the log level in `_meta` are valid."""
    progress_token(request.meta)
    level = request.meta.get(META_LOG_LEVEL)
    if level is not None and level not in LOG_LEVELS:
        raise WireError(INVALID_PARAMS, f"{META_LOG_LEVEL} must be one of {', '.join(LOG_LEVELS)}")


async def _created(
    hub: Hub,
    request: Request,
    tool: ToolRecord,
    arguments: dict[str, Any],
    responses: dict[str, Any] | None,
    revision: str,
    caller: Caller | None,
    verdict: Verdict,
    *,
    in_place: bool,
) -> calls.Made:
    if responses:
        calls.need_scope(request.principal, "tasks:answer")
    key = calls.idempotency_key(request.meta)
    # A call joins a call of the same tool with the same arguments. A call that also brings answers joins none.
    joining = {} if caller is None else caller.joining(tool, keyed=key is not None or responses is not None)
    return await calls.created(
        hub,
        request.incoming,
        tool=tool,
        arguments=arguments,
        verdict=verdict,
        revision=revision,
        client_info=request.client_info,
        client_capabilities=request.capabilities,
        trace=calls.trace_of(request.meta),
        answers=responses,
        idempotency_key=key,
        in_place=in_place,
        **joining,
    )


def _signed_state(hub: Hub, request: Request, task: TaskRecord) -> str:
    """The hub's `requestState`: signed, and bound to the task, the caller and the call (B26-64). It contains the task's
    version, so it differs in each round."""
    return hub.signer.sign("requestState", _bound(request, task.public_id, task.version), seconds=STATE_SECONDS)


def _bound(request: Request, public_id: str, version: int) -> list[Any]:
    call = [request.params.get("name"), request.params.get("arguments", {})]
    digest = hashlib.sha256(jsonx.canonical(call)).hexdigest()[:32]
    return [public_id, request.principal.context_id, digest, version]


async def _resumed(hub: Hub, request: Request, state: Any, responses: dict[str, Any], revision: str) -> TaskRecord:
    """Store the answers (`responses`) of this request, and return their task. The task is named by the signed `state`,
    which the client sends back from an earlier round, so any process can go on with the call. Raises -32602 if `state`
    is not valid for this call."""
    try:
        signed = hub.signer.verify("requestState", state) if isinstance(state, str) else None
    except InvalidToken as error:
        raise WireError(INVALID_PARAMS, f"Invalid requestState: {error}") from None
    if not isinstance(signed, list) or signed != _bound(request, signed[0], signed[3]):
        raise WireError(INVALID_PARAMS, "Invalid requestState: it belongs to another call")
    task = await hub.lanes.run(owned_task, request.principal.context_id, signed[0])
    if task is None or task.revision != revision:
        raise WireError(INVALID_PARAMS, "Invalid requestState: the call it belongs to is gone")
    if any(question.key in responses for question in answerable(task)):
        calls.need_scope(request.principal, "tasks:answer")
    await calls.store_answers(hub, request.incoming, task, responses)
    return await calls.fresh(hub, task)


async def _shown(hub: Hub, request: Request, task: TaskRecord, wording: Wording, caller: Caller | None) -> Reply:
    """The answer of a call whose caller waited: a result, an error, or a round of questions."""
    outcome = await _outcome(hub, request, task, wording)
    hub.brought(task, request.principal.context_id)
    if caller is not None and task.state in TERMINAL:
        await caller.has(task)
    if isinstance(outcome, WireError):
        return error_reply(request.id, outcome)
    return result_reply(request.id, outcome)


async def _outcome(hub: Hub, request: Request, task: TaskRecord, wording: Wording) -> bytes | WireError:
    if task.state is State.FINISHED:
        return _with_server_info(hub, complete_result(task))
    if task.state is State.FAULTED:
        assert task.error_json is not None  # CHECK task_error_iff_faulted
        error = json.loads(task.error_json)
        return of_server(error.get("code", INTERNAL_ERROR), error.get("message", ""), error.get("data"))
    if task.state is State.CANCELLED:
        return jsonx.encode({"resultType": "complete", **calls.cancelled_result(task)})
    asked = input_requests(for_client(task))
    if _opens(request, task):
        asked |= page_requests(task, calls.console_at(hub, request.incoming))
        # The client is asked to open a page only once. If it makes the same call again, that call waits until people
        # have answered.
        for question in page_links.pages(task):
            if question.id is not None:
                await hub.lanes.run(offer_page, task.id, question.id)
    return jsonx.encode(
        {
            **head(hub, wording.round),
            "inputRequests": asked,
            "requestState": _signed_state(hub, request, task),
        }
    )


def _with_server_info(hub: Hub, result: bytes) -> bytes:
    if b'"_meta"' in result:
        # Rare: there is a `_meta` somewhere in the result, so decode it and merge.
        body = json.loads(result)
        body["_meta"] = {**(body.get("_meta") or {}), META_SERVER: hub.server_info}
        return jsonx.encode(body)
    return result[:-1] + b',"_meta":' + jsonx.encode({META_SERVER: hub.server_info}) + b"}"


async def _stream(
    hub: Hub,
    request: Request,
    task: TaskRecord,
    lines: Lines,
    wording: Wording,
    caller: Caller | None,
    gone: Callable[[], Awaitable[None]],
) -> AsyncIterator[bytes]:
    """Progress and log lines as they come, keep-alives in between, then the answer (B26-08, B26-80, B26-81), or an
    interim result when the caller's patience is over."""
    finished = False
    try:
        with hub.hints.watch(task.public_id) as bell:
            while True:
                now = await calls.fresh(hub, task)
                for message in [*(line for _, line in await lines.read(hub)), *lines.waiting(now)]:
                    yield event(message)
                left = None if caller is None else caller.seconds_left(now)
                if now.state in TERMINAL or _asks(request, now) or (left is not None and left <= 0):
                    break
                if not await calls.rung(bell, KEEP_ALIVE_SECONDS if left is None else min(left, KEEP_ALIVE_SECONDS)):
                    for message in () if caller is None else lines.still(now):
                        yield event(message)
                    yield KEEP_ALIVE
        if caller is not None and now.state not in TERMINAL and not _asks(request, now):
            interim = await caller.gets_interim(now)
            finished = True
            yield event(result_message(request.id, jsonx.encode({**head(hub), **interim})))
            return
        outcome = await _outcome(hub, request, now, wording)
        if isinstance(outcome, WireError):
            yield event(error_message(request.id, outcome.body()))
        else:
            yield event(result_message(request.id, outcome))
        finished = True
        hub.brought(now, request.principal.context_id)
        if caller is not None and now.state in TERMINAL:
            await caller.has(now)
    except TaskHubError:  # the database does not answer, so the hub ends the stream
        finished = True
        if caller is not None:
            caller.cut_off(task)
        raise
    finally:
        if not finished:
            await asyncio.shield(gone())
