"""`initialize`, which opens a session, and the messages of a client that are not requests: notifications, and responses
to requests of the hub."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any, Final

from taskhub.core.errors import Invalid
from taskhub.core.hints import session_topic
from taskhub.core.records import Session
from taskhub.domain.sessions.reads import OutboundRequest, asked_of
from taskhub.domain.sessions.writes import (
    answer_page,
    answer_request,
    ask_further,
    cancel_stream,
    end_session,
    hurry,
    refuse_request,
    start_session,
)
from taskhub.domain.tasks.cancel import cancel_now, request_cancel
from taskhub.domain.tasks.reads import task_by_id
from taskhub.lib import jsonx
from taskhub.protocol import calls
from taskhub.protocol.envelope import Envelope, Response, result_reply
from taskhub.protocol.errors import INVALID_PARAMS, INVALID_REQUEST, WireError
from taskhub.protocol.hub import Hub
from taskhub.protocol.incoming import Incoming, Reply
from taskhub.protocol.plain.callers import caller_of
from taskhub.protocol.revisions.v2025_11_25 import hosted, mapping
from taskhub.protocol.revisions.v2025_11_25.wire import OLDER, VERSION, Request
from taskhub.protocol.wire.page_links import page_verdict

_OURS: Final = re.compile(r"taskhub-([0-9]{1,18})")


def request_name(outbound_id: int) -> str:
    """The JSON-RPC id of a request of the hub; unique in every session (B25-19)."""
    return f"taskhub-{outbound_id}"


async def initialize(hub: Hub, request: Request) -> Reply:
    """Agrees on a version and opens a session (B25-01..04)."""
    asked, capabilities = request.params.get("protocolVersion"), request.params.get("capabilities")
    client_info = request.params.get("clientInfo")
    if not isinstance(asked, str):
        raise WireError(INVALID_PARAMS, "protocolVersion must be a string")
    if not isinstance(capabilities, dict) or not isinstance(client_info, dict):
        raise WireError(INVALID_PARAMS, "capabilities and clientInfo must be objects")
    calls.need_small_client(request.incoming, client_info, capabilities)
    principal = request.principal
    version = asked if asked in served(hub) else served(hub)[0]
    session_id = await hub.lanes.run(
        start_session,
        tenant_id=principal.tenant_id,
        context_id=principal.context_id,
        version=version,
        client_info=client_info,
        capabilities=capabilities,
    )
    result = {
        "protocolVersion": version,
        "capabilities": server_capabilities(version, anonymous=principal.anonymous),
        "serverInfo": hub.server_info,
    }
    reply = result_reply(request.id, jsonx.encode(result))
    return Reply(reply.body, headers={**reply.headers, "Mcp-Session-Id": session_id})


def served(hub: Hub) -> list[str]:
    """The versions with sessions that are switched on, newest first."""
    return [version for version in (VERSION, *OLDER) if version in hub.versions]


def server_capabilities(version: str, *, anonymous: bool) -> dict[str, Any]:
    """The server capabilities of this version. Callers without a token cannot be told apart, so they get no
    `tasks.list` (T25-01, T25-02)."""
    found: dict[str, Any] = {
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "completions": {},
        "logging": {},
    }
    if version == VERSION:
        tasks: dict[str, Any] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        if anonymous:
            del tasks["list"]
        found["tasks"] = tasks
    return found


async def session_of(hub: Hub, incoming: Incoming) -> Session:
    """The session that the request names. Raises 400 if it names none, or a version that is not served (B25-05,
    B25-08), and 404 if the session is unknown, has ended, or belongs to another client (B25-06)."""
    named = incoming.headers.get("mcp-session-id")
    if named is None:
        raise WireError(INVALID_REQUEST, "Header missing: Mcp-Session-Id; send initialize first", status=400)
    version = incoming.headers.get("mcp-protocol-version")
    if version is not None and version not in served(hub):
        raise WireError(INVALID_REQUEST, f"Unsupported protocol version: {version[:32]}", status=400)
    session = await hub.sessions.run((named[:64], incoming.principal.context_id))
    if session is None or session.public_id != named or session.version not in served(hub):
        raise WireError(INVALID_REQUEST, "Session not found: send initialize", status=404)
    hub.seen[session.id] = time.time()
    return session


async def end(hub: Hub, incoming: Incoming) -> Reply:
    """DELETE: end the session. Its tasks go on (B25-07)."""
    session = await session_of(hub, incoming)
    await hub.lanes.run(end_session, session.id, session.public_id)
    return Reply(b"", status=204)


async def notified(hub: Hub, incoming: Incoming, envelope: Envelope) -> None:
    """Take a notification of the client. Only two have an effect: a cancellation (B25-13), and the status of a task
    that the client hosts (CH-11)."""
    session = await session_of(hub, incoming)
    if envelope.method == "notifications/tasks/status":
        named = envelope.params.get("taskId")
        if isinstance(named, str) and "\0" not in named:
            await hub.lanes.run(hurry, session.id, named[:1_024])
        return
    wanted = envelope.params.get("requestId")
    if envelope.method != "notifications/cancelled" or isinstance(wanted, bool) or not isinstance(wanted, (str, int)):
        return
    found = await hub.lanes.run(cancel_stream, session.id, jsonx.encode(wanted).decode())
    hub.hints.ring(session_topic(session.public_id))
    if found is None:
        return
    kind, task_id, own_id, seconds = found
    if task_id is None or kind not in ("call", "wait"):
        return
    if mapping.makes_plain_calls(session) and (kind == "wait" or _timed_out(envelope.params.get("reason"))):
        # After a timeout the program may come back, so the call is not cancelled: its caller has only left.
        task = await hub.lanes.run(task_by_id, task_id)
        if task is not None:
            caller = await caller_of(hub, incoming, session.client_info)
            caller = replace(caller, waiter="", began=caller.began - seconds)
            await caller.leaves(task, cancels=kind == "call", timed_out=True)
        return
    calls.need_scope(incoming.principal, "tasks:cancel")
    # A task under the client's own id must be cancelled before this function returns (T1686-19).
    cancel = cancel_now if own_id else request_cancel
    await hub.lanes.run(cancel, task_id, actor=calls.actor_of(incoming))


def _timed_out(reason: Any) -> bool:
    """Whether `reason` says that the program's own timeout was the reason to cancel, in the words of the published
    SDKs."""
    return isinstance(reason, str) and any(words in reason.lower() for words in ("timed out", "timeout"))


async def responded(hub: Hub, incoming: Incoming, response: Response) -> None:
    """Take the client's response to a request of the hub. Unknown ids and late responses are ignored (B25-10)."""
    session = await session_of(hub, incoming)
    named = _OURS.fullmatch(response.id) if isinstance(response.id, str) else None
    asked = await hub.lanes.run(asked_of, session.id, int(named[1])) if named else None
    if asked is None or not asked.open:
        return
    if asked.page:
        # The response to a request to open a page, even an error, is never an answer to the question.
        assert asked.question.id is not None  # `asked_of` has read it
        verdict, reason = _page_answer(asked, response)
        actor = replace(calls.actor_of(incoming), reason=reason)
        await hub.lanes.run(answer_page, asked.task_id, asked.question.id, verdict, actor=actor)
        return
    calls.need_scope(incoming.principal, "tasks:answer")
    await _take(hub, incoming, asked, response)


def _page_answer(asked: OutboundRequest, response: Response) -> tuple[str, str]:
    """The client's answer to a request to open a page (`accept`, `decline`, `cancel`, or `refused` for an error), and
    the message of the error. Nothing can be sent back to the client, so an answer that does not fit counts as an
    error."""
    match hosted.read(asked, response):
        case hosted.Refusal(error):
            return "refused", str(jsonx.repaired(error["message"]))
    try:
        return page_verdict(response.result), ""
    except Invalid as invalid:
        return "refused", _misfit(invalid)


def _misfit(invalid: Invalid) -> str:
    where = invalid.data.get("pointer", "")
    at = f" at {where}" if where else ""
    return f"The client's answer does not fit the question{at}: {invalid.message}"


async def _take(hub: Hub, incoming: Incoming, asked: OutboundRequest, response: Response) -> None:
    actor = calls.actor_of(incoming)
    match hosted.read(asked, response):
        case hosted.Further(method, params, seconds):
            await hub.lanes.run(ask_further, asked.id, method, params, seconds=seconds)
        case hosted.Refusal(error):
            await hub.lanes.run(refuse_request, asked.id, asked.task_id, asked.question, error, actor=actor)
        case hosted.Answer(result):
            try:
                await hub.lanes.run(answer_request, asked.id, asked.task_id, asked.question, result, actor=actor)
            except Invalid as invalid:
                # Nothing can be sent back to the client, so this counts as the client's error.
                error = {"code": INVALID_PARAMS, "message": _misfit(invalid)}
                await hub.lanes.run(refuse_request, asked.id, asked.task_id, asked.question, error, actor=actor)
